"""The generator's tests are worth something: each of these faults, planted in a grammar, makes them fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parsers import Family
from parsers.families import deepseek, hermes, qwen
from parsers.grammar import On, ToolGrammar
from tests.parsers.generator import formats
from tests.parsers.test_generated import check_valid

SEEDS = range(40)


def rewired(grammar: ToolGrammar, region: str, change: Callable[[On], On]) -> ToolGrammar:
    """The grammar with other ways out of one region."""
    altered = replace(grammar.regions[region], on=tuple(map(change, grammar.regions[region].on)))
    return replace(grammar, regions={**grammar.regions, region: altered})


def wrong_end(on: On) -> On:
    return replace(on, marker="<｜tool▁call▁over｜>") if on.marker == "<｜tool▁call▁end｜>" else on


def wrong_way(on: On) -> On:
    return replace(on, to="content") if on.marker == "<｜tool▁sep｜>" else on


SOUND = {
    "hermes": Family(None, hermes.TOOLS),
    "qwen3_coder": Family(qwen.REASONING, qwen.TOOLS),
    "deepseek_v31": Family(None, deepseek.V31_TOOLS),
}

FAULTS = {
    "another end marker": ("deepseek_v31", Family(None, rewired(deepseek.V31_TOOLS, "arguments", wrong_end))),
    "no strip": ("qwen3_coder", Family(qwen.REASONING, replace(qwen.TOOLS, strip=False))),
    "a wrong way": ("deepseek_v31", Family(None, rewired(deepseek.V31_TOOLS, "name", wrong_way))),
    "another name of the reasoning's end": (
        "qwen3_coder",
        Family(replace(qwen.REASONING, end="</thinking>"), qwen.TOOLS),
    ),
}


def caught(family: Family, name: str) -> int:
    """How many of the seeds find a fault."""
    form = next(formats("qwen3" if family.reasoning else None, name))
    found = 0
    for seed in SEEDS:
        try:
            check_valid(family, form, seed)
        except (AssertionError, ValueError):
            found += 1
    return found


@pytest.mark.parametrize("name", SOUND)
def test_sound_grammars_pass(name: str) -> None:
    assert caught(SOUND[name], name) == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught(fault: str) -> None:
    name, family = FAULTS[fault]
    assert caught(family, name) > 0
