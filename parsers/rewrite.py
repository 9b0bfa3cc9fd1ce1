"""Escapes that some models write where they mean a new line, replaced in what they say.

Code and formulas keep theirs. Only a piece of an escape or of a bracket around code is held back.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

_TOKEN = re.compile(r"```|`|\$\$|\$|(?<!\\)\\(?:r\\n|[nr(\[])")
_PIECES = ("`", "``", "$", "\\", "\\r", "\\r\\")
_CLOSERS = {"```": "```", "`": "`", "$$": "$$", "$": "$", "\\(": "\\)", "\\[": "\\]"}
_LONGEST = 3  # characters of a piece


class Rewriting(msgspec.Struct, array_like=True):
    """What is remembered of a text: the opener of the code or formula it is in, what is held back, and
    whether a backslash stands before that."""

    inside: str = ""
    held: str = ""
    escaped: bool = False


class Rewrite(Protocol):
    """How a text is rewritten: in pieces, the last of which has no `more`."""

    def __call__(self, state: Rewriting, text: str, more: bool) -> str: ...


def newlines(state: Rewriting, text: str, more: bool) -> str:
    r"""Text in which `\n`, `\r` and `\r\n` are new lines, unless a backslash stands before them."""
    mark = "\\" if state.escaped else ""
    buffer = mark + state.held + text
    at, said = len(mark), []
    state.held = ""
    while at < len(buffer):
        start, token = _next(state.inside, buffer, at)
        if more and (piece := _piece(state.inside, buffer, at, start, token)):
            said.append(buffer[at : len(buffer) - len(piece)])
            state.held = piece
            break
        said.append(buffer[at:start])
        at = start + len(token)
        if state.inside:
            said.append(token)
            state.inside = "" if token else state.inside
        elif token in _CLOSERS:
            said.append(token)
            state.inside = token
        elif token:
            said.append("\n")
    before = buffer[: len(buffer) - len(state.held)]
    state.escaped = before.endswith("\\")
    return "".join(said)


def _next(inside: str, buffer: str, at: int) -> tuple[int, str]:
    """Where the next thing stands that matters, and what it is; the end of the text if there is none."""
    if inside:
        start, token = buffer.find(_CLOSERS[inside], at), _CLOSERS[inside]
        return (start, token) if start >= 0 else (len(buffer), "")
    found = _TOKEN.search(buffer, at)
    return (found.start(), found.group()) if found else (len(buffer), "")


def _piece(inside: str, buffer: str, at: int, start: int, token: str) -> str:
    """What may still become something else, at the end of a text that is read from `at` on and whose next
    thing is `token` at `start`."""
    if token:
        rest = buffer[start : start + _LONGEST + 1]
        return rest if not inside and rest in _PIECES else ""
    if not inside:
        return "\\" if re.search(r"(?<!\\)\\$", buffer[-2:]) else ""
    closer, end = _CLOSERS[inside], buffer[max(at, len(buffer) - _LONGEST) :]
    return next((closer[:n] for n in range(len(closer) - 1, 0, -1) if end.endswith(closer[:n])), "")
