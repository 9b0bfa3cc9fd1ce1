"""How messages reach a template (contract C.2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.render.support import Json, chat, chat_text, refusal

AS_TEXT = "{{ messages | tojson }}"
AS_PARTS = "{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}{{ messages | tojson }}"
OWN_DEVELOPER = "{# 'developer' #}"
USER: Json = {"role": "user", "content": "Hello"}


def seen(messages: list[Json], template: str = AS_TEXT) -> Any:
    return json.loads(chat_text({"messages": messages, "chat_template": template}))


def text(value: str, **more: Any) -> Json:
    return {"type": "text", "text": value, **more}


CALL: Json = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"a": 1.0, "é": [null, 12345678901234567890123]}'},
}
TURNS: list[Json] = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": [text("a"), text("b", cache_control={"x": 1})], "name": "bob", "extra": 5},
    {"role": "assistant", "content": None, "reasoning_content": "why", "refusal": "no", "tool_calls": [CALL]},
    {"role": "tool", "content": [text("t1"), text("t2")], "tool_call_id": "c1"},
]


def test_text_format() -> None:
    assert seen(TURNS) == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "a\nb", "name": "bob"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "function": {"arguments": {"a": 1.0, "é": [None, 12345678901234567890123]}, "name": "f"},
                    "type": "function",
                }
            ],
            "reasoning": "why",
            "reasoning_content": "why",
        },
        {"role": "tool", "content": "t1\nt2", "tool_call_id": "c1"},
    ]


def test_parts_format() -> None:
    system, user, assistant, tool = seen(TURNS, AS_PARTS)
    assert system["content"] == [text("S")]
    assert user["content"] == [text("a"), text("b", cache_control={"x": 1})]
    assert assistant["content"] == []
    assert tool["content"] == "t1\nt2"


def test_call_keys_have_one_order() -> None:
    """A template may print a call whole."""
    assert chat_text({"messages": [USER, TURNS[2]], "chat_template": AS_TEXT}).count(
        '"tool_calls": [{"id": "c1", "function": {"arguments": {"a": 1.0,'
    )


@pytest.mark.parametrize("arguments", ["", "null", "[1]", '{"a":1,}', "nope"])
def test_arguments_that_are_no_object(arguments: str) -> None:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    [message] = seen([{"role": "assistant", "tool_calls": [call]}])
    assert message["tool_calls"][0]["function"]["arguments"] == {}


@pytest.mark.parametrize(
    ("parts", "as_text", "as_parts"),
    [
        ([], "", []),
        ([text(""), text("a")], "a", [text(""), text("a")]),
        ([{"type": "refusal", "refusal": "r"}], "r", [text("r")]),
        ([{"type": "thinking", "thinking": "t", "closed": True}], "t", [text("t")]),
        (
            [{"type": "tool_reference", "name": "x", "other": 1}],
            "x",
            [{"type": "tool_reference", "name": "x"}],
        ),
        (["a", text("b", name="n")], "a\nb", [text("a"), text("b")]),
        (
            [{"type": "input_text", "text": "i"}, {"type": "output_text", "text": "o"}, text("t")],
            "i\no\nt",
            [text("i"), text("o"), text("t")],
        ),
    ],
)
def test_parts(parts: list[Any], as_text: str, as_parts: list[Any]) -> None:
    message = {"role": "user", "content": parts}
    assert seen([message])[0]["content"] == as_text
    assert seen([message], AS_PARTS)[0]["content"] == as_parts


def test_tool_results_join_every_text() -> None:
    message = {"role": "tool", "content": [text(""), text("a")]}
    assert seen([message], AS_PARTS)[0]["content"] == "\na"
    assert seen([message])[0]["content"] == "a"


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"text": "t"}, "type"),
        ({"type": "zz"}, "type"),
        ({"type": "text", "text": 5}, None),
        ({"type": "tool_reference", "name": [1]}, None),
        ({"type": "image_url", "image_url": {"url": "http://x/y"}}, None),
        ({"input_audio": {}}, None),
    ],
)
def test_parts_that_cannot_be_rendered(part: Json, param: str | None) -> None:
    error = refusal("/v1/chat/completions/render", {"messages": [{"role": "critic", "content": [part]}]})
    assert (error.status, error.type, error.param) == (400, "BadRequestError", param)


def test_text_only_model_names_itself() -> None:
    media = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}
    assert refusal("/v1/chat/completions/render", media).message == "a is not a multimodal model"


DEVELOPER: Json = {"role": "developer", "content": [text("d1"), text("d2")], "tools": [{"a": 1}]}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([DEVELOPER, USER], [{"role": "system", "content": "d1\nd2"}, USER]),
        ([TURNS[0], USER, DEVELOPER], [{"role": "system", "content": "S\n\nd1\nd2"}, USER]),
        ([USER, DEVELOPER], [{"role": "system", "content": "d1\nd2"}, USER]),
        ([{"role": "system"}, DEVELOPER], [{"role": "system", "content": "d1\nd2"}]),
        ([USER, TURNS[0]], [USER, TURNS[0]]),
        ([TURNS[0], TURNS[0]], [TURNS[0], TURNS[0]]),
    ],
)
def test_developer_role(messages: list[Json], expected: list[Json]) -> None:
    assert seen(messages) == expected


def test_developer_role_of_a_template_that_knows_it() -> None:
    expected = [{"role": "developer", "content": "d1\nd2", "tools": [{"a": 1}]}, USER]
    assert seen([DEVELOPER, USER], OWN_DEVELOPER + AS_TEXT) == expected


def test_merged_system_messages_are_text_in_either_format() -> None:
    assert seen([TURNS[0], DEVELOPER], AS_PARTS) == [{"role": "system", "content": "S\n\nd1\nd2"}]
    assert seen([DEVELOPER], AS_PARTS) == [{"role": "system", "content": [text("d1"), text("d2")]}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("x-anthropic-billing-header: a\nrest\nmore", "rest\nmore"),
        ("x-anthropic-billing-header: a", ""),
        ([text("x-anthropic-billing-header: a"), text("b")], "b"),
        ("  x-anthropic-billing-header: a\nb", "  x-anthropic-billing-header: a\nb"),
    ],
)
def test_billing_header(content: Any, expected: str) -> None:
    assert seen([{"role": "system", "content": content}, USER])[0]["content"] == expected
    assert seen([{"role": "user", "content": content}])[0]["content"] != "rest\nmore"


def test_null_content() -> None:
    assert seen([{"role": "assistant", "content": None}]) == [{"role": "assistant", "content": ""}]
    for role in ("user", "system", "tool", "developer", "critic"):
        error = refusal("/v1/chat/completions/render", {"messages": [{"role": role, "content": None}]})
        assert (error.type, error.param) == ("Bad Request", "body.messages.0.content")


def test_reasoning_names() -> None:
    """One name in requests, two for templates."""
    both = {"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": "q"}
    expected = {"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": "r"}
    assert seen([both]) == [expected]
    assert "reasoning" not in seen([{**both, "role": "user"}])[0]


def test_history_is_counted() -> None:
    turns = [*TURNS, {"role": "assistant", "tool_calls": [CALL, CALL]}, {"role": "user", "content": "z"}]
    context = chat({"messages": turns})["parse_context"]
    assert context["history_tool_call_cnt"] == 3
