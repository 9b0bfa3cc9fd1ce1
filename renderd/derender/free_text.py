"""The text for a custom tool, found in the arguments by which a model gives it: `{"input": "TEXT"}`."""

from __future__ import annotations

import json
import re

import msgspec

_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_PARTIAL = re.compile(r'\s*(\{\s*("(i(n(p(u(t("\s*(:\s*)?)?)?)?)?)?)?)?)?')
"""What may still become the opening, up to its last mark."""
_PIECE = re.compile(
    r'(?:[^"\\]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\(?!u[dD][89abAB])(?:u[0-9a-fA-F]{4}|[^u]))+'
)
"""Characters and escapes that are whole: the first half of a pair waits for the second."""


class FreeText(msgspec.Struct, array_like=True):
    """Reads arguments piece by piece.

    Attributes:
        where: before the text, in it, behind it; or "raw": the arguments are of another form, and all text.
        held: what cannot be read yet.
    """

    where: str = "before"
    held: str = ""

    def feed(self, arguments: str) -> str:
        """What the next piece of the arguments adds to the text."""
        self.held += arguments
        if self.where == "before":
            if opening := _OPENING.match(self.held):
                self.where, self.held = "text", self.held[opening.end() :]
            elif not _PARTIAL.fullmatch(self.held):
                self.where = "raw"
        if self.where == "text":
            return self._text()
        return self._rest() if self.where == "raw" else ""

    def finish(self) -> str:
        """What is left when there is no more."""
        return self._rest() if self.where == "before" else ""

    def _text(self) -> str:
        piece = _PIECE.match(self.held)
        end = piece.end() if piece else 0
        text, self.held = self.held[:end], self.held[end:]
        if self.held.startswith('"'):
            self.where, self.held = "behind", ""
        return _decoded(text)

    def _rest(self) -> str:
        rest, self.held = self.held, ""
        return rest


def _decoded(text: str) -> str:
    """The characters that a piece of a JSON string stands for; a piece that is none stands for itself."""
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
