"""Calls in single JSON objects behind a marker: Granite 4 and 20B, ERNIE 4.5, InternLM 2, GigaChat 3."""

from parsers.bodies.json_call import JsonCall
from parsers.grammar import On, ReasoningGrammar, Region, Text, ToolGrammar, always_open

_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_PLAIN = JsonCall(("arguments",), certain_by_name=True)

GRANITE4 = ToolGrammar(
    names=("granite4",),
    content=(On(_CALL, "call", tentative=True),),
    regions={
        "call": Region(
            Text.BODY,
            (On(_CALL_END, "content"),),
            JsonCall(("arguments",), certain_by_name=False, decoded=True),
            then="closing",
        ),
        "closing": Region(Text.DROP, (On(_CALL_END, "content"), On(_CALL, "call", tentative=True))),
    },
    needs_special_tokens="with tools",
    forced="json",
)

_FUNCTION = "<function_call>"

GRANITE_20B = ToolGrammar(
    names=("granite-20b-fc",),
    content=(On(_FUNCTION, "call", tentative=True),),
    regions={
        "call": Region(Text.BODY, (), _PLAIN, then="between", rejected="between"),
        "between": Region(Text.DROP, (On(_FUNCTION, "call"),)),
    },
    forced="json",
)

ERNIE = ToolGrammar(
    names=("ernie45",),
    content=(On(_CALL, "call", tentative=True),),
    regions={
        "call": Region(Text.BODY, (On(_CALL_END, "between"),), _PLAIN, then="between", rejected="between"),
        "between": Region(Text.DROP, (On(_CALL_END, "between"), On(_CALL, "call"))),
    },
    forced="json",
)

_RESPONSE_ENDS = ("\n</response>\n", "\n</response>", "</response>\n", "</response>")

ERNIE_REASONING = ReasoningGrammar(
    names=("ernie45",),
    start="<think>",
    end="</think>",
    initial=always_open,
    content=(
        On("<response>", "content", as_text=True),
        *(On(marker, "content", as_text=True) for marker in _RESPONSE_ENDS),
    ),
    skip="\n",
    required_tokens=("<think>", "</think>"),
)

_ACTION = On("<|action_start|>", "action", tentative=True)

INTERNLM = ToolGrammar(
    names=("internlm",),
    content=(_ACTION,),
    regions={
        "action": Region(Text.DROP, (On("<|plugin|>", "call"),)),
        "call": Region(
            Text.BODY,
            (On("<|action_end|>", "after"),),
            JsonCall(("parameters", "arguments"), certain_by_name=True),
            then="after",
        ),
        "after": Region(Text.DROP, (On("<|action_end|>", "after"), _ACTION)),
    },
    needs_special_tokens="with tools",
    forced="json",
)

_SPELLINGS = (
    On("<|function_call|>", "call", tentative=True),
    On("function call<|role_sep|>\n", "call", tentative=True),
)
_SEPARATOR = On("<|message_sep|>", "after")

GIGACHAT3 = ToolGrammar(
    names=("gigachat3",),
    content=(*_SPELLINGS, _SEPARATOR),
    regions={
        "call": Region(Text.BODY, (_SEPARATOR,), _PLAIN, then="after"),
        "after": Region(Text.DROP, (*_SPELLINGS, _SEPARATOR)),
    },
    needs_special_tokens="with tools",
    forced="json",
)
