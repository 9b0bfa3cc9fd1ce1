"""Muse: messages to somebody. To itself it thinks, to the user it answers, to anyone else it calls."""

from __future__ import annotations

from dataclasses import replace

from parsers.bodies.values import Values
from parsers.bodies.xml_parameters import XmlParameters
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
from parsers.schema import Node, coerce

_START, _MESSAGE, _ENDS = "<|start|>", "<|message|>", ("<|eom|>", "<|eot|>")
_ROLE, _TO = "assistant", "to="
_LONGEST_RECIPIENT = 256


def _read(header: str) -> Route | None:
    """Where the message leads that stands behind a header."""
    words = header.rpartition(_START)[2].strip().removeprefix(_ROLE).split()
    if len(words) > 1 or (words and not words[0].startswith(_TO)):
        return None
    recipient = words[0].removeprefix(_TO) if words else "self"
    return Route({"self": "reasoning", "user": "content"}.get(recipient, "calls"))


def _read_words(header: str) -> Route | None:
    """The same where nobody is called: a message to anyone else is text."""
    route = _read(header)
    return None if route is None or route.to == "calls" else route


def _begins(text: str) -> bool:
    """Whether an answer or a message may begin with a header that begins with `text`."""
    rest = text.rpartition(_START)[2].lstrip()  # a header may begin all over
    if _ROLE.startswith(rest):
        return True
    rest = rest.removeprefix(_ROLE).lstrip()
    if _TO.startswith(rest) or _START.startswith(rest):
        return True
    recipient = rest.removeprefix(_TO)
    one = len(recipient.split()) <= 1 and len(recipient) <= _LONGEST_RECIPIENT
    return rest.startswith(_TO) and one and not recipient[:1].isspace()


def _function(text: str) -> Route | None:
    """The function of a name, which may stand twice: once as its namespace."""
    name = text.strip()
    first, dot, second = name.partition(".")
    if dot and first == second:
        name = first
    return Route("", name) if name else None


def _json_or_text(text: str, _node: Node) -> str:
    """A value that the schema does not call a string."""
    return coerce(text, "")


_NEXT = On(_START, "header", tentative=True)
_OVER = (*(On(marker, "between") for marker in _ENDS), _NEXT)
_HEADER = Region(Text.HEADER, (On(_MESSAGE, "content"),), keeps=(_START,), route=_read, begins=_begins)
_UNASKED = replace(_HEADER, route=_read_words)
_CHANNELS = Channels(
    start="begin",
    regions={
        "begin": _HEADER,
        "header": _HEADER,
        "between": Region(Text.DROP, (_NEXT, On(_MESSAGE, "content"))),
        "reasoning": Region(Text.REASONING, _OVER),
        "content": Region(Text.CONTENT, _OVER),
        "calls": Region(Text.DROP, (On('<atem:invoke name="', "name"), *_OVER)),
        "name": Region(Text.NAME, (On('">', "arguments", as_text=True),), route=_function, rejected="calls"),
        "arguments": Region(
            Text.BODY,
            _OVER,
            XmlParameters(
                "<atem:parameter name=",
                "</atem:parameter>",
                ("</atem:invoke>",),
                values=Values(convert=_json_or_text, untyped=""),
            ),
            then="calls",
        ),
    },
    unasked={"begin": _UNASKED, "header": _UNASKED},
)

_SIGNS = (Signs(template=("<atem:invoke",)),)

REASONING = ReasoningGrammar(
    names=("muse", "musespark1x"),
    initial=always_closed,
    end_counts=True,
    channels=_CHANNELS,
    needs_special_tokens=True,
    models="Muse",
    format=f"to=self{_MESSAGE} ... <|eom|>",
    signs=_SIGNS,
    framing="muse",
)

GLIMMER_REASONING = replace(REASONING, names=("muse_glimmer",), counted="none", end_counts=False)

TOOLS = ToolGrammar(
    names=("muse", "muse_glimmer", "musespark1x"),
    channels=_CHANNELS,
    typed=True,
    forced="markup",
    needs_special_tokens="always",
    models="Muse",
    format='to=NAME<|message|><atem:invoke name="NAME"><atem:parameter name="KEY">VALUE</atem:parameter>',
    signs=_SIGNS,
    framing="muse",
)
