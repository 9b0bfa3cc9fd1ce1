"""Inkling: blocks that begin with their kind, thoughts, text or a call in JSON, and end alike."""

from parsers.bodies.json_call import JsonCall
from parsers.grammar import (
    Channels,
    On,
    ReasoningGrammar,
    Region,
    Route,
    Signs,
    Text,
    ToolGrammar,
    always_closed,
)

_MESSAGE, _END, _STOP = "<|message_model|>", "<|end_message|>", "<|content_model_end_sampling|>"
_THINK, _TEXT, _CALL = "<|content_thinking|>", "<|content_text|>", "<|content_invoke_tool_json|>"
_OTHER_TEXT = ("<|content_invoke_tool_text|>", "<|content_tool_error|>")

_WORDS = ("<|message_user|>",)  # of other blocks than answers have

_KINDS = (On(_THINK, "reasoning"), *(On(marker, "content") for marker in (_TEXT, *_OTHER_TEXT)))
_CLOSE = (On(_END, "content"), On(_STOP, "content"), On(_MESSAGE, "header"))
_CALLS = (On(_CALL, "call"),)


def _kind(author: str) -> Route | None:
    """The word before a block's kind, if there is any, is for nobody."""
    return Route("", dropped=len(author.strip())) if len(author.split()) <= 1 else None


def _may_be_author(text: str) -> bool:
    return len(text.split()) <= 1 and (not text.strip() or text == text.rstrip())


def _regions(calls: tuple[On, ...]) -> dict[str, Region]:
    return {
        "header": Region(
            Text.HEADER,
            (*_KINDS, *calls, On(_MESSAGE, "header")),
            route=_kind,
            begins=_may_be_author,
        ),
        "content": Region(Text.CONTENT, (*_KINDS, *_CLOSE, *calls), keeps=_WORDS),
        "reasoning": Region(Text.REASONING, (*_CLOSE, *calls), keeps=_WORDS),
    }


_CHANNELS = Channels(
    start="header",
    regions={
        **_regions(_CALLS),
        "call": Region(
            Text.BODY,
            _CLOSE,
            JsonCall(("args",), certain_by_name=True, verbatim=True, decoded=True),
            then="closing",
            rejected="closing",
        ),
        "closing": Region(Text.DROP, _CLOSE),
    },
    always_reasons=True,
    unasked=_regions(()),
)

_SIGNS = (Signs(tokens=(_MESSAGE, _THINK, _CALL)),)

REASONING = ReasoningGrammar(
    names=("inkling",),
    start=_THINK,
    end=_END,
    initial=always_closed,
    other_ends=(_TEXT, _STOP),
    channels=_CHANNELS,
    absorbs=True,
    strip=True,
    counted="marked",
    end_counts=True,
    models="Inkling",
    format=f"{_THINK}...{_END}",
    signs=_SIGNS,
    framing="inkling",
)

TOOLS = ToolGrammar(
    names=("inkling",),
    channels=_CHANNELS,
    absorbs=True,
    typed=True,
    forced="markup",
    needs_special_tokens="always",
    models="Inkling",
    format=f'{_CALL}{{"name": NAME, "args": {{...}}}}{_END}',
    signs=_SIGNS,
    framing="inkling",
)
