"""What stands around the news of a chunk."""

from __future__ import annotations

from typing import Any

import pytest

from renderd.conformance.envelope import differing_usage, faults, usage_fault

CHUNK: dict[str, Any] = {
    "id": "x",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "a"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}


def test_a_right_chunk_has_no_fault() -> None:
    assert list(faults([CHUNK], "m", "x")) == []
    assert list(faults([{"type": "message_stop"}], "m", "x")) == []


@pytest.mark.parametrize(
    "change",
    [
        {"id": "y"},
        {"model": "n"},
        {"created": "now"},
        {"created": -1},
        {"foo": 1},
        {"usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": -3}},
        {"choices": [{"index": 0, "bar": 1}]},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "a"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "input": {}}]}}]},
    ],
)
def test_each_fault_is_one_sentence(change: dict[str, Any]) -> None:
    assert len(list(faults([CHUNK | change], "m", "x"))) == 1


def test_counts_are_those_recorded_after_as_many_tokens() -> None:
    more = CHUNK | {"usage": {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}}
    none = CHUNK | {"usage": None}
    assert list(differing_usage([CHUNK], [CHUNK], [CHUNK])) == []
    assert len(list(differing_usage([CHUNK], [CHUNK], [more]))) == 2
    assert len(list(differing_usage([CHUNK], [CHUNK], [none]))) == 1
    assert list(differing_usage([CHUNK], [none], [none])) == []
    assert list(differing_usage([none], [CHUNK], [more])) == []


@pytest.mark.parametrize(
    "details", ["x", {"reasoning_tokens": 2}, {"reasoning_tokens": "a"}, {"a": "banana"}]
)
def test_details_are_counts_of_some_of_the_tokens(details: Any) -> None:
    assert usage_fault(CHUNK["usage"] | {"completion_tokens_details": details})
    assert not usage_fault(CHUNK["usage"] | {"completion_tokens_details": {"reasoning_tokens": 1}})
