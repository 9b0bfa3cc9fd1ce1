"""When a client gets each character, beside when the reference sent it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from renderd.conformance import eagerness


def chunk(tokens: int | None = None, **delta: Any) -> dict[str, Any]:
    usage = None if tokens is None else {"completion_tokens": tokens}
    return {"choices": [{"index": 0, "delta": delta}], "usage": usage}


def event(*token_ids: int) -> dict[str, Any]:
    return {"choices": [{"index": 0, "token_ids": list(token_ids)}]}


def call(arguments: str, index: int = 0) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}


THEIRS = [
    chunk(0, role="assistant", content=""),
    chunk(1, reasoning="so"),
    chunk(2, content="Hello"),
    chunk(3, **call('{"a": 1')),
    chunk(4, **call("}")),
]


def late(case: str, *chunks: dict[str, Any]) -> list[tuple[str, str]]:
    theirs = eagerness.recorded(THEIRS)
    assert theirs is not None
    return list(eagerness.late(case, theirs, eagerness.own([event(at) for at in range(len(chunks))], chunks)))


def test_the_same_times_are_no_fault() -> None:
    same = (chunk(reasoning="so"), chunk(content="Hello"), chunk(**call('{"a": 1')), chunk(**call("}")))
    assert late("x/y", *same) == []


def test_earlier_is_no_fault() -> None:
    assert late("x/y", chunk(reasoning="so", content="Hello", **call('{"a": 1}'))) == []


def test_later_is_one() -> None:
    found = late("x/y", chunk(reasoning="s"), chunk(reasoning="o"), chunk(content="Hello"))
    assert found == [
        ("reasoning: 'so' came after 2 tokens, not 1", ""),
        ("content: 'H' came after 3 tokens, not 2", ""),
    ]


def test_what_differs_is_not_late() -> None:
    assert late("x/y", chunk(), chunk(), chunk(content="Good day, Hello")) == []


@pytest.mark.parametrize(
    ("begin", "character", "waits"),
    [
        ('["a', " ", True),
        ("[12.", "5", True),
        ("[", "-", True),
        ('{"a": "b", "c": 1', "2", True),
        ('["in 199', "9", False),
    ],
)
def test_whitespace_and_numbers_may_wait(begin: str, character: str, waits: bool) -> None:
    assert bool(waited(call, begin, character)) is not waits


def test_digits_of_prose_may_not_wait() -> None:
    assert waited(lambda text: {"content": text}, "In 199", "9")


def waited(part: Callable[[str], dict[str, Any]], begin: str, character: str) -> list[tuple[str, str]]:
    """What is said where the last character comes one token later than the reference's."""
    theirs = eagerness.recorded([chunk(1, **part(begin + character))])
    assert theirs is not None
    ours = eagerness.own([event(1), event(2)], [chunk(**part(begin)), chunk(**part(character))])
    return list(eagerness.late("x/y", theirs, ours))


def test_behind_what_may_wait_the_rest_is_looked_at() -> None:
    theirs = eagerness.recorded([chunk(1, content="<abc")])
    assert theirs is not None
    ours = eagerness.own([event(1), event(2), event(3)], [chunk(), chunk(content="<a"), chunk(content="bc")])
    assert [reason for _, reason in eagerness.late("granite3/prose", theirs, ours)] == [
        "may begin a marker",
        "",
    ]


def test_the_beginning_of_a_marker_may_wait_where_that_is_declared() -> None:
    theirs = eagerness.recorded([chunk(1, content="<")])
    assert theirs is not None
    ours = eagerness.own([event(1), event(2)], [chunk(), chunk(content="<")])
    assert [reason for _, reason in eagerness.late("granite3/prose", theirs, ours)] == ["may begin a marker"]
    assert [reason for _, reason in eagerness.late("hermes/prose", theirs, ours)] == [""]


def test_what_the_reference_made_up_may_come_with_the_output() -> None:
    theirs = eagerness.recorded([chunk(1, **call('{"a": "b"}'))])
    assert theirs is not None
    ours = eagerness.own([event(1), event(2)], [chunk(**call('{"a": "b"')), chunk(**call("}"))])
    assert [reason for _, reason in eagerness.late("functiongemma/x", theirs, ours)] == ["was not there yet"]
    assert [reason for _, reason in eagerness.late("gemma4/x", theirs, ours)] == [""]


def test_streams_without_running_usage_say_nothing() -> None:
    assert eagerness.recorded([chunk(None, content="x")]) is None
    assert eagerness.recorded(None) is None
