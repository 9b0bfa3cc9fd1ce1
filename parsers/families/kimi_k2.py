"""Kimi K2: a section of calls, each with a header that is its id; `<think>` reasoning."""

import re

from parsers.bodies.json_arguments import JsonArguments
from parsers.grammar import (
    On,
    ReasoningGrammar,
    Region,
    Route,
    Signs,
    Text,
    ToolGrammar,
    open_unless_both_off,
)
from parsers.tags import KIMI_K2_TAG

_SECTION, _SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
_ARGUMENTS = "<|tool_call_argument_begin|>"

_ID = re.compile(r"(?:functions\.(?!:)|(?!functions\.))([^:]+):(?:.*:)?[0-9]+", re.DOTALL)
_NOT_IN_IDS = re.compile(r"[<\n\r]")


def _call(header: str) -> Route | None:
    """`functions.NAME:NUMBER`, which is the call's id, unless there is more in it than ids have."""
    call_id = header.strip()
    found = _ID.fullmatch(call_id)
    if found is None:
        return None
    if _NOT_IN_IDS.search(call_id):
        return Route("arguments", found[1], dropped=len(call_id) - len(found[1]))
    return Route("arguments", found[1], call_id)


REASONING = ReasoningGrammar(
    names=("kimi_k2",),
    start="<think>",
    end="</think>",
    initial=open_unless_both_off,
    ends=(_SECTION,),
    absorbs=True,
    strip=True,
    off_is_text=True,
    models="Kimi K2, K2.5",
    format="<think>...</think>",
    signs=(Signs(tokens=(_SECTION, "<think>")),),
)

TOOLS = ToolGrammar(
    names=("kimi_k2",),
    content=(On(_SECTION, "section"),),
    regions={
        "section": Region(
            Text.DROP, (On(_CALL, "header"), On(_SECTION_END, "after"), On(_CALL_END, "section"))
        ),
        "header": Region(
            Text.NAME,
            (
                On(_ARGUMENTS, "arguments"),
                On(_CALL_END, "arguments", keep=True),
                On(_SECTION_END, "arguments", keep=True),
            ),
            route=_call,
            rejected="lost",
        ),
        "arguments": Region(
            Text.BODY,
            (On(_CALL_END, "section"), On(_SECTION_END, "after")),
            JsonArguments(ends=(_CALL_END, _SECTION_END)),
            then="section",
        ),
        "lost": Region(Text.DROP, (On(_CALL_END, "section"), On(_SECTION_END, "after"), On(_CALL, "header"))),
        "after": Region(Text.DROP, (On(_SECTION, "section"),)),
    },
    absorbs=True,
    typed=True,
    needs_special_tokens="with tools",
    structural_tag=KIMI_K2_TAG,
    models="Kimi K2, K2.5",
    format=f"{_CALL}functions.NAME:0{_ARGUMENTS}{{...}}{_CALL_END}",
    signs=(Signs(tokens=(_SECTION, _ARGUMENTS)),),
)
