"""The time a token costs does not grow with the answer, whatever the model writes.

`renderd bench parsers --worst` measures it, with a megabyte of each family's worst input. This is the coarse
guard: less input, and a ratio that only a square exceeds.
"""

from __future__ import annotations

import pytest

from parsers import reasoning_parser_names, tool_parser_names
from renderd.conformance.parsing import Entry, Row, answers, failed, measure, measure_worst

CARRIED = answers()
KNOWN = {None, *reasoning_parser_names(), *tool_parser_names()}
ENTRIES = [entry for entry in CARRIED.entries if {entry.reasoning, entry.tools} <= KNOWN]

SIZE = 60_000
RATIO = 4.0  # a square would have 19


def test_every_name_has_an_answer() -> None:
    assert {entry.reasoning for entry in CARRIED.entries} - {None} >= set(reasoning_parser_names())
    assert {entry.tools for entry in CARRIED.entries} - {None} >= set(tool_parser_names())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_worst_inputs_take_linear_time(entry: Entry) -> None:
    row = measure_worst(entry, CARRIED.tools, SIZE, share=7)
    assert row.ratio is not None
    assert row.ratio < RATIO, row


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_answers_take_little_time(entry: Entry) -> None:
    row = measure(entry, CARRIED.tools, rounds=1)
    assert row.fed < 100, row
    assert row.calls != 0, "the answer has no call"


def test_an_answer_without_a_call_measures_nothing() -> None:
    assert failed(Row("one", 9, 1.0, calls=0), limit=25)
    assert not failed(Row("one", 9, 1.0, calls=1), limit=25)
    assert not failed(Row("one", 9, 1.0), limit=25)
