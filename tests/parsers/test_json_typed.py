"""JSON arguments that pass through and are typed by the schema, however they are cut."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from parsers.bodies import json_typed
from parsers.bodies.json_typed import TypedJson

TYPES: dict[str, Any] = {
    "i": "i",
    "n": "n",
    "b": "b",
    "s": "s",
    "os": "zs",
    "u": "is",
    "a": ["a", {}, "i"],
    "any": "",
    "o": "o",
    "nest": ["o", {"k": "i", "list": ["a", {}, ["o", {"q": "b"}, None]]}, None],
}


def pieces(text: str, size: int, types: dict[str, Any] | None = None) -> list[str]:
    """What is passed on of each piece of the text; snapshots between the pieces."""
    state, found = TypedJson(), []
    for at in range(0, len(text), size):
        out: list[str] = []
        json_typed.feed(state, text[at : at + size], out, TYPES if types is None else types)
        found.append("".join(out))
        state = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(state))), TypedJson)
    out = []
    json_typed.cut(state, out)
    return [*found, "".join(out)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"i": "5", "n": "1.50", "b": "true"}', '{"i": 5, "n": 1.5, "b": true}'),
        ('{"i":"x","n":"1e2" ,"b":"1"}', '{"i":"x","n":100 ,"b":true}'),
        ('{"s": 3, "s" :true, "os":3.0, "s":null}', '{"s": "3", "s" :"true", "os":"3.0", "s":null}'),
        ('{"os": "null", "os": "nothing", "os": "NULL"}', '{"os": null, "os": "nothing", "os": null}'),
        ('{"u": "7", "u": "x", "u": 5.5, "u": 5}', '{"u": 7, "u": "x", "u": "5.5", "u": 5}'),
        ('{"a": ["1", 2, "x"], "a":[], "any": "9"}', '{"a": [1, 2, "x"], "a":[], "any": "9"}'),
        (
            '{"nest": {"k": "1", "z": "5", "list": [{"q": "false"}, {"q" : 1}]}, "unknown": {"i": "5"}}',
            '{"nest": {"k": 1, "z": "5", "list": [{"q": false}, {"q" : true}]}, "unknown": {"i": "5"}}',
        ),
        ('{"o": "{\\"k\\": [1]}", "nest": "{\\"k\\": 1}"}', '{"o": {"k": [1]}, "nest": {"k": 1}}'),
        ('{"i": "\\u0035", "i": "\\"", "i":5.0, "b":0}', '{"i": 5, "i": "\\"", "i":5.0, "b":false}'),
        ('{"s": "é\\u00e9\\n}", "i":1}', '{"s": "é\\u00e9\\n}", "i":1}'),
        ('  [1, "2"]', '[1, "2"]'),
        ('"text"', '"text"'),
        ("{}", "{}"),
        ('{"i": "5', '{"i": "5'),
        ('{"i": "5" ]', '{"i": 5 ]'),
        ('{"i" "5" , 3 }', '{"i" "5" , 3 }'),
    ],
)
def test_typed_arguments(text: str, expected: str) -> None:
    for size in (1, 2, 3, len(text)):
        assert "".join(pieces(text, size)) == expected


def test_without_types_nothing_changes_and_nothing_waits() -> None:
    text = ' {"i": "5", "list": [1, {"a": "b\\""}, true]}'
    assert pieces(text, 1, {}) == ["", *text[1:], ""]


def test_text_goes_out_as_soon_as_it_can_be_nothing_else() -> None:
    assert pieces('{"s": "Paris"}', 1) == [*'{"s": "Paris"}', ""]
    assert pieces('{"os": "no"}', 1)[7:] == ["", "", '"no', '"', "}", ""]
    assert pieces('{"i": "x5"}', 1)[6:] == ["", '"x', "5", '"', "}", ""]


def test_the_state_holds_the_way_to_the_open_value_only() -> None:
    state, out = TypedJson(), list[str]()
    text = '{"nest": {"list": [{"q": true}, ' + "[" * 1000 + '"' + "x" * 10000
    json_typed.feed(state, text, out, TYPES)
    assert len(json.dumps(msgspec.to_builtins(state))) < 200
