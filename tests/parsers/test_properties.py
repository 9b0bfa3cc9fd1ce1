"""Any chunking, any cut, any nonsense: one answer, nothing lost, no exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import Marker, Special, build
from parsers.bodies import json_text
from parsers.schema import coerce, compile_tools
from tests.parsers.reading import TOOLS, add_up, parse

PAIRS = [
    ("qwen3", "hermes"),
    ("qwen3", "qwen3_coder"),
    ("qwen3", None),
    (None, "hermes"),
    (None, "llama3_json"),
    ("deepseek_r1", "deepseek_v3"),
    ("deepseek_v3", "deepseek_v31"),
]
FRAGMENTS = [
    '{"name": "get_weather", "arguments": {"city": "Pa\\u00e9ris", "days": 3}}',
    '{"name": "ping", "parameters": {}}',
    "<function=ping>",
    "</function>",
    "<parameter=city>\nOslo\n</parameter>",
    "<parameter=days>",
    "function",
    "ping\n```json\n{}\n```",
    '"',
    "\\",
    "{",
    "}",
    "\n",
    " ",
    "é😀",
    "text",
    "<thi",
    "; ",
]


@st.composite
def outputs(draw: st.DrawFn, markers: frozenset[str]) -> list[str]:
    piece = st.one_of(
        st.sampled_from(sorted(markers)).map(Marker),
        st.sampled_from(FRAGMENTS),
        st.text(max_size=6),
        st.just(Special("<|end|>")),
    )
    return draw(st.lists(piece, max_size=24))


def split(pieces: list[str], cuts: list[int]) -> list[str]:
    found: list[str] = []
    for at, piece in enumerate(pieces):
        size = cuts[at % len(cuts)] if cuts else 0
        if type(piece) is str and size:
            found += [piece[start : start + size] for start in range(0, len(piece), size)]
        else:
            found.append(piece)
    return found


@pytest.mark.parametrize(("reasoning", "tools"), PAIRS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_chunking_and_snapshots_change_nothing(
    reasoning: str | None, tools: str | None, data: st.DataObject
) -> None:
    family = build(reasoning, tools)
    pieces = data.draw(outputs(family.markers))
    choice = data.draw(st.sampled_from(["auto", "required", "named", "none", None]))
    verdict = data.draw(st.sampled_from(["open", "over", "unknown"]))
    limit = data.draw(st.sampled_from([40, 65536]))
    context = family.context(TOOLS, choice, {}, verdict, limit)
    whole = add_up_whole(family, pieces, context)
    cut = parse(
        family, split(pieces, data.draw(st.lists(st.integers(1, 4), max_size=5))), context, resume=True
    )
    if limit == 65536:
        assert (cut.reasoning, cut.content, cut.calls) == (whole.reasoning, whole.content, whole.calls)
        assert cut.complete == whole.complete


def add_up_whole(family, pieces, context):  # type: ignore[no-untyped-def]
    machine = family.start(context, family.markers)
    return add_up([*machine.feed(pieces), *machine.finish()])


@pytest.mark.parametrize(("reasoning", "tools"), PAIRS)
@settings(max_examples=60, deadline=None)
@given(text=st.text())
def test_text_without_markers_is_kept_whole(reasoning: str | None, tools: str | None, text: str) -> None:
    family = build(reasoning, tools)
    text = text.replace("{", "").replace("<", "")
    message = parse(family, list(text), family.context(TOOLS, "auto", {}, "over"))
    assert (message.reasoning or "") + (message.content or "") == text


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


def test_a_megabyte_of_near_markers_takes_linear_time() -> None:
    import time

    family = build("qwen3", "qwen3_coder")
    context = family.context(TOOLS, "auto", {}, "over")
    for piece in ("<", "<function=", "</parameter", "\n", "{"):
        times = []
        for count in (20_000, 80_000):
            machine = family.start(context, family.markers)
            began = time.process_time()
            for _ in range(count):
                machine.feed([piece])
            machine.finish()
            times.append(time.process_time() - began)
        assert times[1] < 12 * times[0] + 0.5  # 4 times the input; a square would be 16 times
