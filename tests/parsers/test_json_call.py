"""Bodies that are JSON objects with a name and arguments: what they say of each spelling, however cut."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from parsers.bodies import Said
from parsers.bodies.json_call import JsonCall, JsonCallState


def say(
    body: JsonCall, text: str, size: int, types: dict[str, Any] | None = None
) -> tuple[str | None, str, bool, int]:
    """Name, arguments, whether the body ended itself, characters read; snapshots between the pieces."""
    state = body.start(None)
    arguments, used = "", 0
    for at in range(0, len(text), size):
        rest = text[at : at + size]
        while rest and not state.done:
            said = Said()
            taken = body.feed(state, rest, (types or {}) if state.name else {}, said)
            arguments += "".join(said.arguments)
            state = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(state))), JsonCallState)
            used, rest = used + taken, rest[taken:]
    return state.name, arguments, state.done, used


VERBATIM = JsonCall(("args",), certain_by_name=True, verbatim=True)
DECODED = JsonCall(("arguments",), certain_by_name=True, decoded=True)
NAMED = JsonCall(("parameters",), certain_by_name=True, name_key="tool_name")


@pytest.mark.parametrize(
    ("body", "text", "name", "arguments"),
    [
        (VERBATIM, '{"name":"f","args": {"a":1 , "b":[ 2]}}', "f", '{"a":1 , "b":[ 2]}'),
        (VERBATIM, '{"args" : {"q":"}\\"{\\u00e9"} ,"name":"f"}', "f", '{"q":"}\\"{\\u00e9"}'),
        (VERBATIM, '{"name":"f","args":"te\\"xt"}', "f", '"te\\"xt"'),
        (VERBATIM, '{"name":"f","args":1.50}', "f", "1.50"),
        (VERBATIM, '{"name":"f"}', "f", "{}"),
        (
            DECODED,
            '{"name":"f","arguments":"{\\"c\\": \\"P\\\\n\\u00e9\\ud83d\\ude00\\"}"}',
            "f",
            '{"c": "P\\né😀"}',
        ),
        (DECODED, '{"name":"f","arguments":{"a":1,"b":2}}', "f", '{"a": 1, "b": 2}'),
        (DECODED, '{"arguments":"","name":"f"}', "f", ""),
        (DECODED, '{"name":"f","arguments":"\\ud83d."}', "f", "\\ud83d."),
        (NAMED, '{"tool_name":"f","name":"g","parameters":{"a":1}}', "f", '{"a": 1}'),
    ],
)
def test_spellings_of_a_call(body: JsonCall, text: str, name: str, arguments: str) -> None:
    for size in (1, 2, 3, 7, len(text)):
        assert say(body, text, size) == (name, arguments, True, len(text))


def test_what_stands_behind_the_object_is_left() -> None:
    text = '{"name":"f","args":{"a":1}} and more'
    for size in (1, len(text)):
        assert say(VERBATIM, text, size)[3] == text.index(" and")


def test_a_cut_call_keeps_what_was_said_of_it() -> None:
    for body, text, arguments in (
        (VERBATIM, '{"name":"f","args":{"a":"x\\', '{"a":"x\\'),
        (DECODED, '{"name":"f","arguments":"{\\"a\\": \\"x', '{"a": "x'),
    ):
        state, said = body.start(None), Said()
        rest = text
        while rest:
            rest = rest[body.feed(state, rest, {}, said) :]
        assert not body.end(state, said, by_marker=False)
        assert "".join(said.arguments) == arguments


TYPES: dict[str, Any] = {"i": "i", "nest": ["o", {"k": "n"}, None]}


def test_verbatim_arguments_are_typed_by_the_function_wherever_its_name_stands() -> None:
    for text in (
        '{"name":"f","args": {"i":"5", "nest":{"k" :"1.5"},"s":"5"}}',
        '{"args": {"i":"5", "nest":{"k" :"1.5"},"s":"5"}, "name":"f"}',
    ):
        for size in (1, 3, len(text)):
            assert say(VERBATIM, text, size, TYPES) == (
                "f",
                '{"i":5, "nest":{"k" :1.5},"s":"5"}',
                True,
                len(text),
            )


def test_the_call_brings_its_own_id() -> None:
    body = JsonCall(("args",), certain_by_name=True, id_key="call_id")
    state, said = body.start(None), Said()
    body.feed(state, '{"call_id": "7", "name": "f"', {}, said)
    assert (state.name, said.id) == ("f", "7")
