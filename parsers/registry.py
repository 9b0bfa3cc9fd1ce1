"""Names of `--reasoning-parser` and `--tool-call-parser` to grammars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from parsers.families import (
    cohere,
    deepseek,
    dsml,
    gemma,
    glm,
    harmony,
    hermes,
    hunyuan_keys,
    inkling,
    invoke,
    json_lists,
    json_objects,
    k2_horizon,
    kimi_k2,
    kimi_k3,
    llama,
    minimax_m3,
    mistral,
    muse,
    phrases,
    plamo3,
    pythonic,
    qwen,
    templates,
)
from parsers.family import Family, UnknownParserError
from parsers.grammar import ForModel, ModelFacts, ReasoningGrammar, ToolGrammar

_REASONING: list[ReasoningGrammar | ForModel] = [
    qwen.REASONING,
    qwen.MINICPMV_REASONING,
    deepseek.R1,
    deepseek.V3,
    dsml.V4,
    dsml.V41,
    invoke.M2,
    invoke.M2_APPEND,
    invoke.STEP3,
    deepseek.STEP5,
    deepseek.HOLO2,
    deepseek.POOLSIDE,
    qwen.STEP_REASONING,
    qwen.MIMO_REASONING,
    qwen.NEMOTRON_REASONING,
    qwen.GRANITE_REASONING,
    qwen.SEED_REASONING,
    pythonic.OLMO3_REASONING,
    phrases.GRANITE_REASONING,
    phrases.HUNYUAN_REASONING,
    json_objects.ERNIE_REASONING,
    glm.REASONING,
    glm.LING_REASONING,
    hunyuan_keys.V3_REASONING,
    hunyuan_keys.V4_REASONING,
    k2_horizon.REASONING,
    gemma.REASONING,
    minimax_m3.REASONING,
    kimi_k3.REASONING,
    kimi_k2.REASONING,
    mistral.REASONING,
    muse.REASONING,
    muse.GLIMMER_REASONING,
    harmony.REASONING,
    plamo3.REASONING,
    inkling.REASONING,
    cohere.COMMAND3,
    cohere.COMMAND4,
    *templates.REASONING,
]
_TOOLS: list[ToolGrammar | ForModel] = [
    hermes.TOOLS,
    hermes.LONGCAT,
    qwen.TOOLS,
    qwen.STEP_TOOLS,
    qwen.STEP5_TOOLS,
    qwen.MIMO_TOOLS,
    qwen.SEED_TOOLS,
    llama.TOOLS,
    deepseek.V3_TOOLS,
    deepseek.V31_TOOLS,
    dsml.V32_TOOLS,
    dsml.V4_TOOLS,
    dsml.V41_TOOLS,
    invoke.M2_TOOLS,
    invoke.STEP3_TOOLS,
    invoke.DOTS,
    invoke.MINICPM5,
    pythonic.PYTHONIC,
    pythonic.LLAMA4,
    pythonic.OLMO3,
    pythonic.LFM2,
    json_lists.HUNYUAN,
    json_lists.JAMBA,
    json_lists.PHI4,
    json_lists.GRANITE,
    json_lists.APERTUS,
    json_lists.XLAM,
    json_objects.GRANITE4,
    json_objects.GRANITE_20B,
    json_objects.ERNIE,
    json_objects.INTERNLM,
    json_objects.GIGACHAT3,
    glm.TOOLS,
    glm.LING_TOOLS,
    glm.POOLSIDE_TOOLS,
    hunyuan_keys.V3_TOOLS,
    hunyuan_keys.V4_TOOLS,
    k2_horizon.TOOLS,
    gemma.TOOLS,
    gemma.FUNCTION_TOOLS,
    minimax_m3.TOOLS,
    kimi_k3.TOOLS,
    kimi_k2.TOOLS,
    mistral.TOOLS,
    muse.TOOLS,
    harmony.TOOLS,
    plamo3.TOOLS,
    inkling.TOOLS,
    cohere.COMMAND3_TOOLS,
    cohere.COMMAND4_TOOLS,
    *templates.TOOLS,
]

Grammar = ReasoningGrammar | ToolGrammar | ForModel
_Grammar = TypeVar("_Grammar", ReasoningGrammar, ToolGrammar)

ANY_MODEL = ModelFacts(is_token=lambda text: True)
"""A model that has every token, where none is given."""


AUTO = "auto"
RESERVED = frozenset({AUTO, "none", ""})
"""Values of the flags that name no parser."""


class NameTakenError(ValueError):
    """A grammar with a name that another one has; the message is a sentence that says which."""


class MixedParsersError(ValueError):
    """Two parsers that cannot be combined; the message is a sentence that says why."""


def reasoning_grammars() -> Sequence[ReasoningGrammar | ForModel]:
    """What `--reasoning-parser` chooses from."""
    return tuple(_REASONING)


def tool_grammars() -> Sequence[ToolGrammar | ForModel]:
    """What `--tool-call-parser` chooses from."""
    return tuple(_TOOLS)


def reasoning_parser_names() -> list[str]:
    """Names that `--reasoning-parser` takes."""
    return sorted(name for grammar in _REASONING for name in grammar.names)


def tool_parser_names() -> list[str]:
    """Names that `--tool-call-parser` takes."""
    return sorted(name for grammar in _TOOLS for name in grammar.names)


def register(*grammars: ReasoningGrammar | ToolGrammar) -> None:
    """Add grammars of a family that is not among parsers.families; doing it twice does no harm.

    Raises NameTakenError for a name that another grammar of the same kind has, and TypeError for what is no
    grammar.
    """
    for grammar in grammars:
        if isinstance(grammar, ReasoningGrammar):
            _add(_REASONING, grammar, "reasoning parser")
        elif isinstance(grammar, ToolGrammar):
            _add(_TOOLS, grammar, "tool parser")
        else:
            raise TypeError(f"{grammar!r} is neither a ReasoningGrammar nor a ToolGrammar")


def _add(grammars: list[_Grammar | ForModel], grammar: _Grammar, kind: str) -> None:
    if any(known is grammar for known in grammars):
        return
    taken = RESERVED.union(*(known.names for known in grammars)).intersection(grammar.names)
    if taken:
        raise NameTakenError(f"the {kind} name {min(taken)} is taken")
    grammars.append(grammar)


def build(
    reasoning: str | None = None,
    tools: str | None = None,
    model: ModelFacts = ANY_MODEL,
    enforces_tags: bool = True,
) -> Family:
    """The family of a server's two parser names, either of them None.

    `enforces_tags`: as `Family` has it. Raises UnknownParserError, UnfitModelError where the model lacks what
    a parser needs, and MixedParsersError.
    """
    first = _find(_REASONING, reasoning, "reasoning parser", model) if reasoning else None
    second = _find(_TOOLS, tools, "tool parser", model) if tools else None
    if first is not None and second is not None and not combine(first, second):
        alone = reasoning if first.framing else tools
        raise MixedParsersError(
            f"--reasoning-parser {reasoning} and --tool-call-parser {tools} cannot be combined: the format "
            f"of {alone} frames reasoning, text and calls in one way, which only its own two parsers know"
        )
    return Family(first, second, enforces_tags)


def combine(reasoning: ReasoningGrammar, tools: ToolGrammar) -> bool:
    """Whether two grammars can read one answer: those of a shared framing only with each other."""
    return reasoning.framing == tools.framing


def _find(grammars: Sequence[_Grammar | ForModel], name: str, kind: str, model: ModelFacts) -> _Grammar:
    for grammar in grammars:
        if name in grammar.names:
            return cast(_Grammar, grammar.make(model)) if isinstance(grammar, ForModel) else grammar
    known = ", ".join(sorted(known for grammar in grammars for known in grammar.names))
    raise UnknownParserError(f"invalid {kind}: {name} (chosen from {known})")
