"""Kimi K3: tags of three tokens around thoughts, answer and calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.bodies.attributed import Attributed, attributes
from parsers.grammar import Channels, Initial, On, ReasoningGrammar, Region, Route, Signs, Text, ToolGrammar
from parsers.tags import KIMI_K3_TAG

_SEP = "<|sep|>"


def _open(word: str) -> str:
    return f"<|open|>{word}{_SEP}"


def _close(word: str) -> str:
    return f"<|close|>{word}{_SEP}"


def _initial(kwargs: Mapping[str, Any]) -> Initial:
    word = "thinking" if kwargs.get("thinking") is not None else "enable_thinking"
    return "open" if kwargs.get(word, True) else "off"


def _call(text: str) -> Route | None:
    name = attributes(text).get("tool")
    return Route("arguments", name) if name else None


_LEAVE = (On(_open("tools"), "tools"), On(_close("response"), "after"), On(_close("message"), "after"))
_CHANNELS = Channels(
    start="content",
    regions={
        "reasoning": Region(
            Text.REASONING,
            (
                On(_open("think"), "reasoning"),
                On(_close("think"), "content"),
                On(_open("response"), "response"),
            ),
        ),
        "content": Region(
            Text.CONTENT,
            (
                On(_open("think"), "reasoning"),
                On(_close("think"), "content"),
                On(_open("response"), "response"),
                *_LEAVE,
            ),
        ),
        "response": Region(Text.CONTENT, _LEAVE),
        "tools": Region(Text.DROP, (On("<|open|>call", "call"), On(_close("tools"), "after"))),
        "call": Region(Text.NAME, (On(_SEP, "arguments", as_text=True),), route=_call, rejected="tools"),
        "arguments": Region(
            Text.BODY,
            (),
            Attributed("<|open|>argument", _SEP, _close("argument"), done=_close("call")),
            then="tools",
        ),
        "after": Region(Text.DROP, (On(_open("tools"), "tools"),)),
    },
)

_SIGNS = (Signs(template=("<|open|>", "<|close|>", "<|sep|>")),)

REASONING = ReasoningGrammar(
    names=("kimi_k3",),
    start=_open("think"),
    end=_close("think"),
    initial=_initial,
    channels=_CHANNELS,
    end_counts=True,
    needs_special_tokens=True,
    spaces_between_special_tokens=False,
    models="Kimi K3",
    format="<|open|>think<|sep|> ... <|close|>think<|sep|>",
    signs=_SIGNS,
    framing="kimi_k3",
)

TOOLS = ToolGrammar(
    names=("kimi_k3",),
    channels=_CHANNELS,
    forced="markup",
    needs_special_tokens="always",
    spaces_between_special_tokens=False,
    required_tokens=("<|open|>", "<|close|>", _SEP),
    structural_tag=KIMI_K3_TAG,
    refuses=("untagged named",),
    models="Kimi K3",
    format='<|open|>call tool="name"<|sep|> with typed arguments',
    signs=_SIGNS,
    framing="kimi_k3",
)
