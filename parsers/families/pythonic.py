"""Calls in Python: Llama 3.2 and 4, OLMo 3, LFM2.

Prose that begins with a bracket is sent as soon as it can be no call.
"""

from parsers.bodies.python_call import PythonCall
from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, ToolGrammar, always_open

_FIRST, _NEXT = PythonCall(opening="["), PythonCall(closers=("]",))


def _listed(*leave: On) -> dict[str, Region]:
    """A list of calls in brackets, and content behind it. `leave`: markers that end it anywhere."""
    ends = (On(",", "next", as_text=True), On("]", "content", as_text=True), *leave)
    return {
        "first": Region(Text.BODY, leave, _FIRST, then="between"),
        "next": Region(Text.BODY, leave, _NEXT, then="between", rejected="between"),
        "between": Region(Text.DROP, ends),
    }


def _at_once(*markers: On) -> Region:
    """The start of an answer, where a list is a call only if nothing stands before it, not even a blank."""
    blanks = (On(blank, "content", keep=True, as_text=True) for blank in " \n\r\t")
    bracket = On("[", "first", keep=True, tentative=True, as_text=True)
    return Region(Text.CONTENT, (bracket, *blanks, *markers), on_text="content")


PYTHONIC = ToolGrammar(
    names=("pythonic",),
    models="Llama 3.2, ToolACE",
    format="[NAME(key='value'), ...]",
    signs=(Signs(template=("[func_name1(params_name1",), lacks=("<|python_start|>",)),),
    start="begin",
    regions={"begin": _at_once(), **_listed()},
    forced="json",
)

_PYTHON, _PYTHON_END = "<|python_start|>", "<|python_end|>"

LLAMA4 = ToolGrammar(
    names=("llama4_pythonic",),
    models="Llama 4",
    format="<|python_start|>[NAME(key='value'), ...]<|python_end|>",
    signs=(Signs(template=("[func_name1(params_name1",), tokens=("<|python_start|>", "<|python_end|>")),),
    start="begin",
    content=(On(_PYTHON, "content"), On(_PYTHON_END, "content")),
    regions={
        "begin": _at_once(On(_PYTHON, "begin"), On(_PYTHON_END, "content")),
        **_listed(On(_PYTHON_END, "content")),
    },
    forced="json",
)

_CALLS, _CALLS_END = "<function_calls>", "</function_calls>"
_LINE = PythonCall(closers=(_CALLS_END,))

OLMO3 = ToolGrammar(
    names=("olmo3",),
    models="OLMo 3",
    format="<function_calls>NAME(key='value')</function_calls>, a call a line",
    signs=(Signs(template=("<function_calls>",), model_type="olmo3"),),
    content=(On(_CALLS, "first", tentative=True),),
    regions={
        "first": Region(Text.BODY, (), PythonCall(), then="between"),
        "line": Region(Text.BODY, (), _LINE, then="between", rejected="between"),
        "between": Region(
            Text.DROP,
            (On("\n", "line", as_text=True), On(",", "line", as_text=True), On(_CALLS_END, "after")),
        ),
        "after": Region(Text.DROP, (On(_CALLS, "first", tentative=True),)),
    },
    forced="json",
)

OLMO3_REASONING = ReasoningGrammar(
    names=("olmo3",),
    models="OLMo 3",
    format="<think>...</think>, spelled with ordinary tokens",
    signs=(Signs(template=("<think>",), model_type="olmo3"),),
    start="<think>",
    end="</think>",
    initial=always_open,
    counted="none",
)

_START, _END = "<|tool_call_start|>", "<|tool_call_end|>"
_LEAVE = (On(_END, "content"),)

LFM2 = ToolGrammar(
    names=("lfm2",),
    models="LFM2",
    format="<|tool_call_start|>[NAME(key='value'), ...]<|tool_call_end|>",
    signs=(Signs(tokens=(_START, _END)),),
    content=(On(_START, "first", tentative=True),),
    regions={
        "first": Region(Text.BODY, _LEAVE, PythonCall(opening="[", positional=True), then="between"),
        "next": Region(
            Text.BODY,
            _LEAVE,
            PythonCall(closers=("]",), positional=True),
            then="between",
            rejected="between",
        ),
        "between": Region(
            Text.DROP, (*_LEAVE, On(",", "next", as_text=True), On("]", "closing", as_text=True))
        ),
        "closing": Region(Text.DROP, _LEAVE),
    },
    strip=True,
    needs_special_tokens="with tools",
    required_tokens=(_START, _END),
    forced="json",
)
