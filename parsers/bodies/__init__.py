"""Syntaxes of what stands inside a call, one module each.

A body is a frozen description plus a state of plain values. It reads text, says what became certain, and
keeps the rest in its state; how text was cut into pieces never changes the sum of what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class BodyState(msgspec.Struct, array_like=True):
    """What every body remembers.

    `name`: the function name once known. `done`: the body ended itself. `late`: the end of what was said,
    where a parser that waits for the next key would not have said it yet.
    """

    name: str | None = None
    done: bool = False
    late: str = ""


class Said:
    """What a body learnt from one piece of text."""

    __slots__ = ("again", "arguments", "dropped", "failed", "id", "unfinished")

    def __init__(self) -> None:
        self.arguments: list[str] = []  # argument text that is certain
        self.again = ""  # a marker at which the body ended, to be read by the region that follows
        self.dropped = 0  # characters that belong to nothing
        self.unfinished = 0  # characters of a value cut before its end
        self.id: str | None = None  # the call's own id, where the body has it; known when its name is
        self.failed = False  # this is no call; only before anything else was said


def solid(text: str) -> int:
    """Characters of `text` that are not whitespace: what is counted when text is dropped."""
    return len("".join(text.split()))


class Body(Protocol):
    """A call-body syntax. Its instances are values: equal descriptions behave alike."""

    @property
    def state_type(self) -> type[BodyState]:
        """The struct of its state."""
        ...

    @property
    def markers(self) -> frozenset[str]:
        """Tokens that mean something inside the body. They reach `feed` as a `Marker`, one a call."""
        ...

    def start(self, name: str | None) -> Any:
        """The state at the body's first character. `name`: the function, if it stands before the body."""
        ...

    def feed(self, state: Any, text: str, types: Mapping[str, Any], said: Said) -> int:
        """Read `text`; return how many characters belong to the body: all of them unless it is done or
        failed, or wants the rest again because it now knows the name.

        `types`: type letters of the function's parameters (`parsers.schema`).
        """
        ...

    def literal(self, state: Any) -> bool:
        """Whether a marker token that arrives now is text of a value."""
        ...

    def end(self, state: Any, said: Said, by_marker: bool) -> bool:
        """The end marker came before the body ended itself, or the output ended. Say what is held back.

        Returns whether the call is complete all the same.
        """
        ...
