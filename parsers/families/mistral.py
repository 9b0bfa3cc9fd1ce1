"""Mistral: `[TOOL_CALLS]` before calls, whose form the tokenizer's version decides; `[THINK]` reasoning.

Since tokenizer v11 a call is `NAME[ARGS]{...}`, before that it is an object in an array. `[THINK]` came with
v13. The vocabulary tells the versions apart. A choice that forces a call is answered with the array in all.
"""

from parsers.bodies.json_arguments import JsonArguments
from parsers.bodies.json_call import JsonCall
from parsers.grammar import (
    ForModel,
    ModelFacts,
    On,
    ReasoningGrammar,
    Region,
    Signs,
    Text,
    ToolGrammar,
    UnfitModelError,
    always_closed,
)
from parsers.names import one_word

_NAMES = ("mistral",)
_CALLS, _ARGS, _THINK, _THINK_END = "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"

_CALL = JsonCall(("arguments",), certain_by_name=True, decoded=True)
_LIST = On("[", "list", tentative=True, as_text=True)
_ONE = On("{", "one", keep=True, tentative=True, as_text=True)

_ARRAY_REGIONS = {
    "begin": Region(Text.CONTENT, (On(_CALLS, "calls"), _LIST, _ONE), on_text="content"),
    "list": Region(Text.MARKUP, (On("{", "item", keep=True, as_text=True), On("]", "content", as_text=True))),
    "item": Region(Text.BODY, (), _CALL, then="between", rejected="between"),
    "one": Region(Text.BODY, (), _CALL),
    "between": Region(
        Text.DROP,
        (
            On(",", "between", as_text=True),
            On("{", "item", keep=True, as_text=True),
            On("]", "content", as_text=True),
            On(_CALLS, "calls"),
        ),
    ),
}


def _check(model: ModelFacts, kind: str) -> None:
    """Raises UnfitModelError where the tokenizer is none of Mistral's."""
    if not model.is_token(_CALLS):
        raise UnfitModelError(f"the mistral {kind} parser needs a tokenizer that has the token {_CALLS}")


def _tools(model: ModelFacts) -> ToolGrammar:
    _check(model, "tool")
    named = model.is_token(_ARGS)
    if named:
        regions = {
            **_ARRAY_REGIONS,
            "calls": Region(Text.MARKUP, (_LIST, On(_CALLS, "calls")), on_text="name"),
            "name": Region(
                Text.NAME,
                (On(_ARGS, "arguments"), On("{", "arguments", keep=True, as_text=True)),
                begins=one_word,
            ),
            "arguments": Region(Text.BODY, (On(_CALLS, "calls"),), JsonArguments(behind="leave")),
        }
    else:
        regions = {
            **_ARRAY_REGIONS,
            "calls": Region(Text.MARKUP, (_LIST, _ONE, On(_CALLS, "calls")), on_text="content"),
        }
    return ToolGrammar(
        names=_NAMES,
        content=(On(_CALLS, "calls", tentative=named),),
        regions=regions,
        strip=named,
        absorbs=named,
        typed=named,
        forced="markup",
        call_array=True,
        forced_start="begin",
        call_ids="nine",
        needs_special_tokens="always" if named else "with tools",
    )


def _reasoning(model: ModelFacts) -> ReasoningGrammar:
    _check(model, "reasoning")
    if not model.is_token(_THINK):
        return ReasoningGrammar(
            names=_NAMES, initial=lambda _: "off", absorbs=model.is_token(_ARGS), needs_special_tokens=True
        )
    return ReasoningGrammar(
        names=_NAMES,
        start=_THINK,
        end=_THINK_END,
        initial=always_closed,
        ends=(_CALLS,),
        content=(On(_THINK, "reasoning"),),
        absorbs=True,
        strip=True,
    )


REASONING = ForModel(
    names=_NAMES,
    make=_reasoning,
    models="Magistral, Ministral",
    format=f"{_THINK}...{_THINK_END}",
    signs=(Signs(tokens=(_THINK, _CALLS)),),
)

TOOLS = ForModel(
    names=_NAMES,
    make=_tools,
    models="Mistral, Magistral, Devstral, Ministral",
    format=f"{_CALLS}NAME{_ARGS}{{...}} or {_CALLS}[{{...}}]",
    signs=(Signs(tokens=(_CALLS,)),),
)
