"""PLaMo 3: markers that are several tokens each, around reasoning and around each part of a call."""

from parsers.bodies.json_arguments import JsonArguments
from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, ToolGrammar, open_unless_disabled
from parsers.tags import PLAMO3_TAG


def _word(name: str) -> str:
    return f"<|plamo:{name}:plamo|>"


_THINK, _THINK_END, _TURN_END = _word("begin_think"), _word("end_think"), "<|plamo:tag|>"
_CALLS, _CALLS_END = _word("begin_tool_requests"), _word("end_tool_requests")
_CALL, _CALL_END = _word("begin_tool_request"), _word("end_tool_request")
_NAME, _NAME_END = _word("begin_tool_name"), _word("end_tool_name")
_ARGUMENTS, _ARGUMENTS_END = _word("begin_tool_arguments"), _word("end_tool_arguments")

_SECTION = (
    On(_CALL, "section"),
    On(_NAME, "name"),
    On(_ARGUMENTS_END, "section"),
    On(_CALL_END, "section"),
    On(_CALLS_END, "content"),
)
_CLOSE = (On(_ARGUMENTS_END, "section"), On(_CALL_END, "section"), On(_CALLS_END, "content"))

REASONING = ReasoningGrammar(
    names=("plamo3",),
    start=_THINK,
    end=_THINK_END,
    initial=open_unless_disabled,
    other_ends=(_TURN_END,),
    ends=(_CALLS,),
    content=(On(_THINK, "reasoning"), On(_TURN_END, "content")),
    absorbs=True,
    off_is_text=True,
    models="PLaMo 3",
    format=f"{_THINK}...{_THINK_END}",
    signs=(Signs(template=(_THINK,)),),
)

TOOLS = ToolGrammar(
    names=("plamo3",),
    content=(On(_CALLS, "section"), On(_TURN_END, "content")),
    regions={
        "section": Region(Text.DROP, _SECTION),
        "name": Region(Text.NAME, (On(_NAME_END, "arguments"),), then="section", rejected="section"),
        "arguments": Region(
            Text.BODY,
            _CLOSE,
            JsonArguments(
                skips=(_ARGUMENTS, "<|plamo:constrain|>", "json", "<|plamo:msg|>"),
                ends=(_ARGUMENTS_END, _CALL_END, _CALLS_END),
            ),
            then="section",
        ),
    },
    absorbs=True,
    typed=True,
    forced="markup",
    needs_special_tokens="always",
    structural_tag=PLAMO3_TAG,
    models="PLaMo 3",
    format=f"{_NAME}NAME{_NAME_END}{_ARGUMENTS}...{_ARGUMENTS_END}",
    signs=(Signs(template=(_CALLS,)),),
)
