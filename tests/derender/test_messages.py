"""`/v1/messages/derender`, whole and streamed, seen through Anthropic's own client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import APIStatusError
from anthropic.types import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from renderd.conformance.formats import assembly, outline
from renderd.derender import DerenderOptions
from tests.derender.messages import PING, WEATHER, Events, received, request, whole
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
    return {"messages_request": request(**fields), "prompt_token_ids": PROMPT}


def both(text: str, finish: str = "stop", size: int = 1, **fields: Any) -> tuple[Json, list[Json]]:
    """The message, and the events of the same output streamed."""
    ids = [*encode(text), EOS] if finish == "stop" else encode(text)
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    message = whole(qwen, generate_response=response(ids, finish_reason=finish), **body(**fields))
    events = Events(qwen, **body(**fields)).send_all(chunks(ids, [size] * len(ids), finish))
    return message, events


def agreed(text: str, finish: str = "stop", **fields: Any) -> Message:
    """The message that the client gets, the same streamed and whole; the order of events checked."""
    message, events = both(text, finish, **fields)
    got = received(message)
    Message.model_validate(message)
    assert received(events).to_dict() == got.to_dict()
    made = assembly(events)
    assert made.answer() == outline(message)
    assert made.faults == []
    return got


def test_reasoning_text_and_calls() -> None:
    got = agreed(THOUGHT + "I ask.\n" + CALL + "\n" + PINGED, **TOOLS)
    assert [block.type for block in got.content] == ["thinking", "text", "tool_use", "tool_use"]
    thinking, text, weather, ping = (block.to_dict() for block in got.content)
    assert thinking["thinking"] == "\nHm.\n"
    assert len(str(thinking["signature"])) == 32
    assert text["text"] == "\n\nI ask.\n"
    assert (weather["name"], weather["input"]) == ("get_weather", {"city": "Zürich 🌍", "days": 3})
    assert (ping["name"], ping["input"]) == ("ping", {})
    assert weather["id"] != ping["id"]
    assert (got.stop_reason, got.stop_sequence) == ("tool_use", None)
    assert got.usage.input_tokens == len(PROMPT)
    assert (got.model, got.role, got.id) == ("qwen3", "assistant", "rq")


def test_without_tools_a_call_is_no_call() -> None:
    assert agreed(THOUGHT + CALL).stop_reason == "end_turn"
    kept = agreed(THOUGHT + CALL, tools=[WEATHER], tool_choice={"type": "none"})
    assert [block.type for block in kept.content] == ["thinking", "text"]


def test_a_call_that_had_to_be_made_is_a_use_of_a_tool() -> None:
    for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
        got = agreed(THOUGHT + CALL, tools=[WEATHER], tool_choice=choice)
        assert (got.stop_reason, got.content[-1].type) == ("tool_use", "tool_use")


def test_one_call_alone_where_the_request_wants_no_parallel_ones() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    got = agreed(THOUGHT + CALL + "\n" + PINGED, **TOOLS, tool_choice=choice)
    assert [block.type for block in got.content] == ["thinking", "tool_use"]


def test_stop_sequences() -> None:
    message, events = both(THOUGHT + "One END two", stop_sequences=["END"])
    got = received(message)
    assert (got.stop_reason, got.stop_sequence) == ("stop_sequence", "END")
    assert got.content[-1].to_dict()["text"] == "\n\nOne "
    streamed = received(events)
    assert streamed.to_dict() | {"usage": None} == got.to_dict() | {"usage": None}


@pytest.mark.parametrize("finish", ["error", "abort"])
def test_what_the_engine_did_not_end_is_an_error(finish: str) -> None:
    qwen, ids = derenderer(reasoning="qwen3", tools="hermes"), encode(THOUGHT + "Hi")
    error = refusal(qwen, "messages", generate_response=response(ids, finish_reason=finish), **body())
    assert (error.status, error.type) == (500, "InternalServerError")
    events = Events(qwen, **body()).send_all(chunks(ids, [1] * len(ids), finish))
    assert events[-1] == {"type": "error", "error": {"type": "api_error", "message": error.message}}
    assert "".join(event["delta"].get("text", "") for event in events if "delta" in event) == "\n\nHi"
    with pytest.raises(APIStatusError, match=error.message):
        received(events)


def test_length() -> None:
    assert agreed("<think>\nI wonder", "length").stop_reason == "max_tokens"
    got = agreed(THOUGHT + CALL, "length", tools=[WEATHER])
    assert (got.stop_reason, got.content[-1].type) == ("max_tokens", "tool_use")


@pytest.mark.parametrize(
    ("cut", "given"),
    [
        ('{"city": "Zür', {}),
        ('{"city": "Zürich", "days": 3', {"city": "Zürich", "days": 3}),
        ('{"city": ["a", "b', {"city": ["a"]}),
        ('{"city"', {}),
    ],
)
def test_a_cut_call_has_what_is_complete_of_its_input(cut: str, given: Json) -> None:
    text = THOUGHT + '<tool_call>\n{"name": "get_weather", "arguments": ' + cut
    got = agreed(text, "length", tools=[WEATHER])
    assert got.content[-1].to_dict()["input"] == given


def test_arguments_that_are_no_object_are_handed_over_as_text() -> None:
    text = THOUGHT + '<tool_call>\n{"name": "get_weather", "arguments": [1, 2]}\n</tool_call>'
    message, _ = both(text, tools=[WEATHER])
    assert message["content"][-1]["input"] == {"INVALID_JSON": "[1, 2]"}


def test_nothing_said_is_no_block() -> None:
    assert agreed("").content == []


def test_each_event_comes_as_soon_as_it_can() -> None:
    stream = Events(derenderer(reasoning="qwen3", tools="hermes"), **body(tools=[WEATHER]))
    first = stream.send(chunk(encode("<think>")))
    assert [event["type"] for event in first] == ["message_start"]
    kinds = [event["type"] for event in stream.send(chunk(encode("Hm")))]
    assert kinds == ["content_block_start", "content_block_delta"]
    stream.send(chunk(encode('</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "')))
    told = stream.send(chunk(encode("Zürich")))
    assert [event["delta"] for event in told] == [{"type": "input_json_delta", "partial_json": "Zürich"}]


def test_a_usage_event_of_the_engine_says_nothing_more() -> None:
    stream = Events(derenderer(), **body())
    usage = {"prompt_tokens": 7, "total_tokens": 9, "completion_tokens": 2}
    first = {**chunk(encode("Hello")), "usage": usage}
    events = [*stream.send(first), *stream.send(chunk([EOS], finish_reason="stop"))]
    assert stream.send({"request_id": "rq", "choices": [], "usage": usage}) == []
    assert events[-1] == {"type": "message_stop"}
    assert events[-2]["usage"] == {"input_tokens": len(PROMPT), "output_tokens": 2}


def test_nothing_comes_behind_the_end() -> None:
    for stream in (Events(derenderer(), **body()), Events(derenderer(reasoning="qwen3"), **body())):
        stream.send(chunk(encode("Hello"), finish_reason="stop"))
        assert stream.send(chunk(encode(" again"))) == []


def test_the_prompt_is_counted_by_whoever_knows_it() -> None:
    given = body() | {"prompt_tokens": 5}
    assert whole(derenderer(), generate_response=response([9707]), **given)["usage"]["input_tokens"] == 5
    unknown = {"messages_request": request(), "stream": True}
    usage = {"prompt_tokens": 6, "total_tokens": 7, "completion_tokens": 1}
    started = Events(derenderer(), **unknown).send({**chunk([9707]), "usage": usage})[0]
    assert started["message"]["usage"] == {"input_tokens": 6, "output_tokens": 0}


def test_request_and_prompt_are_needed_at_the_first_event_only() -> None:
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    stream = Events(qwen, **body(tools=[WEATHER]))
    events = stream.send(chunk(encode("<think>\nHm")))
    stream.requests = {}
    rest = [*encode("\n</think>\n\n" + CALL), EOS]
    events += stream.send_all(chunks(rest, [3] * len(rest)))
    assert [block.type for block in received(events).content] == ["thinking", "tool_use"]


def test_the_state_stays_small() -> None:
    stream = Events(derenderer(reasoning="qwen3", tools="hermes"), **body(**TOOLS))
    sizes = []
    for token_id in encode((THOUGHT + "word " * 20 + CALL) * 20):
        stream.send(chunk([token_id]))
        sizes.append(len(json.dumps(stream.state)))
    assert max(sizes) < 1200


def test_refusals() -> None:
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    one = response([9707])

    def refused(**fields: Any) -> tuple[int, str, str | None]:
        error = refusal(qwen, "messages", **fields)
        return error.status, error.type, error.param

    assert refused(generate_response=one) == (400, "BadRequestError", None)
    assert refused(**body()) == (400, "Bad Request", "body.DerenderMessagesRequest.generate_response")
    place = "body.DerenderMessagesRequest.messages_request.max_tokens"
    assert refused(**body(max_tokens=0), generate_response=one) == (400, "Bad Request", place)
    assert refused(**body(), model="x", generate_response=one) == (404, "NotFoundError", "model")
    two = {"request_id": "rq", "choices": [{"index": n, "token_ids": [9707]} for n in (0, 1)]}
    for answer in (two, {"request_id": "rq", "choices": []}):
        assert refused(**body(), generate_response=answer) == (400, "BadRequestError", None)
    for state in ({}, {"parser_state": "AAAA"}):
        asked = {**body(), "stream": True, "generate_chunk": chunk([9707]), "stream_state": state}
        assert refused(**asked) == (400, "BadRequestError", None)


def test_states_of_other_routes_are_refused() -> None:
    qwen = derenderer(reasoning="qwen3", tools="hermes")
    chat = {"chat_request": {"messages": []}, "prompt_token_ids": PROMPT, "stream": True}
    answer = qwen.chat(json.dumps({**chat, "generate_chunk": chunk([9707])}).encode())
    state = json.loads(answer)["stream_state"]
    asked = {**body(), "stream": True, "generate_chunk": chunk([9707]), "stream_state": state}
    assert refusal(qwen, "messages", **asked).status == 400


@st.composite
def requests(draw: st.DrawFn, name: str) -> Json:
    fields: Json = {}
    if draw(st.booleans()):
        fields["tools"] = [WEATHER, PING]
        kinds = [{"type": kind} for kind in ("auto", "any", "none")]
        choice = draw(st.sampled_from([*kinds, {"type": "tool", "name": "ping"}, None]))
        if choice is not None:
            serial = draw(st.booleans())
            fields["tool_choice"] = {**choice, "disable_parallel_tool_use": serial}
    if draw(st.booleans()):
        fields["stop_sequences"] = draw(st.sampled_from([["STOP"], ["</", "there"], ["\n\n"], ['{"']]))
    if draw(st.booleans()):
        fields["thinking"] = {"type": draw(st.sampled_from(["disabled", "adaptive"]))}
    return request(name, **fields)


@pytest.mark.parametrize(("name", "reasoning", "tools"), FAMILIES)
@pytest.mark.parametrize("options", [DerenderOptions(), DerenderOptions(replayable=True)])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_streams_amount_to_the_message(
    name: str, reasoning: str | None, tools: str | None, options: DerenderOptions, data: st.DataObject
) -> None:
    server = derenderer(name, reasoning, tools, options)
    asked = data.draw(requests(name))
    ids = data.draw(outputs(name))
    finish = data.draw(st.sampled_from(["stop", "length"]))
    prompt = encode(data.draw(st.sampled_from(["hi", "<think>\n", "</think>"])), name)
    given_body: Json = {"messages_request": asked, "prompt_token_ids": prompt}
    message = whole(server, generate_response=response(ids, finish_reason=finish), **given_body)
    events = Events(server, **given_body).send_all(chunks(ids, data.draw(SIZES), finish))
    made = assembly(events)
    expected, got = outline(message), made.answer()
    assert made.faults == []
    if message["stop_sequence"] is not None:  # the engine ran on, to no effect but on its count
        expected["usage"] = got["usage"] = None
    assert got == expected
    broken = any("INVALID_JSON" in block.get("input", {}) for block in message["content"])
    if not broken:
        assert received(events).to_dict()["content"] == received(message).to_dict()["content"]
