"""Schemas to nodes, and JSON values typed by them."""

from typing import Any

import pytest

from parsers.schema import Node, coerce, compile_tools, letters, retype


def node(schema: Any, **root: Any) -> Node:
    parameters = {"type": "object", "properties": {"p": schema}, **root}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    return compile_tools(tools)["f"].get("p", "")


@pytest.mark.parametrize(
    ("schema", "want"),
    [
        ({}, ""),
        (True, ""),
        ({"type": "string"}, "s"),
        ({"type": ["integer", "null"]}, "zi"),
        ({"type": "integer", "nullable": True}, "zi"),
        ({"oneOf": [{"type": "array"}, {"const": True}]}, "ba"),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": "number"}]}, "i"),
        ({"allOf": [{"$ref": "#/$defs/I"}, {"description": "none"}]}, "ir"),
        ({"type": "string", "anyOf": [{"minLength": 1}, {"pattern": "x"}]}, "s"),
        ({"type": "string", "enum": [1, 2]}, "is"),
        ({"$ref": "#/definitions/a~1b%20c"}, "nr"),
        ({"$ref": "#/$defs/L/anyOf/1"}, "br"),
        ({"$ref": "#/$defs/L/anyOf/7"}, ""),
        ({"$ref": "elsewhere.json"}, ""),
        ({"$ref": 3}, ""),
        ({"additionalProperties": {"type": "integer"}}, "o"),
        ({"type": "object", "properties": {"x": {"type": "integer"}, "y": {}}}, ["o", {"x": "i"}, None]),
        ({"type": "array", "items": {"$ref": "#/$defs/I"}}, ["a", {}, "ir"]),
        (
            {
                "anyOf": [
                    {"type": "object", "properties": {"x": {"type": "integer"}}},
                    {"type": "object", "properties": {"x": {"type": "null"}}},
                ]
            },
            ["o", {"x": "zi"}, None],
        ),
    ],
)
def test_nodes(schema: Any, want: Node) -> None:
    assert (
        node(
            schema,
            definitions={"a/b c": {"type": "number"}},
            **{"$defs": {"I": {"type": "integer"}, "L": {"anyOf": [{}, {"type": "boolean"}]}}},
        )
        == want
    )


def test_recursive_schemas_are_bounded() -> None:
    tree = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "l": {"$ref": "#/$defs/T"}, "r": {"$ref": "#/$defs/T"}},
    }
    compiled = node({"$ref": "#/$defs/T"}, **{"$defs": {"T": tree}})
    assert letters(compiled) == "o" and len(str(compiled)) < 20_000
    fork = {"anyOf": [{"$ref": "#/$defs/F"}] * 8}
    assert node({"$ref": "#/$defs/F"}, **{"$defs": {"F": fork}}) == ""
    assert node({"$ref": "#"}) != ""


@pytest.mark.parametrize(
    ("value", "typed", "want"),
    [
        (3, "s", "3"),
        ("3", "i", 3),
        ("3", "is", "3"),
        (3.0, "n", 3),
        (1.5, "i", 1.5),
        ("x", "i", "x"),
        ("null", "zi", None),
        (None, "zs", None),
        ("true", "b", True),
        (3, "", 3),
        ({"x": "9", "y": "9"}, ["o", {"x": "i"}, None], {"x": 9, "y": "9"}),
        ([["1"], "2"], ["a", {}, ["ia", {}, "i"]], [[1], 2]),
        ("[1]", ["a", {}, "s"], [1]),
    ],
)
def test_retype(value: Any, typed: Node, want: Any) -> None:
    assert repr(retype(value, typed)) == repr(want)


def test_text_is_typed_by_the_letters_of_a_nested_node() -> None:
    assert coerce('{"x": "9"}', ["o", {"x": "i"}, None]) == '{"x": "9"}'
    assert coerce('{"x": "9"}', ["or", {"x": "i"}, None]) == '{"x": 9}'
    assert coerce('[{"x": "9"}, 1]', ["a", {}, ["or", {"x": "i"}, None]]) == '[{"x": 9}, 1]'
