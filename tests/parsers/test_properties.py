"""JSON as it streams in, and types of parameters: any value, any chunks, any nonsense."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.bodies import json_text
from parsers.schema import coerce, compile_tools

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(value=JSON, ascii=st.booleans(), indent=st.sampled_from([None, 1]), size=st.integers(1, 5))
def test_json_text_writes_what_json_dumps_writes(
    value: object, ascii: bool, indent: int | None, size: int
) -> None:
    written = json.dumps(value, ensure_ascii=ascii, indent=indent)
    state = json_text.JsonText()
    out: list[str] = []
    for at in range(0, len(written), size):
        json_text.feed(state, written[at : at + size], out)
    json_text.feed(state, " ,", out)
    assert state.done
    assert "".join(out) == json.dumps(json.loads(written), ensure_ascii=False)


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet='{}[]":,\\u0d8 \n1ea-.tN', max_size=30), size=st.integers(1, 4))
def test_json_text_never_fails_and_never_depends_on_chunks(text: str, size: int) -> None:
    results = []
    for step in (size, 100):
        state = json_text.JsonText()
        out: list[str] = []
        for at in range(0, len(text), step):
            if not state.done:
                json_text.feed(state, text[at : at + step], out)
        json_text.cut(state, out)
        results.append("".join(out))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("text", "codes", "want"),
    [
        ("42", "i", "42"),
        ("1_000", "i", "1000"),
        (" 42 ", "i", "42"),
        ("3.0", "n", "3"),
        ("3.0", "i", "3.0"),
        ("1e400", "n", '"1e400"'),
        ("-0.0", "n", "0"),
        ("TRUE ", "b", "true"),
        ("yes", "b", '"yes"'),
        ("NULL", "zs", "null"),
        (" null ", "zs", '" null "'),
        ('["1", 2]', "a", '["1", 2]'),
        ('{"a":1}', "a", '{"a": 1}'),
        ("[1,", "a", '"[1,"'),
        ("12", "is", "12"),
        ("three", "i", '"three"'),
        ("NaN", "o", '"NaN"'),
        ("", "o", '""'),
    ],
)
def test_coerce(text: str, codes: str, want: str) -> None:
    assert coerce(text, codes) == want


def test_compiled_types_follow_references() -> None:
    parameters = {
        "$defs": {"P": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}},
        "properties": {
            "o": {"$ref": "#/$defs/P"},
            "opt": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]},
            "c": {"const": 5},
            "e": {"enum": [1, "x"]},
            "s": {"type": "string"},
            "untyped": {},
            "loop": {"$ref": "#/$defs/Loop"},
            "gone": {"$ref": "#/nowhere"},
            "l": {"type": ["array", "null"]},
        },
    }
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    assert compile_tools(tools) == {"f": {"o": "or", "opt": "zor", "c": "i", "e": "is", "s": "s", "l": "za"}}


@pytest.mark.parametrize("piece", ["1", "a", '"', "{", "[1,", "\\u"])
def test_json_of_any_length_takes_linear_time(piece: str) -> None:
    import time

    times = []
    for count in (20_000, 80_000):
        state = json_text.JsonText(depth=1)
        began = time.process_time()
        for _ in range(count):
            json_text.feed(state, piece, [])
        times.append(time.process_time() - began)
    assert times[1] < 12 * times[0] + 0.5
