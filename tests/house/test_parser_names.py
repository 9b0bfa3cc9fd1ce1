"""Every parser name of vLLM 0.33.0 is registered (contract H.5), and has a generator of outputs."""

from __future__ import annotations

import pytest

from parsers import reasoning_parser_names, tool_parser_names
from tests.parsers.generator import formats
from tests.parsers.generator.pairs import REASONING, TOOLS


def test_every_name_of_vllm_is_registered_and_no_other() -> None:
    assert reasoning_parser_names() == sorted(REASONING)
    assert tool_parser_names() == sorted(TOOLS)
    assert (len(REASONING), len(TOOLS)) == (42, 58)


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_has_a_generator(name: str) -> None:
    assert any(form.thinking and name in form.thinking.names for form in formats(name, None))


@pytest.mark.parametrize("name", TOOLS)
def test_tools_have_a_generator(name: str) -> None:
    assert any(form.calling and name in form.calling.names for form in formats(None, name))
