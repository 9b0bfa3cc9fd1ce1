"""MiniMax M3: nested elements, every tag behind a prefix of the format's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.bodies.elements import Elements
from parsers.grammar import Initial, On, ReasoningGrammar, Region, Signs, Text, ToolGrammar

_PREFIX = "]<]minimax[>["
_SECTION, _SECTION_END = f"{_PREFIX}<tool_call>", f"{_PREFIX}</tool_call>"
_CALL = f"{_PREFIX}<invoke name="


def _initial(kwargs: Mapping[str, Any]) -> Initial:
    return "open" if kwargs.get("thinking_mode") == "enabled" else "closed"


REASONING = ReasoningGrammar(
    names=("minimax_m3",),
    start="<mm:think>",
    end="</mm:think>",
    initial=_initial,
    regions={
        "outset": Region(
            Text.CONTENT,
            (
                On("<mm:think>", "reasoning"),
                On("</mm:think>", "content"),
                On(_SECTION, "content", keep=True),
            ),
        )
    },
    begin="outset",
    empty="section",
    end_counts=True,
    required_tokens=("<mm:think>", "</mm:think>"),
    models="MiniMax M3",
    format="<mm:think> ... </mm:think>",
    signs=(Signs(template=("<mm:think>",)),),
)

TOOLS = ToolGrammar(
    names=("minimax_m3",),
    content=(On(_SECTION, "section"),),
    regions={
        "section": Region(Text.DROP, (On(_CALL, "name"), On(_SECTION_END, "after"))),
        "name": Region(Text.NAME, (On(">", "arguments", as_text=True),), quoted=True, rejected="section"),
        "arguments": Region(Text.BODY, (), Elements(_PREFIX, ("invoke", "tool_call")), then="section"),
        "after": Region(Text.DROP, (On(_SECTION, "section"),)),
    },
    typed=True,
    forced="markup",
    models="MiniMax M3",
    format="<invoke name=...> with an element for each argument",
    signs=(Signs(template=("]<]minimax[>[",)),),
)
