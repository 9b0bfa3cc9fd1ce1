"""Tools as types of TypeScript, against the library that vLLM writes them with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderd.render.typescript import namespace, type_of
from tests.render import harmony_library

Json = dict[str, Any]

TEXTS = st.sampled_from(["", "a", 'x "y"', "l\nm", "ü🌍", "null", "t\r\nu\r", "back\\slash", "\t\x01/\u2028"])
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 1e15, 1e16, 1e-5, 1.5e-5, 1e-6, 1e-7, 5e-324, 15173.303905279301]),
)
SCALARS = st.one_of(TEXTS, FLOATS, st.integers(), st.sampled_from([2**63, 2**64, -(2**63) - 1]), st.none())
VALUES = st.recursive(
    SCALARS | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
KINDS: list[Any] = ["object", "string", "array", "integer", "number", "boolean", "null", "odd", 5]
KINDS += [["string", "null"], ["integer"], [], [1, "string"], ["array", "object"], None]


def _schema(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from([*KINDS, *["object"] * 8, *["string"] * 4]),
            "description": TEXTS | SCALARS,
            "title": TEXTS | SCALARS,
            "default": VALUES,
            "enum": st.sampled_from([["a", "b"], [], ["x", 1], [1], [None], "no", ['q"', ""]]),
            "examples": st.sampled_from([["a"], [], [1], ["x", 1, "y z"], "no", None]),
            "nullable": st.sampled_from([True, False, None, "true"]),
            "oneOf": st.lists(inner, max_size=3) | SCALARS,
            "anyOf": st.lists(inner, max_size=2),
            "items": inner | SCALARS,
            "properties": st.dictionaries(st.sampled_from("abü"), inner, max_size=3) | SCALARS,
            "required": st.sampled_from([["a"], ["a", "b"], [], "a", None, [1]]),
        },
    )


SCHEMAS = st.recursive(_schema(st.booleans()), _schema, max_leaves=12)


@settings(max_examples=400, deadline=None)
@given(description=TEXTS | st.none(), schema=SCHEMAS | st.none())
def test_as_the_library_writes_it(description: str | None, schema: Json | None) -> None:
    functions = [
        {"name": "f", "description": description, "parameters": schema},
        {"name": "g", "description": None, "parameters": None},
    ]
    written = harmony_library.encoding().decode(harmony_library.developer(None, functions))
    got = namespace("functions", [{"function": function} for function in functions])
    assert f"<|start|>developer<|message|># Tools\n\n## functions\n\n{got}<|end|>" == written


def test_a_readable_one() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": ["integer", "null"]},
            "place": {"type": "object", "properties": {"floor": {"type": "integer"}}, "required": ["floor"]},
        },
        "required": ["city"],
    }
    assert type_of(schema, "") == (
        "{\n// Where\ncity: string,\n"
        'unit?: "C" | "F", // default: C\n'
        "days?: number | null,\n"
        "place?: {\n    floor: number,\n    },\n}"
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_none(number: float) -> None:
    with pytest.raises(ValueError, match="no number"):
        type_of({"type": "object", "properties": {"a": {"default": number}}}, "")


def test_a_schema_that_is_nested_too_deeply() -> None:
    schema: Json = {"type": "string"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(RecursionError):
        type_of(schema, "")
