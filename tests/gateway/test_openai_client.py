"""OpenAI's own client against the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.gateway.deployment import deployed

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
MESSAGES: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]


class Weather(BaseModel):
    """Of a city."""

    city: str
    days: int


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with (
        deployed() as made,
        openai.OpenAI(base_url=f"{made.gateway.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def forced(text: str, **xargs: Any) -> dict[str, Any]:
    return {"vllm_xargs": {"force_text": text, **xargs}}


def test_a_chat(client: openai.OpenAI) -> None:
    body = forced("<think>\nHm.\n</think>\n\nSunny.")
    answer = client.chat.completions.create(model="qwen3", messages=MESSAGES, extra_body=body)
    assert answer.choices[0].message.content == "\n\nSunny."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 4


def test_several_choices_with_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="qwen3", messages=MESSAGES, n=2, logprobs=True, top_logprobs=2, extra_body=forced("a b c")
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        assert [len(token.top_logprobs) for token in choice.logprobs.content] == [2] * 4


def test_a_call(client: openai.OpenAI) -> None:
    tool: Any = openai.pydantic_function_tool(Weather, name="get_weather")
    answer = client.chat.completions.create(
        model="qwen3", messages=MESSAGES, tools=[tool], extra_body=forced(CALL)
    )
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    call: Any = choice.message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Paris", "days": 3}
    again = client.chat.completions.create(
        model="qwen3",
        messages=[
            *MESSAGES,
            choice.message.model_dump(exclude_none=True),  # type: ignore[list-item]
            {"role": "tool", "tool_call_id": call.id, "content": "Rain."},
        ],
        tools=[tool],
        extra_body=forced("</think>Rain."),
    )
    assert again.choices[0].message.content == "Rain."


def test_a_streamed_call_with_the_streaming_helper(client: openai.OpenAI) -> None:
    tool: Any = openai.pydantic_function_tool(Weather, name="get_weather")
    body = forced(f"<think>\nHm.\n</think>\n\nLet me look.{CALL}")
    with client.chat.completions.stream(
        model="qwen3",
        messages=MESSAGES,
        tools=[tool],
        stream_options={"include_usage": True},
        extra_body=body,
    ) as stream:
        kinds = [event.type for event in stream]
        answer = stream.get_final_completion()
    assert "content.delta" in kinds
    assert kinds.count("tool_calls.function.arguments.done") == 1
    assert "tool_calls.function.arguments.delta" in kinds
    call = answer.choices[0].message.tool_calls[0]  # type: ignore[index]
    assert call.function.parsed_arguments == Weather(city="Paris", days=3)
    assert answer.choices[0].message.content == "\n\nLet me look."
    assert answer.usage is not None
    assert answer.usage.total_tokens > answer.usage.prompt_tokens


def test_a_raw_stream_ends(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="qwen3", messages=MESSAGES, stream=True, n=2, extra_body=forced("</think>one two three")
    )
    texts = {0: "", 1: ""}
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "one two three", 1: "one two three"}


def test_structured_output_is_parsed(client: openai.OpenAI) -> None:
    body = forced('<think>\nHm.\n</think>{"city": "Paris", "days": 3}')
    answer = client.chat.completions.parse(
        model="qwen3", messages=MESSAGES, response_format=Weather, extra_body=body
    )
    assert answer.choices[0].message.parsed == Weather(city="Paris", days=3)
    with client.chat.completions.stream(
        model="qwen3", messages=MESSAGES, response_format=Weather, extra_body=body
    ) as stream:
        assert [event.type for event in stream][-1] == "content.done"
        assert stream.get_final_completion().choices[0].message.parsed == Weather(city="Paris", days=3)


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="qwen3", prompt=["One", "Two"], echo=True, extra_body=forced(" and so on")
    )
    assert [choice.text for choice in answer.choices] == ["One and so on", "Two and so on"]
    stream = client.completions.create(
        model="qwen3",
        prompt=["One", "Two"],
        stream=True,
        stream_options={"include_usage": True},
        extra_body=forced(" and so on"),
    )
    texts, tokens = ["", ""], 0
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
    assert texts == [" and so on"] * 2
    assert tokens == 8


def test_errors_have_their_types(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="no", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="qwen3", messages=MESSAGES, max_tokens=10**7)
    with pytest.raises(openai.APIError, match="Internal server error"):
        body = forced("one two three", force_fault="error")
        for _ in client.chat.completions.create(
            model="qwen3", messages=MESSAGES, stream=True, extra_body=body
        ):
            pass
