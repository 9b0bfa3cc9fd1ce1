"""GLM-4.5 to 5.3, Ling 3 and Poolside: `<tool_call>` around a name and pairs of key and value."""

from __future__ import annotations

from dataclasses import replace

from parsers.bodies.conversions import json_or_literal
from parsers.bodies.key_value import KeyValues
from parsers.bodies.values import Values
from parsers.grammar import (
    ForModel,
    ModelFacts,
    On,
    ReasoningGrammar,
    Region,
    Signs,
    Text,
    ToolGrammar,
    open_unless_both_off,
)
from parsers.names import one_word
from parsers.tags import GLM_TAG


def always_thinks(template: str | None) -> bool:
    """Whether the template is that of GLM-5.3, which knows no way to switch reasoning off."""
    words = ("[gMASK]<sop>", "Reasoning Effort:", "<tool_call>", "<arg_key>", "<arg_value>")
    return template is not None and "enable_thinking" not in template and all(w in template for w in words)


_REASONING = ReasoningGrammar(
    names=("glm45", "glm47"),
    start="<think>",
    end="</think>",
    initial=open_unless_both_off,
    ends=("<tool_call>",),
    content=(On("<think>", "reasoning"),),
    boundary=("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
    absorbs=True,
    strip=True,
    off_is_text=True,
    required_tokens=("<think>", "</think>"),
    models="GLM 4.5 to 5.3",
    format="<think> ... </think>",
    signs=(Signs(template=("[gMASK]<sop>", "<think>")),),
)


def _for_template(model: ModelFacts) -> ReasoningGrammar:
    if always_thinks(model.chat_template):
        return replace(_REASONING, initial=lambda kwargs: "open")
    return _REASONING


REASONING = ForModel(
    ("glm45", "glm47"),
    _for_template,
    models=_REASONING.models,
    format=_REASONING.format,
    signs=_REASONING.signs,
)
LING_REASONING = replace(
    _REASONING, names=("ling3",), models="Ling 3", signs=(Signs(template=("<role>", "<think>")),)
)

_KEY, _VALUE = ("<arg_key>", "</arg_key>"), ("<arg_value>", "</arg_value>")
_PAIRS = (On("<arg_key>", "arguments", keep=True, as_text=True), On("</tool_call>", "arguments", keep=True))

TOOLS = ToolGrammar(
    names=("glm45", "glm47"),
    content=(On("<tool_call>", "name"),),
    regions={
        "name": Region(Text.NAME, _PAIRS, known_names=True, rejected="skipped"),
        "arguments": Region(
            Text.BODY, (On("</tool_call>", "content"),), KeyValues(_KEY, _VALUE, done="</tool_call>")
        ),
        "skipped": Region(Text.DROP, (On("</tool_call>", "content"),)),
    },
    strip=True,
    absorbs=True,
    typed=True,
    forced="markup",
    needs_special_tokens="always",
    required_tokens=("<tool_call>", "</tool_call>"),
    structural_tag=GLM_TAG,
    default_strictness="function",
    models="GLM 4.5 to 5.3",
    format="<tool_call> with a name, keys and values",
    signs=(Signs(template=("[gMASK]<sop>", "<arg_key>")),),
)
LING_TOOLS = replace(
    TOOLS,
    names=("ling3",),
    default_strictness="auto",
    models="Ling 3",
    signs=(Signs(template=("<role>", "<arg_key>")),),
)

POOLSIDE_TOOLS = ToolGrammar(
    names=("poolside_v1",),
    content=(On("<tool_call>", "name", tentative=True),),
    regions={
        "name": Region(Text.NAME, _PAIRS, begins=one_word),
        "arguments": Region(
            Text.BODY,
            (On("</tool_call>", "content"),),
            KeyValues(
                _KEY,
                _VALUE,
                done="</tool_call>",
                opaque=True,
                untyped="",
                values=Values(convert=json_or_literal),
            ),
        ),
    },
    typed=True,
    forced="markup",
    needs_special_tokens="with tools",
    models="Laguna",
    format="<tool_call> with a name, keys and values",
    signs=(Signs(template=("<assistant>", "<arg_key>")),),
)
