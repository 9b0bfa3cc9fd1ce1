"""Strings of Python as they stream in, written as JSON."""

from __future__ import annotations

import re
import unicodedata

from parsers.bodies.python_state import AFTER, CLOSED, CLOSERS, PEEK, QUOTE, STRING, PythonText, escaped, put

_LONGEST_NAME = 64
_LONGEST_BLANK = 256
_PLAIN = re.compile(r"[^'\"\\\x00-\x1f\ud800-\udfff]+")
_ESCAPES = {**dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)), "\\": "\\", "'": "'", '"': '"', "\n": ""}
_CODE_SIZES = {"x": 2, "u": 4, "U": 8}
_HEX = frozenset("0123456789abcdefABCDEF")


def quote(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """Behind a string's first quote: an empty string or three quotes may follow."""
    if text[at] != state.quote:
        state.mode = CLOSED if state.pending else STRING
        state.pending = ""
        return at
    state.pending += text[at]
    if len(state.pending) == 2:
        state.quote *= 3
        state.pending = ""
        state.mode = STRING
    return at + 1


def string(state: PythonText, text: str, at: int, out: list[str]) -> int:
    char = text[at]
    if state.pending.startswith("\\"):
        return _escape(state, text, at, out)
    if char == state.quote[0]:
        state.pending += char
        if state.pending == state.quote:
            state.pending = ""
            state.mode = CLOSED
        return at + 1
    if state.pending:  # quotes, but too few of them
        put(state, out, escaped(state.pending))
        state.pending = ""
    if char == "\\":
        state.pending = char
        return at + 1
    plain = _PLAIN.match(text, at)
    piece = plain.group() if plain else char
    put(state, out, piece if plain else escaped(piece))
    return at + len(piece)


def _escape(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """Inside an escape."""
    held, char = state.pending, text[at]
    kind = held[1:2]
    if state.raw:
        _said(state, out, held + char)
    elif not kind:
        if char in _ESCAPES:
            _said(state, out, _ESCAPES[char])
        elif char in "xuUN01234567":
            state.pending += char
        else:
            _said(state, out, held + char)
    elif kind == "N":
        if not (char == "{" if len(held) == 2 else len(held) < _LONGEST_NAME and char not in "\"'\\"):
            _said(state, out, held)
            return at
        state.pending += char
        if char == "}":
            try:
                _said(state, out, unicodedata.lookup(held[3:]))
            except KeyError:
                _said(state, out, state.pending)
    elif kind in _CODE_SIZES:
        if char not in _HEX:
            _said(state, out, held)
            return at
        state.pending += char
        if len(held) - 1 == _CODE_SIZES[kind]:
            code = int(state.pending[2:], 16)
            _said(state, out, chr(code) if code <= 0x10FFFF else state.pending)
    elif char in "01234567" and len(held) < 4:
        state.pending += char
    else:
        _said(state, out, chr(int(held[1:], 8)))
        return at
    return at + 1


def _said(state: PythonText, out: list[str], text: str) -> None:
    state.pending = ""
    put(state, out, escaped(text))


def closed(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """Behind a string: what comes next says whether its quote ended it."""
    char = text[at]
    top = state.stack[-1:]
    if char.isspace() and len(state.pending) < _LONGEST_BLANK:
        state.pending += char
        return at + 1
    blank, state.pending = state.pending, ""
    if char in "\"'":  # Python joins strings that stand side by side
        state.quote, state.raw, state.mode = char, False, QUOTE
        return at + 1
    if char == "," and not top:
        state.pending = blank + char
        state.mode = PEEK
        return at + 1
    ends = CLOSERS[top] if top else ")"
    ends += ":" if top == "d" else ",:" if top in ("b", "s") else ","
    if char in ends or char.isspace():
        put(state, out, '"')
        state.mode = AFTER
    else:
        put(state, out, escaped(state.quote + blank))
        state.mode = STRING
    return at


def peek(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """Behind a string and a comma: unless another keyword follows, both belong to the string."""
    char = text[at]
    key = state.pending.lstrip()[1:].lstrip()
    room = len(state.pending) < _LONGEST_BLANK
    if room and (char.isspace() or char.isalnum() or char == "_"):
        state.pending += char
        return at + 1
    if (char == "=" and key.strip().isidentifier()) or (char in ")*" and not key):
        put(state, out, '"')
        state.done = True
    else:
        put(state, out, escaped(state.quote + state.pending))
        state.pending = ""
        state.mode = STRING
    return at
