"""Whether arguments are JSON, as they come in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.bodies import json_check
from tests.parsers.test_families import read
from tests.parsers.test_generated import is_json

_WORDS = ["true", "null", '"a"', "12", '{"a":', "NaN", "\\n", "\\u00e9", "-0.5e+3"]
_ATOMS = st.sampled_from([*'{}[]",:\\u01 \n-.eEtf', "\x01", *_WORDS])


def check(text: str, size: int) -> bool:
    state = json_check.JsonCheck()
    for at in range(0, len(text), size):
        json_check.feed(state, text[at : at + size])
    return json_check.whole(state)


@settings(max_examples=500, deadline=None)
@given(st.lists(_ATOMS, max_size=10).map("".join), st.integers(1, 4))
def test_says_what_a_parser_says(text: str, size: int) -> None:
    assert check(text, size) == is_json(text)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_what_is_json_passes(value: Any, ascii: bool) -> None:
    assert check(json.dumps(value, ensure_ascii=ascii, indent=1), 3)


def test_deep_nests_are_none() -> None:
    assert check("[" * 512 + "]" * 512, 100)
    assert not check("[" * 513 + "]" * 513, 100)


@pytest.mark.parametrize(
    ("tools", "text", "arguments"),
    [
        ("hermes", '<tool_call>{"name": "ping", "arguments": {"a": oops}}</tool_call>', '{"a": oops}'),
        ("hermes", '<tool_call>{"name": "ping", "arguments": {"a": NaN}}</tool_call>', '{"a": NaN}'),
        ("llama3_json", '{"name": "ping", "parameters": {"a" 1}}', '{"a"1}'),
        (
            "kimi_k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>"
            "{'a': 1}<|tool_call_end|><|tool_calls_section_end|>",
            "{'a': 1}",
        ),
        ("hermes", '<tool_call>{"name": "ping", "arguments" 2}</tool_call>', ""),
        ("hermes", '<tool_call>{"name": "ping", "arguments": </tool_call>', ""),
        (
            "longcat",
            '<longcat_tool_call>{"name": "ping", "arguments"<x>[1]}</longcat_tool_call>',
            "",
        ),
        (
            "deepseek_v31",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>a = 1<｜tool▁call▁end｜>",
            "a = 1",
        ),
    ],
)
def test_a_call_whose_arguments_are_no_json_is_counted_and_not_complete(
    tools: str, text: str, arguments: str
) -> None:
    message = read(None, tools, text)
    assert message.calls == [("ping", arguments)]
    assert message.complete == [False]
    assert "invalid_arguments" in message.anomalies
