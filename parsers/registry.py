"""Names of `--reasoning-parser` and `--tool-call-parser` to grammars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from parsers.families import deepseek, hermes, llama, qwen
from parsers.family import Family, UnknownParserError
from parsers.grammar import ReasoningGrammar, ToolGrammar

_REASONING = (qwen.REASONING, deepseek.R1, deepseek.V3)
_TOOLS = (hermes.TOOLS, qwen.TOOLS, llama.TOOLS, deepseek.V3_TOOLS, deepseek.V31_TOOLS)

_Grammar = TypeVar("_Grammar", ReasoningGrammar, ToolGrammar)


def reasoning_parser_names() -> list[str]:
    """Names that `--reasoning-parser` takes."""
    return sorted(name for grammar in _REASONING for name in grammar.names)


def tool_parser_names() -> list[str]:
    """Names that `--tool-call-parser` takes."""
    return sorted(name for grammar in _TOOLS for name in grammar.names)


@cache
def build(reasoning: str | None = None, tools: str | None = None) -> Family:
    """The family of a server's two parser names, either of them None. Raises UnknownParserError."""
    return Family(
        _find(_REASONING, reasoning, "reasoning parser") if reasoning else None,
        _find(_TOOLS, tools, "tool parser") if tools else None,
    )


def _find(grammars: Sequence[_Grammar], name: str, kind: str) -> _Grammar:
    for grammar in grammars:
        if name in grammar.names:
            return grammar
    known = ", ".join(sorted(known for grammar in grammars for known in grammar.names))
    raise UnknownParserError(f"invalid {kind}: {name} (chosen from {known})")
