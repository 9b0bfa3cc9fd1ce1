"""Calls in single JSON objects behind a marker: Granite 4 and 20B, ERNIE 4.5, InternLM 2, GigaChat 3."""

from parsers.bodies.json_call import JsonCall
from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, ToolGrammar, always_open

_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_PLAIN = JsonCall(("arguments",), certain_by_name=True)

GRANITE4 = ToolGrammar(
    names=("granite4",),
    models="Granite 4",
    format="<tool_call>{name, arguments}</tool_call>",
    signs=(Signs(template=("<|start_of_role|>", _CALL, _CALL_END)),),
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
    models="Granite 20B function calling",
    format="<function_call> {name, arguments}",
    signs=(Signs(template=("<function_call>",), lacks=("<tool_call>",)),),
    content=(On(_FUNCTION, "call", tentative=True),),
    regions={
        "call": Region(Text.BODY, (), _PLAIN, then="between", rejected="between"),
        "between": Region(Text.DROP, (On(_FUNCTION, "call"),)),
    },
    forced="json",
)

_MODELS = ("ernie4_5", "ernie4_5_moe", "ernie4_5_moe_vl")

ERNIE = ToolGrammar(
    names=("ernie45",),
    models="ERNIE 4.5",
    format="<tool_call>{name, arguments}</tool_call>",
    signs=tuple(Signs(template=("<response>", _CALL), model_type=model) for model in _MODELS),
    content=(On(_CALL, "call", tentative=True),),
    regions={
        "call": Region(Text.BODY, (On(_CALL_END, "between"),), _PLAIN, then="between", rejected="between"),
        "between": Region(Text.DROP, (On(_CALL_END, "between"), On(_CALL, "call"))),
    },
    strip=True,
    forced="json",
)

_RESPONSES = tuple("\n" * lines + "<response>" + end for lines in (3, 2, 1, 0) for end in ("\n", ""))
_RESPONSE_ENDS = ("\n</response>\n", "\n</response>", "</response>\n", "</response>")

ERNIE_REASONING = ReasoningGrammar(
    names=("ernie45",),
    models="ERNIE 4.5",
    format="...</think><response>...</response>",
    signs=tuple(Signs(template=("<response>", "</think>"), model_type=model) for model in _MODELS),
    start="<think>",
    end="</think>",
    initial=always_open,
    content=tuple(On(marker, "content", as_text=True) for marker in (*_RESPONSES, *_RESPONSE_ENDS)),
    counted="marked",
    end_counts=True,
    required_tokens=("<think>", "</think>"),
)

_ACTION = On("<|action_start|>", "action", tentative=True)

INTERNLM = ToolGrammar(
    names=("internlm",),
    models="InternLM 2",
    format="<|action_start|><|plugin|>{name, parameters}<|action_end|>",
    signs=(
        Signs(template=("<|action_start|>", "<|plugin|>")),
        Signs(tokens=("<|action_start|>", "<|plugin|>")),
    ),
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

# The second spelling is words of the language, so it is looked for only where no text stands before it.
GIGACHAT3 = ToolGrammar(
    names=("gigachat3",),
    models="GigaChat 3",
    format="<|function_call|>{name, arguments}",
    signs=(Signs(template=("<|role_sep|>", "function call")),),
    start="begin",
    content=(_SPELLINGS[0], _SEPARATOR),
    regions={
        "begin": Region(Text.CONTENT, (*_SPELLINGS, _SEPARATOR), on_text="content"),
        "call": Region(Text.BODY, (_SEPARATOR,), _PLAIN, then="begin"),
        "after": Region(Text.DROP, (*_SPELLINGS, _SEPARATOR)),
    },
    needs_special_tokens="with tools",
    forced="json",
)
