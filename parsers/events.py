"""What goes into a parser and what comes out. Nothing else lives here.

A lexeme is what one output token gave: a piece of text (`str`, empty when the token gave none), a `Marker` (a
token that the grammar knows by its id) or a `Special` (any other special token that was not skipped). An
event says one thing about the answer; concatenating the events of a message gives the message, whatever the
chunking was.
"""

from __future__ import annotations

import msgspec


class Marker(str):
    """A marker that arrived as one vocabulary token. The same characters in a plain `str` are text."""

    __slots__ = ()


class Skipped(Marker):
    """A marker whose text the request does not want to see where it marks nothing."""

    __slots__ = ()


class Special(str):
    """A special token that is no marker of the grammar, by its text.

    A region keeps it as text or deletes it.
    """

    __slots__ = ()


class Reasoning(msgspec.Struct, frozen=True):
    """Text of the reasoning. Empty text says that there was a reasoning section."""

    text: str


class Content(msgspec.Struct, frozen=True):
    """Text of the answer."""

    text: str


class CallStart(msgspec.Struct, frozen=True):
    """A tool call begins. `id` is the model's own, None where the format has none."""

    index: int
    name: str
    id: str | None = None


class CallArguments(msgspec.Struct, frozen=True):
    """A piece of the call's arguments, a JSON text when concatenated."""

    index: int
    text: str


class CallEnd(msgspec.Struct, frozen=True):
    """The call is complete, its arguments are JSON. A call without this event was cut off, or the model wrote
    no JSON: that cannot be taken back, since arguments are said as they come.
    """

    index: int


class Anomaly(msgspec.Struct, frozen=True):
    """Output that belongs to no part of the message, counted by kind.

    Kinds: `dropped_text` (text where the format allows none), `unfinished_call` (a call cut before its name
    was whole), `rejected_call` (a call whose name is none), `unfinished_value` (a typed value cut before its
    end), `invalid_arguments` (of a call that is whole but for its arguments, which are no JSON),
    `markup_in_content` (call markup that turned out to be no call and is content).
    """

    kind: str
    characters: int


Lexeme = str
Event = Reasoning | Content | CallStart | CallArguments | CallEnd | Anomaly
