"""Names of `--reasoning-parser` and `--tool-call-parser` to grammars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from parsers.families import deepseek, hermes, llama, qwen
from parsers.family import Family, UnknownParserError
from parsers.grammar import ForModel, ModelFacts, ReasoningGrammar, ToolGrammar

_REASONING: list[ReasoningGrammar | ForModel] = [
    qwen.REASONING,
    deepseek.R1,
    deepseek.V3,
]
_TOOLS: list[ToolGrammar | ForModel] = [
    hermes.TOOLS,
    qwen.TOOLS,
    llama.TOOLS,
    deepseek.V3_TOOLS,
    deepseek.V31_TOOLS,
]

_Grammar = TypeVar("_Grammar", ReasoningGrammar, ToolGrammar)

ANY_MODEL = ModelFacts(is_token=lambda text: True)
"""A model that has every token, where none is given."""


def reasoning_parser_names() -> list[str]:
    """Names that `--reasoning-parser` takes."""
    return sorted(name for grammar in _REASONING for name in grammar.names)


def tool_parser_names() -> list[str]:
    """Names that `--tool-call-parser` takes."""
    return sorted(name for grammar in _TOOLS for name in grammar.names)


def build(
    reasoning: str | None = None,
    tools: str | None = None,
    model: ModelFacts = ANY_MODEL,
    enforces_tags: bool = True,
) -> Family:
    """The family of a server's two parser names, either of them None.

    `enforces_tags`: as `Family` has it. Raises UnknownParserError, and UnfitModelError where the model lacks
    what a parser needs.
    """
    return Family(
        _find(_REASONING, reasoning, "reasoning parser", model) if reasoning else None,
        _find(_TOOLS, tools, "tool parser", model) if tools else None,
        enforces_tags,
    )


def _find(grammars: Sequence[_Grammar | ForModel], name: str, kind: str, model: ModelFacts) -> _Grammar:
    for grammar in grammars:
        if name in grammar.names:
            return cast(_Grammar, grammar.make(model)) if isinstance(grammar, ForModel) else grammar
    known = ", ".join(sorted(known for grammar in grammars for known in grammar.names))
    raise UnknownParserError(f"invalid {kind}: {name} (chosen from {known})")
