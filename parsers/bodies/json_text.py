"""JSON as it streams in, written as Python's `json.dumps` would write it.

vLLM's batch parsers load the arguments and dump them again (parsers of Hermes and Llama): blanks after `,`
and `:`, no other whitespace, escapes decoded, numbers in their shortest form. This does the same character by
character, so that a stream says what a batch says. It never fails: what is not JSON is passed on. Duplicate
keys are all kept.
"""

from __future__ import annotations

import json
import math
import re

import msgspec

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_BARE_END = re.compile(r'[\s,:\[\]{}"]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "/", "b": "\\b", "f": "\\f", "n": "\\n", "r": "\\r", "t": "\\t"}
_CONTROL = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 64  # characters; a longer one is passed on as it is
_NUMERIC = frozenset("-0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")


class JsonText(msgspec.Struct, array_like=True):
    """State between two pieces.

    `depth`: of nesting. `in_string`: inside a string. `pending`: the escape or the bare literal that is being
    read, `sent` characters of which were passed on. `gap`: a blank is due before the next value. `done`: the
    value has ended.
    """

    depth: int = 0
    in_string: bool = False
    pending: str = ""
    sent: int = 0
    gap: bool = False
    done: bool = False


def feed(state: JsonText, text: str, out: list[str], at: int = 0) -> int:
    """Read one JSON value from `text[at:]`, append its normal form to `out`, return where it stopped."""
    size = len(text)
    while at < size and not state.done:
        if state.in_string:
            at = _string(state, text, out, at)
            continue
        if state.pending:
            end = _BARE_END.search(text, at)
            stop = end.start() if end else size
            state.pending += text[at:stop]
            at = stop
            _bare(state, out, ended=end is not None)
            continue
        at = _structure(state, text, out, at)
    return at


def cut(state: JsonText, out: list[str]) -> None:
    """The output ended: say the literal or escape that is held back, as it came."""
    out.append(state.pending[state.sent :])
    state.pending = ""
    state.sent = 0


def unescape(piece: str) -> str:
    """What a piece that `feed` appended for a string stands for: escapes come as pieces of their own."""
    if not piece.startswith("\\"):
        return piece
    try:
        text: str = json.loads(f'"{piece}"')
        text.encode()
    except ValueError:  # no escape after all, or half a surrogate pair
        return piece
    return text


def _structure(state: JsonText, text: str, out: list[str], at: int) -> int:
    char = text[at]
    if char in ",:}]":
        if state.depth == 0:  # the end of the object around the value
            state.done = True
            return at
        out.append(char)
        state.gap = char in ",:"
        if not state.gap:
            state.depth -= 1
            state.done = state.depth == 0
        return at + 1
    if char.isspace():
        return at + 1
    if state.gap:
        out.append(" ")
        state.gap = False
    if char == '"':
        state.in_string = True
        out.append(char)
    elif char in "{[":
        state.depth += 1
        out.append(char)
    else:
        state.pending = char
        _bare(state, out, ended=False)
    return at + 1


def _string(state: JsonText, text: str, out: list[str], at: int) -> int:
    if state.pending:
        state.pending += text[at]
        at += 1
        _escape(state, out)
        return at
    plain = _PLAIN.match(text, at)
    if plain:
        out.append(plain.group())
        return plain.end()
    char = text[at]
    if char == '"':
        out.append(char)
        state.in_string = False
        state.done = state.depth == 0
    elif char == "\\":
        state.pending = char
    else:
        out.append(_CONTROL.get(char) or f"\\u{ord(char):04x}")
    return at + 1


def _escape(state: JsonText, out: list[str]) -> None:
    held = state.pending
    if held[1] != "u":
        out.append(_ESCAPES.get(held[1], held))
        state.pending = ""
        return
    if held[-1] not in _HEX and len(held) not in (2, 7, 8):  # not an escape after all
        state.pending = ""
        out.append(held)
        return
    if len(held) < 6:
        return
    code = int(held[2:6], 16)
    if not 0xD800 <= code < 0xDC00:
        state.pending = ""
        out.append(_character(code))
        return
    if len(held) == 6:
        return
    if held[6] != "\\" or (len(held) > 7 and held[7] != "u"):  # a high surrogate alone
        rest = held[6:]
        state.pending = ""
        out.append(held[:6])
        if rest == "\\":
            state.pending = rest
        elif rest[0] == "\\":
            state.pending = rest
            _escape(state, out)
        elif rest == '"':
            out.append(rest)
            state.in_string = False
            state.done = state.depth == 0
        else:
            out.append(_CONTROL.get(rest, rest))
        return
    if len(held) < 12:
        return
    low = int(held[8:12], 16)
    state.pending = ""
    if 0xDC00 <= low < 0xE000:
        out.append(chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)))
    else:
        out.append(held[:6])
        state.pending = held[6:]
        _escape(state, out)


def _character(code: int) -> str:
    char = chr(code)
    if 0xDC00 <= code < 0xE000:
        return f"\\u{code:04x}"
    if char in '"\\':
        return "\\" + char
    if code < 0x20:
        return _CONTROL.get(char) or f"\\u{code:04x}"
    return char


def _bare(state: JsonText, out: list[str], ended: bool) -> None:
    """A number, a literal, or anything else without quotes: what its normal form begins with can be said."""
    word = state.pending
    if ended:
        written = _normal(word)
        if not written.startswith(word[: state.sent]):
            written = word
        out.append(written[state.sent :])
        state.pending = ""
        state.sent = 0
        state.done = state.depth == 0
    elif word[0] not in _NUMERIC or len(word) > _LONGEST_NUMBER:
        out.append(word[state.sent :])
        state.pending = "#"  # passed on as it comes, so nothing of it needs to be remembered
        state.sent = 1
    elif word != "-0" and word.lstrip("-").isdecimal():  # a fraction or an exponent may change what follows
        out.append(word[state.sent :])
        state.sent = len(word)


def _normal(word: str) -> str:
    """A JSON number as Python writes it; anything else as it is."""
    if _NUMBER.fullmatch(word) is None:
        return word
    if word.lstrip("-").isdecimal():
        return "0" if word == "-0" else word
    value = float(word)
    return repr(value) if math.isfinite(value) else word
