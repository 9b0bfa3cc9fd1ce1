"""Anthropic's own client against the gateway."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from pydantic import BaseModel

from tests.gateway.deployment import Deployment, deployed
from tests.gateway.test_golden_messages import named_events

MESSAGES: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOLS: list[Any] = [
    {
        "name": "get_weather",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    }
]
THOUGHT = "<think>\nHm.\n</think>\n\n"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
KEY = {"authorization": "Bearer secret"}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with deployed("--api-key", "secret") as made:
        yield made


@pytest.fixture(scope="module")
def client(deployment: Deployment) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=deployment.gateway.url, auth_token="secret", max_retries=0, timeout=30
    ) as client:
        yield client


def asked(text: str, **fields: Any) -> dict[str, Any]:
    """What makes the model say a text."""
    xargs = {"force_text": text, **fields.pop("xargs", {})}
    base: dict[str, Any] = {"model": "qwen3", "max_tokens": 500, "messages": MESSAGES}
    return base | fields | {"extra_body": {"vllm_xargs": xargs}}


def raw(text: str, **fields: Any) -> dict[str, Any]:
    """The same as a body."""
    body = asked(text, **fields)
    return body | body.pop("extra_body")


def quiet(deployment: Deployment) -> None:
    """Waits until nothing runs on the engine any more."""
    for _ in range(100):
        if not deployment.script()["running"]:
            return
        time.sleep(0.05)
    pytest.fail("a request still runs")


def test_a_message_with_thinking(client: anthropic.Anthropic) -> None:
    message = client.messages.create(
        **asked(THOUGHT + "Sunny.", thinking={"type": "adaptive"}, system="Be brief.")
    )
    thinking, text = message.content
    assert (thinking.type, text.type) == ("thinking", "text")
    assert (thinking.thinking, text.text) == ("\nHm.\n", "\n\nSunny.")
    assert (message.role, message.model, message.stop_reason) == ("assistant", "qwen3", "end_turn")
    assert message.stop_sequence is None
    assert message.usage.input_tokens > 9
    assert message.usage.output_tokens == 11


def test_a_tool_is_used_and_its_result_read(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**asked(THOUGHT + CALL, tools=TOOLS))
    assert message.stop_reason == "tool_use"
    use = message.content[-1]
    assert use.type == "tool_use"
    assert use.input == {"city": "Paris", "days": 3}
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "Rain."}
    again = client.messages.create(
        **asked(
            "</think>Rain.",
            tools=TOOLS,
            messages=[
                *MESSAGES,
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": [result]},
            ],
        )
    )
    assert [block.type for block in again.content] == ["text"]
    assert again.usage.input_tokens > message.usage.input_tokens


def test_the_text_of_a_stream(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**asked(THOUGHT + "one two three")) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(pieces) > 2
    assert "".join(pieces) == "\n\none two three"
    assert [block.type for block in final.content] == ["thinking", "text"]
    whole = client.messages.create(**asked(THOUGHT + "one two three"))
    for message in (final, whole):
        assert message.content[0].type == "thinking"
        message.id = message.content[0].signature = ""
    assert final.to_dict() == whole.to_dict()


def test_the_events_of_a_stream_with_calls(client: anthropic.Anthropic) -> None:
    text = THOUGHT + "I look.\n" + CALL + "\n" + CALL
    with client.messages.stream(**asked(text, tools=TOOLS)) as stream:
        events = list(stream)
        final = stream.get_final_message()
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 4
    pieces = [event.partial_json for event in events if event.type == "input_json"]
    assert len(pieces) > 4
    assert "".join(pieces) == '{"city": "Paris", "days": 3}' * 2
    thinking = [event.thinking for event in events if event.type == "thinking"]
    assert len(thinking) > 1
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use", "tool_use"]
    uses = [block for block in final.content if block.type == "tool_use"]
    assert [use.input for use in uses] == [{"city": "Paris", "days": 3}] * 2
    assert len({use.id for use in uses}) == 2
    assert final.stop_reason == "tool_use"
    assert final.usage.output_tokens > 30


def test_stop_sequences_end_the_engines_request_too(
    client: anthropic.Anthropic, deployment: Deployment
) -> None:
    fields = asked(
        THOUGHT + "one END two " * 200, stop_sequences=["END"], max_tokens=2000, xargs={"force_delay": 0.01}
    )
    began = time.monotonic()
    whole = client.messages.create(**fields)
    with client.messages.stream(**fields) as stream:
        final = stream.get_final_message()
    quiet(deployment)
    assert time.monotonic() - began < 10  # to its end the engine would take twenty seconds
    for message in (whole, final):
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
        assert message.content[-1].type == "text"
        assert message.content[-1].text == "\n\none "
        assert message.usage.output_tokens < 20


class Weather(BaseModel):
    """Of a city."""

    city: str
    days: int


def test_structured_output_is_parsed(client: anthropic.Anthropic) -> None:
    message = client.messages.parse(**asked(THOUGHT + '{"city": "Paris", "days": 3}'), output_format=Weather)
    assert message.parsed_output == Weather(city="Paris", days=3)


def test_max_tokens(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**asked("<think>\nI wonder about it", max_tokens=4))
    assert message.stop_reason == "max_tokens"
    assert [block.type for block in message.content] == ["thinking"]
    assert message.usage.output_tokens == 4


def test_several_at_a_time(deployment: Deployment) -> None:
    """The asynchronous client."""
    import asyncio

    async def one(client: anthropic.AsyncAnthropic, number: int) -> str:
        async with client.messages.stream(**asked(f"</think>number {number}")) as stream:
            return "".join([piece async for piece in stream.text_stream])

    async def talk() -> list[str]:
        async with anthropic.AsyncAnthropic(
            base_url=deployment.gateway.url, auth_token="secret", max_retries=0
        ) as client:
            return await asyncio.gather(*(one(client, number) for number in range(20)))

    assert asyncio.run(talk()) == [f"number {number}" for number in range(20)]


def test_errors_have_anthropics_types(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(**asked("x", model="no"))
    message = "The model `no` does not exist. Valid aliases: qwen3."
    error = {"type": "not_found_error", "message": message}
    assert missing.value.body == {"type": "error", "error": error}
    for fields in ({"max_tokens": 10**7}, {"max_tokens": 0}, {"messages": []}):
        for stream in (False, True):
            with pytest.raises(anthropic.BadRequestError) as refused:
                client.messages.create(**asked("x", **fields), stream=stream)
            body: Any = refused.value.body
            assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
            assert body["error"]["message"]


def test_an_engine_that_refuses_is_an_overload(deployment: Deployment) -> None:
    for stream in (False, True):
        body = raw("x", stream=stream, xargs={"force_fault": "refuse"})
        answer = deployment.gateway.post("/v1/messages", body, **KEY)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.headers["content-type"] == "application/json"
        assert (answer.json()["type"], answer.json()["error"]["type"]) == ("error", "overloaded_error")


def test_an_error_within_a_stream_is_an_event(client: anthropic.Anthropic, deployment: Deployment) -> None:
    whole, early, late = (
        asked("</think>one two three", xargs={"force_fault": fault})
        for fault in ("error", "error", "error:3")
    )
    with pytest.raises(anthropic.InternalServerError, match="Internal server error"):
        client.messages.create(**whole)
    for fields in (early, late):
        with (
            pytest.raises(anthropic.APIStatusError, match="Internal server error"),
            client.messages.stream(**fields) as stream,
        ):
            stream.get_final_message()
    body = raw("</think>one two three", stream=True, xargs={"force_fault": "error:3"})
    said = named_events(deployment.gateway.post("/v1/messages", body, **KEY).text)
    error = {"type": "api_error", "message": "Internal server error"}
    assert said[-1] == {"type": "error", "error": error}
    assert "".join(event["delta"]["text"] for event in said if "delta" in event) == "one two"


def test_keys(deployment: Deployment) -> None:
    """They come as bearer tokens, and the header x-api-key is not looked at."""
    url = deployment.gateway.url
    with anthropic.Anthropic(base_url=url, api_key="secret", max_retries=0) as client:
        assert client.messages.create(**asked("</think>x")).content[0].type == "text"
    with (
        anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0) as client,
        pytest.raises(anthropic.AuthenticationError),
    ):
        client.messages.create(**asked("x"))
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        assert deployment.gateway.post(path, raw("x"), **{"x-api-key": "secret"}).status_code == 401


def test_who_goes_away_ends_the_engines_request(deployment: Deployment) -> None:
    body = raw("</think>" + "word " * 400, max_tokens=400, stream=True, xargs={"force_delay": 0.05})
    url = f"{deployment.gateway.url}/v1/messages"
    with httpx2.stream("POST", url, json=body, headers=KEY, timeout=30, trust_env=False) as answer:
        first = next(answer.iter_text())
    assert first.startswith("event: message_start\n")
    quiet(deployment)


def test_the_stream_on_the_wire(deployment: Deployment) -> None:
    answer = deployment.gateway.post("/v1/messages", raw("</think>one two", stream=True), **KEY)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    said = named_events(answer.text)
    assert said[-1] == {"type": "message_stop"}
    assert said[-2]["usage"] == {
        "input_tokens": said[0]["message"]["usage"]["input_tokens"],
        "output_tokens": 4,
    }


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Be brief."},
        {"tools": TOOLS},
        {"tools": TOOLS, "tool_choice": {"type": "any"}},
        {"tools": TOOLS, "tool_choice": {"type": "none"}},
        {"thinking": {"type": "disabled"}},
        {"messages": [*MESSAGES, {"role": "assistant", "content": "Rain."}, MESSAGES[0]]},
    ],
)
def test_counted_tokens_are_those_of_the_message(client: anthropic.Anthropic, fields: dict[str, Any]) -> None:
    count = client.messages.count_tokens(**{"model": "qwen3", "messages": MESSAGES} | fields)
    text = CALL if fields.get("tool_choice") else THOUGHT
    message = client.messages.create(**asked(text, **fields))
    assert count.input_tokens == message.usage.input_tokens


def test_counting_needs_no_engine(client: anthropic.Anthropic, deployment: Deployment) -> None:
    before = deployment.script()["requests"]
    count = client.messages.count_tokens(model="qwen3", messages=MESSAGES)
    assert count.to_dict() == {"input_tokens": 15, "context_management": {"original_input_tokens": 15}}
    assert deployment.script()["requests"] == before


def test_what_cannot_be_counted(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="no", messages=MESSAGES)
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.count_tokens(model="qwen3", messages="x")  # type: ignore[arg-type]
    body: Any = refused.value.body
    assert body["error"]["type"] == "invalid_request_error"


def test_they_are_documented(deployment: Deployment) -> None:
    document = deployment.gateway.get("/openapi.json").json()
    message = document["paths"]["/v1/messages"]["post"]["responses"]
    assert set(message["200"]["content"]) == {"application/json", "text/event-stream"}
    count = document["paths"]["/v1/messages/count_tokens"]["post"]["responses"]
    assert set(count["200"]["content"]) == {"application/json"}
    for responses in (message, count):
        schema = responses["400"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/ErrorEvent"}
