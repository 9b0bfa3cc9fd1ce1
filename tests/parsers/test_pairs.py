"""Every reasoning parser with every tool parser that it may be combined with, an output or two each."""

from __future__ import annotations

import pytest

from parsers import MixedParsersError
from tests.parsers.generator import formats
from tests.parsers.generator.pairs import REASONING, TOOLS
from tests.parsers.test_generated import check_mutated, check_valid, family_of

LED = {"hunyuan_a13b", "llama3_json", "llama4_json", "llama4_pythonic", "pythonic", "xlam"}
"""Calls that begin an answer, or are not looked for behind `<think>`. Where the reasoning is left in the
content, its `<think>` begins every answer: such calls are text, as they are in both of vLLM's modes."""


@pytest.mark.parametrize("reasoning", REASONING)
def test_any_reasoning_goes_with_any_calls(reasoning: str) -> None:
    for seed, tools in enumerate(TOOLS):
        forms = list(formats(reasoning, tools))
        if not forms:
            continue
        form = forms[seed % len(forms)]
        try:
            family = family_of(reasoning, tools, form)
        except MixedParsersError:
            continue
        if reasoning != "minimax_m2_append_think" or tools not in LED:
            check_valid(family, form, seed)
        check_mutated(family, form, seed)
