"""Paths, comparison, chunking and putting streams together."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderd.conformance import chunking
from renderd.conformance.assemble import Assembly, outline
from renderd.conformance.cases import readable
from renderd.conformance.compare import Rules, by_token, call_id, differences, form, identifier, text
from renderd.conformance.paths import ABSENT, covers, find, get, parse, show
from renderd.conformance.rules import HTTP, SCHEMA_ERROR


def test_paths() -> None:
    path = parse("choices[0].message.tool_calls[12]")
    assert path == ("choices", 0, "message", "tool_calls", 12)
    assert parse(show(path)) == path
    assert parse("[*].*") == ("*", "*")
    value = {"choices": [{"a": 1}, {"a": 2, "b": 3}]}
    assert get(value, ("choices", 1, "b")) == 3
    assert get(value, ("choices", 2)) is get(value, ("choices", "x")) is ABSENT
    assert find(value, parse("choices[*].b")) == [("choices", 0, "b"), ("choices", 1, "b")]
    assert covers(parse("choices[*]"), ("choices", 0, "a"))
    assert not covers(parse("choices[1]"), ("choices", 0, "a"))
    for wrong in ("a[", "a[x]", "a]"):
        with pytest.raises(ValueError, match="is no path"):
            parse(wrong)


def test_the_events_of_each_choice_are_compared_in_order() -> None:
    events = [{"choices": [{"index": index}]} for index in (0, 1, 0)] + [{"choices": [], "usage": {}}]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    by_choice = {"0": [events[0], events[2]], "1": [events[1]], "": [events[3]]}
    assert readable(body, "text/event-stream; charset=utf-8") == by_choice
    assert readable(body, "text/plain") == body


def found(want: Any, got: Any, **rules: Any) -> list[str]:
    return [show(one.path) for one in differences(want, got, Rules(rules, absent_is_null=False))]


def test_differences() -> None:
    assert found({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) == []
    assert found({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3, "c": 4}]}) == ["a[1].b", "a[1].c"]
    assert found({"a": [1]}, {"a": [1, 2]}) == ["a"]
    assert found({"a": None}, {}) == ["a"]
    assert found(1, True) == [""]
    assert found(1.0, 1) == []
    assert found({"ids": [1, 2]}, {"ids": [1.0, 2.0]}) == ["ids[0]", "ids[1]"]
    assert found({"id": 1}, {"id": 1.0}, id=identifier) == ["id"]
    assert found({"a": ""}, {"a": None}, a=text) == []
    assert not list(differences({"a": None}, {}, Rules({}, absent_is_null=True)))


TOKEN = {"token_id": 5, "logprob": -1.5, "rank": 2}


@pytest.mark.parametrize(
    ("got", "good"),
    [
        ([TOKEN | {"token_id": 7, "logprob": -2, "rank": 9}], True),
        ([TOKEN | {"rank": None}], False),
        ([TOKEN | {"rank": 2.0}], False),
        ([TOKEN | {"token_id": "5"}], False),
        ([TOKEN | {"logprob": "x"}], False),
        ([TOKEN | {"more": 1}], False),
        ([{}], False),
        ([TOKEN, TOKEN], False),
        ([None], False),
        (None, False),
    ],
)
def test_of_one_form(got: Any, good: bool) -> None:
    assert form([TOKEN], got) == good


def test_texts_of_one_form() -> None:
    assert form("0.33.0", "7") and form(None, None)
    for other in ("", None, 3, ABSENT, {}):
        assert not form("0.33.0", other)


def test_tokens_of_a_prompt_are_the_engines() -> None:
    entry = {"logprob": -1.5, "rank": 2, "decoded_token": None}
    want = [None, {"7": entry, "8": entry}]
    assert by_token(want, [None, {"9": entry | {"rank": 3}}])
    assert by_token(None, None)
    for wrong in (None, [None], [None, None], [None, {}], [None, {"x": entry}], [{"7": entry}] * 2):
        assert not by_token(want, wrong)
    for change in ({"rank": None}, {"logprob": "x"}, {"decoded_token": 3}, {"more": 1}):
        assert not by_token(want, [None, {"7": entry | change}])


def test_random_ids_are_equal_by_shape() -> None:
    assert identifier("chatcmpl-tool-8123456789abcdef", "chatcmpl-tool-af23456789abcde0")
    assert identifier("cmpl-8123456789abcdef-1", "cmpl-9123456789abcdef-1")
    assert not identifier("cmpl-8123456789abcdef-1", "cmpl-9123456789abcdef-2")
    assert not identifier("chatcmpl-8123456789abcdef", "cmpl-8123456789abcdef")
    assert not identifier("functions.get:0", "functions.get:1")
    assert call_id("pH9wIzDDF", "5TDT6XMv5") and not call_id("pH9wIzDDF", "5TDT6XMv")
    assert not call_id("functions", "functors_")


@given(st.integers(0, 40), st.one_of(st.integers(1, 9), st.integers().map(random.Random)))
def test_chunks_carry_every_token_once(count: int, size: Any) -> None:
    logprobs = {"content": [{"token_id": token} for token in range(count)]}
    choice = {"index": 1, "token_ids": list(range(count)), "finish_reason": "length", "logprobs": logprobs}
    events = chunking.events({"request_id": "r", "choices": [choice], "prompt_token_ids": [7]}, 0, size)
    parts = [event["choices"][0] for event in events]
    assert [token for part in parts for token in part["token_ids"]] == list(range(count))
    assert [one for part in parts for one in part["logprobs"]["content"]] == logprobs["content"]
    assert [part["finish_reason"] for part in parts] == [None] * (len(parts) - 1) + ["length"]
    assert [event.get("prompt_token_ids") for event in events] == [[7]] + [None] * (len(parts) - 1)


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}


def call(index: int, **function: Any) -> dict[str, Any]:
    head = {"id": f"c{index}", "type": "function"} if "name" in function else {}
    return {"tool_calls": [{"index": index, **head, "function": function}]}


START = chunk({"role": "assistant", "content": ""})
END = chunk({}, "stop")


def assemble(*chunks: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    assembly = Assembly()
    for one in chunks:
        assembly.add(one)
    answer = assembly.answer()
    return answer["choices"][0] if answer["choices"] else {}, assembly.faults


def test_a_stream_is_put_together() -> None:
    answer, faults = assemble(
        START,
        chunk({"reasoning": "a"}),
        chunk({"reasoning": "b"}, logprobs={"content": [1]}, token_ids=[5]),
        chunk({"content": "c"}, logprobs={"content": [2]}, token_ids=[6]),
        chunk(call(0, name="f")),
        chunk(call(0, arguments="{")),
        chunk(call(0, arguments="}")),
        chunk(call(1, name="g", arguments="1")),
        chunk({}, "tool_calls", stop_reason=7),
    )
    assert faults == []
    batch_calls = [
        {"id": "c0", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c1", "type": "function", "function": {"name": "g", "arguments": "1"}},
    ]
    message = {"role": "assistant", "content": "c", "reasoning": "ab", "tool_calls": batch_calls}
    batch = {"index": 0, "message": message, "finish_reason": "tool_calls", "stop_reason": 7}
    batch |= {"logprobs": {"content": [1, 2]}, "token_ids": [5, 6]}
    assert answer == outline({"choices": [batch]})["choices"][0]


@pytest.mark.parametrize(
    ("chunks", "fault"),
    [
        ([chunk({"content": "x"}), END], "no role on the first chunk"),
        ([START, START, END], "role came again"),
        ([START], "never finished"),
        ([START, END, chunk({"content": "x"})], "news after the finish"),
        ([START, chunk(call(0, arguments="{")), END], "call 0 starts without id, type or name"),
        ([START, chunk(call(1, name="f")), END], "call 1 spoken of when 0 calls had started"),
        (
            [START, chunk(call(0, name="f")), chunk(call(1, name="g")), chunk(call(0, arguments="x")), END],
            "call 0 spoken of when 2 calls had started",
        ),
        ([START, chunk(call(0, name="f")), chunk(call(0, name="f")), END], "call 0 started twice"),
    ],
)
def test_faults_of_order(chunks: list[dict[str, Any]], fault: str) -> None:
    assert f"choice 0: {fault}" in assemble(*chunks)[1]


def test_faults_of_the_envelope() -> None:
    assert assemble(START, END | {"id": "y"})[1] == ["id changed from 'x' to 'y'"]
    assert assemble(START, END | {"object": "chat"})[1] == ["object is 'chat'"]


@pytest.mark.parametrize(
    ("want", "got", "good"),
    [
        ("body.n", "body.n", True),
        ("body.DerenderChatRequest.stream", "body.stream", True),
        ("body.0.function", "body.messages.1.tool_calls.0.function.arguments", True),
        ("body.n", "body", False),
        ("body.n", "body.max_tokens", False),
        ("body.n", None, False),
        (None, "body", False),
    ],
)
def test_a_schema_error_names_its_place(want: str | None, got: str | None, good: bool) -> None:
    left, right = ({"param": param, "message": str(param)} for param in (want, got))
    assert (not list(differences(left, right, SCHEMA_ERROR))) == good


def test_states_of_the_reference_have_ids_of_calls() -> None:
    def state(name: str) -> Any:
        return {"stream_state": {"role_sent": True, "last_tool_call_ids": [f"chatcmpl-tool-{name}"]}}

    wanted = state("a1fe9154516194b9")
    assert not any(differences(wanted, state("8cb9beb6a2fd3a6b"), HTTP))
    assert any(differences(wanted, state("x"), HTTP))
    assert any(differences(wanted, {"stream_state": {"role_sent": True}}, HTTP))
