"""`/v1/responses/derender`, whole and streamed, seen through OpenAI's own client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response

from renderd.conformance.formats import assembly, outline
from renderd.derender.free_text import FreeText
from tests.derender.responses import (
    PING,
    SHELL,
    SPACE,
    WEATHER,
    Events,
    accumulated,
    received,
    request,
    whole,
)
from tests.derender.support import (
    CALL,
    EOS,
    PINGED,
    PROMPT,
    THOUGHT,
    Json,
    chunk,
    chunks,
    derenderer,
    encode,
    refusal,
    response,
)
from tests.derender.test_properties import FAMILIES, SIZES, outputs

TOOLS: Json = {"tools": [WEATHER, PING]}


def body(**fields: Any) -> Json:
    return {"responses_request": request(**fields), "prompt_token_ids": PROMPT}


def without_parsed(value: Any) -> Any:
    """What was received, without what the client adds to it."""
    if isinstance(value, list):
        return [without_parsed(one) for one in value]
    if isinstance(value, dict):
        return {key: without_parsed(one) for key, one in value.items() if not key.startswith("parsed")}
    return value


def agreed(output: str, finish: str = "stop", size: int = 1, **fields: Any) -> Response:
    """The Response that the client gets, the same streamed and whole; the order of events checked."""
    ids = [*encode(output), EOS] if finish == "stop" else encode(output)
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    batch = whole(qwen, generate_response=response(ids, finish_reason=finish), **body(**fields))
    events = Events(qwen, **body(**fields)).send_all(chunks(ids, [size] * len(ids), finish))
    got = received(events)
    Response.model_validate(batch)
    assert without_parsed(got.to_dict()) | {"created_at": 0} == batch | {"created_at": 0}
    made = assembly(events)
    assert made.answer() == outline(batch)
    assert made.faults == []
    return got


def test_reasoning_text_and_calls() -> None:
    got = agreed(THOUGHT + "I ask.\n" + CALL + "\n" + PINGED, **TOOLS)
    thinking, text, weather, ping = (item.to_dict() for item in got.output)
    assert thinking["content"] == [{"text": "\nHm.\n", "type": "reasoning_text"}]
    assert got.output_text == "\n\nI ask.\n"
    assert [text["status"], weather["status"], ping["status"]] == ["completed"] * 3
    assert (weather["name"], weather["arguments"]) == (
        "get_weather",
        '{"city": "Zürich 🌍", "days": 3}',
    )
    assert (ping["name"], ping["arguments"]) == ("ping", "{}")
    assert len({item.id for item in got.output}) == 4
    assert got.status == "completed"
    assert got.usage is not None
    assert got.usage.input_tokens == len(PROMPT)
    assert got.usage.output_tokens_details.reasoning_tokens == 4


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<think>\nHm", "reasoning"),
        (THOUGHT + "I ask", "message"),
        ('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zü', "function_call"),
    ],
)
def test_what_was_cut_is_incomplete(text: str, kind: str) -> None:
    got = agreed(text, "length", **TOOLS)
    assert got.status == "incomplete"
    assert got.incomplete_details is not None
    assert got.incomplete_details.reason == "max_output_tokens"
    last = got.output[-1].to_dict()
    assert (last["type"], last["status"]) == (kind, "incomplete")


@pytest.mark.parametrize(("finish", "status"), [("error", "failed"), ("abort", "incomplete")])
def test_what_the_engine_did_not_end_is_not_complete(finish: str, status: str) -> None:
    got = agreed(THOUGHT + "I ask", finish, **TOOLS)
    assert (got.status, got.incomplete_details) == (status, None)
    assert (got.error.code if got.error else None) == ("server_error" if status == "failed" else None)
    assert got.output[-1].to_dict()["status"] == "incomplete"


def test_a_call_in_a_namespace_has_both_names() -> None:
    call = CALL.replace("get_weather", "wx__get_weather")
    (got,) = agreed("</think>" + call, tools=[SPACE]).output
    assert (got.to_dict()["namespace"], got.to_dict()["name"]) == ("wx", "get_weather")


@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_custom_tool_gets_its_text(size: int) -> None:
    arguments = json.dumps({"input": 'echo "ä\n\t🌍" \\ done'})
    call = f'<tool_call>\n{{"name": "shell", "arguments": {arguments}}}\n</tool_call>'
    (got,) = agreed("</think>" + call, size=size, tools=[SHELL]).output
    assert got.to_dict()["type"] == "custom_tool_call"
    assert got.to_dict()["input"] == 'echo "ä\n\t🌍" \\ done'


def test_hidden_reasoning_is_no_item() -> None:
    got = agreed(THOUGHT + "Hi", include_reasoning=False)
    assert [item.type for item in got.output] == ["message"]


def test_one_call_where_one_is_wanted() -> None:
    got = agreed("</think>" + PINGED + "\n" + CALL, **TOOLS, parallel_tool_calls=False)
    assert [item.to_dict()["name"] for item in got.output] == ["ping"]


def test_the_request_is_repeated() -> None:
    fields: Json = {
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "temperature": 0,
        "max_output_tokens": 50,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "tool_choice": {"type": "function", "name": "ping"},
    }
    got = agreed("</think>{}", **TOOLS, **fields).to_dict()
    assert {key: got[key] for key in ("instructions", "metadata", "temperature", "max_output_tokens")} == {
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "temperature": 0.0,
        "max_output_tokens": 50,
    }
    assert got["tool_choice"] == fields["tool_choice"]
    assert isinstance(got["tools"], list)
    assert [tool["name"] for tool in got["tools"]] == ["get_weather", "ping"]


def test_stop_strings_end_a_stream() -> None:
    got = agreed("</think>Hello STOP there", stop=["STOP"])
    assert got.output_text == "Hello "
    assert got.status == "completed"


def test_logprobs_are_those_of_the_text() -> None:
    ids = encode(THOUGHT + "Hi 🌍")
    entries = [{"token_id": i, "logprob": -0.5, "top_logprobs": []} for i in ids]
    asked = body(include=["message.output_text.logprobs"])
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    batch = whole(
        qwen, generate_response=response(ids, finish_reason="length", logprobs={"content": entries}), **asked
    )
    (part,) = batch["output"][1]["content"]
    assert [entry["token"] for entry in part["logprobs"]] == ["\n\n", "Hi", " 🌍"]
    for size in (1, 2, 3, 50):
        events = chunks(ids, [size] * len(ids), "length")
        left = iter(entries)
        for event in events:
            (choice,) = event["choices"]
            choice["logprobs"] = {"content": [next(left) for _ in choice["token_ids"]]}
        told = Events(qwen, **asked).send_all(events)
        assert told[-1]["response"]["output"] == batch["output"]
        spoken = [entry["token"] for one in told if "delta" in one for entry in one.get("logprobs", [])]
        assert spoken == ["\n\n", "Hi", " 🌍"]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_stop_token_has_no_logprob(size: int) -> None:
    """Nor has text that is told only because nothing follows it."""
    ids = [*encode(THOUGHT + 'ok <tool_call>\n{"nam'), EOS]
    entries = [{"token_id": i, "logprob": -0.5, "top_logprobs": []} for i in ids]
    asked = body(include=["message.output_text.logprobs"], **TOOLS)
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    finished = response(ids, finish_reason="stop", logprobs={"content": entries})
    batch = whole(qwen, generate_response=finished, **asked)
    events = chunks(ids, [size] * len(ids))
    left = iter(entries)
    for event in events:
        event["choices"][0]["logprobs"] = {"content": [next(left) for _ in event["choices"][0]["token_ids"]]}
    told = Events(qwen, **asked).send_all(events)
    assert told[-1]["response"]["output"] == batch["output"]
    (part,) = batch["output"][1]["content"]
    assert [entry["token"] for entry in part["logprobs"]] == ["ok", " "]


def test_nothing_follows_the_end() -> None:
    stream = Events(derenderer(), responses_request=request())
    told = stream.send(chunk(encode("Hi"), finish_reason="stop"))
    assert told[-1]["type"] == "response.completed"
    assert stream.send(chunk(encode(" there"))) == []
    assert stream.send({"request_id": "rq", "choices": [], "usage": {"prompt_tokens": 1}}) == []


def test_a_call_repeated_gives_the_same_bytes() -> None:
    ids = [*encode(THOUGHT + CALL), EOS]
    stream = Events(derenderer(reasoning="qwen3", tools="hermes"), **body(**TOOLS))
    stream.send_all(chunks(ids, [3] * len(ids)))
    for sent, answer in list(zip(stream.bodies, stream.answers, strict=True))[1:]:
        assert stream.route(sent) == answer


def test_the_state_grows_with_the_text_alone() -> None:
    sizes = []
    for count in (100, 1000):
        stream = Events(derenderer(reasoning="qwen3", tools="hermes"), **body(**TOOLS))
        stream.send_all([chunk(encode("</think>")), *(chunk(encode(" word")) for _ in range(count))])
        sizes.append(len(json.dumps(stream.state)))
    assert sizes[0] < 3000
    assert sizes[1] - sizes[0] < 900 * len(" word") * 1.4


def test_refusals() -> None:
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    missing = refusal(qwen, "responses", generate_response=response([1]), prompt_token_ids=[1])
    assert "responses_request is required" in missing.message
    several = {"request_id": "r", "choices": [{"index": i, "token_ids": [1]} for i in (0, 1)]}
    assert "one choice" in refusal(qwen, "responses", generate_response=several, **body()).message
    wrong = refusal(qwen, "responses", generate_response=response([1]), responses_request={"input": 3})
    assert wrong.param == "body.DerenderResponsesRequest.responses_request.input"
    for state in ({}, {"parser_state": "AAAA"}, {"parser_state": ""}):
        error = refusal(
            qwen, "responses", stream=True, generate_chunk=chunk([1]), stream_state=state, **body()
        )
        assert error.status == 400
    chat = {"chat_request": {"messages": []}, "prompt_token_ids": [1], "stream": True}
    state = json.loads(qwen.chat(json.dumps({**chat, "generate_chunk": chunk([1])}).encode()))["stream_state"]
    other = refusal(qwen, "responses", stream=True, generate_chunk=chunk([1]), stream_state=state)
    assert "of a stream of the route chat, not responses" in other.message


@given(st.text(), st.lists(st.integers(1, 9)))
@settings(max_examples=200, deadline=None)
def test_free_text_whatever_the_pieces(text: str, sizes: list[int]) -> None:
    for ascii_only in (True, False):
        arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
        reader, found, start = FreeText(), "", 0
        for size in [*sizes, len(arguments)]:
            found += reader.feed(arguments[start : start + size])
            start += size
        assert found + reader.finish() == text


@pytest.mark.parametrize("arguments", ['{"cmd": "ls"}', "ls -l", '{"input": 3}', '["ls"]', '{"in', ""])
def test_other_arguments_of_a_custom_tool_are_its_text(arguments: str) -> None:
    reader = FreeText()
    assert "".join(map(reader.feed, arguments)) + reader.finish() == arguments


@pytest.mark.parametrize(("name", "reasoning", "tools"), FAMILIES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_streams_amount_to_the_batch(
    name: str, reasoning: str | None, tools: str | None, data: st.DataObject
) -> None:
    server = derenderer(name, reasoning, tools)
    fields: Json = {}
    if data.draw(st.booleans()):
        named = {"type": "function", "name": "ping"}
        fields["tools"] = [WEATHER, PING]
        fields["tool_choice"] = data.draw(st.sampled_from(["auto", "none", "required", named]))
    if data.draw(st.booleans()):
        fields["stop"] = data.draw(st.sampled_from(["STOP", ["</", "there"], '{"', "call>"]))
    fields["include_reasoning"] = data.draw(st.booleans())
    fields["parallel_tool_calls"] = data.draw(st.booleans())
    ids, finish = data.draw(outputs(name)), data.draw(st.sampled_from(["stop", "length"]))
    asked = {"responses_request": request(**fields), "prompt_token_ids": encode("hi", name)}
    batch = whole(server, generate_response=response(ids, finish_reason=finish), **asked)
    events = Events(server, **asked).send_all(chunks(ids, data.draw(SIZES), finish))
    made = assembly(events)
    assert made.answer() == outline(batch)
    assert made.faults == []
    said = {
        index: item["content"][0]["text"] if item.get("content") else item.get("arguments", "")
        for index, item in enumerate(batch["output"])
    }
    assert accumulated(events) == {index: text for index, text in said.items() if text}
