"""Calls in a JSON list behind a marker: Hunyuan A13B, Jamba, Phi-4 mini, Granite 3, xLAM, Apertus."""

from __future__ import annotations

from dataclasses import replace

from parsers.bodies import Body
from parsers.bodies.json_call import JsonCall
from parsers.bodies.keyed_call import KeyedCall
from parsers.grammar import On, Region, Signs, Text, ToolGrammar


def listed(call: Body, end: str, *, single: bool = False) -> dict[str, Region]:
    """The regions behind an opener, from "list" on. `end`: the region behind the list. `single`: a call may
    stand without the brackets."""
    brace = On("{", "call", keep=True, as_text=True)
    alone = (On("{", "alone", keep=True, as_text=True),) if single else ()
    return {
        "list": Region(Text.DROP, (On("[", "items", as_text=True), *alone)),
        "items": Region(
            Text.DROP,
            (brace, On(",", "items", as_text=True), On("]", end, certain=True, as_text=True)),
        ),
        "call": Region(Text.BODY, (), call, then="items", rejected="items"),
        **({"alone": Region(Text.BODY, (), call, then=end)} if single else {}),
    }


_DECODED = JsonCall(("arguments",), certain_by_name=True, decoded=True)
_PLAIN = JsonCall(("arguments",), certain_by_name=True)

_CALLS, _CALLS_END = "<tool_calls>", "</tool_calls>"
_OPEN = On(_CALLS, "list", tentative=True)

HUNYUAN = ToolGrammar(
    names=("hunyuan_a13b",),
    models="Hunyuan A13B",
    format="<tool_calls>[{name, arguments}, ...]</tool_calls>",
    signs=(Signs(template=(_CALLS, "<answer>")),),
    start="begin",
    content=(_OPEN,),
    regions={
        "begin": Region(
            Text.CONTENT,
            (_OPEN, On("<think>", "thought", echo=True, as_text=True)),
            on_text="content",
        ),
        **listed(_DECODED, "closing"),
        "closing": Region(Text.DROP, (On(_CALLS_END, "content"), _OPEN)),
        "thought": Region(Text.CONTENT, (On("</think>", "content", echo=True, as_text=True),)),
    },
    forced="json",
)

JAMBA = ToolGrammar(
    names=("jamba",),
    models="Jamba 1.5",
    format="<tool_calls>[{name, arguments}, ...]</tool_calls>",
    signs=(Signs(template=(_CALLS,), model_type="jamba"),),
    content=(_OPEN,),
    regions={**listed(_PLAIN, "after"), "after": Region(Text.DROP, (_OPEN, On(_CALLS_END, "after")))},
    needs_special_tokens="with tools",
    required_tokens=(_CALLS, _CALLS_END),
    forced="json",
)

_FUNCTOOLS = On("functools[", "items", tentative=True)

PHI4 = ToolGrammar(
    names=("phi4_mini_json",),
    models="Phi-4 mini",
    format="functools[{name, arguments}, ...]",
    signs=(
        Signs(template=("functools[",)),
        Signs(template=("<|tool|>", "<|/tool|>"), model_type="phi3"),
    ),
    content=(_FUNCTOOLS,),
    regions={
        **listed(JsonCall(("arguments", "parameters"), certain_by_name=False), "after"),
        "after": Region(Text.DROP, (_FUNCTOOLS,)),
    },
    forced="json",
)

_ARRAYS = tuple(On(marker, "list", tentative=True) for marker in ("<|tool_call|>", "<tool_call>"))

GRANITE = ToolGrammar(
    names=("granite",),
    models="Granite 3",
    format="<|tool_call|>[{name, arguments}, ...]",
    signs=(Signs(template=("<|start_of_role|>", "<|tool_call|>")),),
    content=_ARRAYS,
    regions={
        **listed(JsonCall(("arguments",), certain_by_name=True, verbatim=True, decoded=True), "after"),
        "after": Region(Text.DROP, _ARRAYS),
    },
    strip=True,
    absorbs=True,
    typed=True,
    needs_special_tokens="always",
    forced="json",
)

_PREFIX, _SUFFIX = "<|tools_prefix|>", "<|tools_suffix|>"

APERTUS = ToolGrammar(
    names=("apertus",),
    models="Apertus",
    format="<|tools_prefix|>[{NAME: {...}}, ...]<|tools_suffix|>",
    signs=(Signs(template=(_PREFIX,)),),
    content=(On(_PREFIX, "list", tentative=True),),
    regions={
        **listed(KeyedCall(), "closing", single=True),
        "closing": Region(Text.DROP, (On(_SUFFIX, "content"),)),
    },
    needs_special_tokens="with tools",
    forced="json",
)

_FENCE, _CLOSED_FENCE = On("```", "list", tentative=True, as_text=True), On("```", "content", as_text=True)
_WRAPS = tuple(On(marker, "list", tentative=True) for marker in ("[TOOL_CALLS]", "<tool_call>"))
_MARKED = (replace(_FENCE, marker="```json"), _FENCE, *_WRAPS)
_KEYS = ("name", "arguments", "id", "type")
_THOUGHT = On("</think>", "begin", echo=True)

XLAM = ToolGrammar(
    names=("xlam",),
    models="xLAM 2",
    format="[{name, arguments}, ...], bare, fenced or behind a marker",
    signs=(Signs(template=("single JSON array", "arguments")),),
    start="begin",
    content=(*_MARKED, _THOUGHT),
    regions={
        "begin": Region(
            Text.CONTENT,
            (On("[", "bare", tentative=True, as_text=True), *_MARKED, _THOUGHT),
            on_text="content",
        ),
        **listed(_DECODED, "closing", single=True),
        "bare": Region(Text.DROP, (On("{", "first", keep=True, as_text=True),)),
        "first": Region(
            Text.BODY,
            (),
            JsonCall(("arguments",), certain_by_name=False, first=_KEYS, decoded=True, known=True),
            then="items",
            known_names=True,
        ),
        "closing": Region(
            Text.CONTENT, (_CLOSED_FENCE, On("</tool_call>", "content"), *_WRAPS), on_text="content"
        ),
    },
    typed=True,
    forced="json",
)
