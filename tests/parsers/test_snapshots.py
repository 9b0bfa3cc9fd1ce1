"""What is remembered between two chunks stays small, however long an answer is and whatever it is made of."""

from __future__ import annotations

import json
import random

import msgspec
import pytest

from parsers import Event, Family
from tests.parsers.generator import TOOLS, Format, Words, formats, sample
from tests.parsers.reading import add_up
from tests.parsers.test_generated import CONFIGURATIONS, check_reading, family_of, lexemes

LIMIT = 4096

NATIVE = [one for one in CONFIGURATIONS if None in one.values[:2] or one.values[0] == one.values[1]]


SEEDS = (1, 2, 3)


def largest_snapshot(family: Family, form: Format, seed: int) -> int:
    """Bytes of the largest snapshot while an answer is read whose parts have some ten thousand characters."""
    rng = random.Random(seed)
    one = sample(rng, 4, form, words=Words(rng), long=1500)
    markers = family.markers & form.tokens
    context = family.context(TOOLS, "auto", form.kwargs, one.verdict)
    machine = family.start(context, markers)
    events: list[Event] = []
    largest = 0
    for lexeme in lexemes(one.pieces, markers):
        pieces = [lexeme]
        if type(lexeme) is str:
            pieces = [lexeme[at : at + 5] for at in range(0, len(lexeme), 5)]
        for number, piece in enumerate(pieces):
            events += machine.feed([piece])
            if number % 50 == 0:
                largest = max(largest, len(msgspec.json.encode(machine.state)))
    events += machine.finish()
    check_reading(one, add_up(events))
    return largest


@pytest.mark.parametrize(("reasoning", "tools", "form"), NATIVE)
def test_a_snapshot_of_a_long_answer_is_small(reasoning: str | None, tools: str | None, form: Format) -> None:
    """Some of the seeds put a call's arguments before its name, and then they are held."""
    family = family_of(reasoning, tools, form)
    assert max(largest_snapshot(family, form, seed) for seed in SEEDS) < LIMIT


def test_long_answers_are_long() -> None:
    form = next(formats("qwen3", "hermes"))
    rng = random.Random(5)
    one = sample(rng, 4, form, words=Words(rng), long=1500)
    assert len(one.reasoning) > 2 * LIMIT
    assert len(one.content) > 2 * LIMIT
    assert len(json.dumps(one.answer.calls[0].arguments)) > 2 * LIMIT
