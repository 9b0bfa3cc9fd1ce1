"""A Python literal as it streams in, written as JSON.

Strings, numbers, True, False, None (and their JSON spellings), dicts, lists, tuples and sets, the last two
as arrays. What needs its end to be known is held back: a number, a word, a parenthesis until a comma says
that it is a tuple, a brace until a colon says that it is a dict. It never fails: an expression that is no
literal becomes a string of its source, a quote that cannot end its string belongs to it, and a closing
bracket closes what was forgotten inside it. So the JSON is valid wherever the value ends.
"""

from __future__ import annotations

import ast
import json
import math
import re

from parsers.bodies import python_string
from parsers.bodies.python_state import (
    AFTER,
    CLOSED,
    CLOSERS,
    DIGITS,
    PEEK,
    QUOTE,
    RAW,
    SKIP,
    STRING,
    VALUE,
    WORD,
    PythonText,
    decide,
    escaped,
    put,
)

_DEEPEST = 200  # Python's own limit; what is deeper is taken as text
_LONGEST_WORD = 64
_LONGEST_BLANK = 256
_WORD_END = re.compile(r"[\s,:'\"()\[\]{}=]")
_RAW_PLAIN = re.compile(r"[^\s,:'\"()\[\]{}]+")
_DIGITS = re.compile(r"\d+", re.ASCII)
_NUMBER_BEGUN = re.compile(r"[-+]?(?:[\d.][\w.]*(?:(?<=[eE])[-+]\w*)?)?", re.ASCII)
_LITERALS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_PREFIXES = {"r", "u", "f", "fr", "rf"}
_WRITTEN = {"l": "]", "t": "]", "g": "", "s": "]", "d": "}", "v": "}"}


def feed(state: PythonText, text: str, out: list[str], at: int = 0) -> int:
    """Read one value from `text[at:]`, append its JSON to `out`, return where it stopped.

    That is at the comma or the parenthesis behind it, or where an expression shows that it is no literal.
    What `pending` has left when the value is done stands before that place and was not read.
    """
    size = len(text)
    while at < size and not state.done:
        word = state.mode == WORD
        at = _READERS[state.mode](state, text, at, out)
        if word and state.mode == RAW:
            break
    return at


def cut(state: PythonText, out: list[str]) -> int:
    """The output ended: say what is held back, as far as it is sure. Returns how much of it is not."""
    said = ""
    if state.mode == WORD:
        said = _number(state.pending) or ""
    elif state.mode == STRING and len(state.quote) == 3 and not state.pending.startswith("\\"):
        said = escaped(state.pending)
    put(state, out, said)
    held = state.held
    for at in reversed(state.holes):
        if state.stack[-1:] == "b":
            held = held[:at] + "{" + held[at:]
        state.stack = state.stack[:-1]
    out.append(held)
    unsaid = 0 if said else len(state.pending.strip())
    state.held = state.pending = ""
    return unsaid


def _value(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """Before a value."""
    char = text[at]
    top = state.stack[-1:]
    if char.isspace():
        return at + 1
    if char == ",":
        if not top:
            state.done = True
            return at
        state.dropped += 1
        return at + 1
    if char in ")]}":
        return _close(state, char, at, out)
    if state.gap:
        put(state, out, ", ")
        state.gap = False
    if char in "\"'":
        put(state, out, '"')
        state.quote, state.raw, state.mode, state.pending = char, False, QUOTE, ""
        return at + 1
    if char in "([{" and top != "d" and len(state.stack) < _DEEPEST:
        return _open(state, char, at, out)
    state.pending = ""
    state.mode = WORD
    return at


def _open(state: PythonText, char: str, at: int, out: list[str]) -> int:
    if state.stack[-1:] == "b":  # no key is a container
        decide(state, out, "s", "[")
    if char == "[":
        put(state, out, "[")
        state.stack += "l"
    else:
        state.holes = [*state.holes, len(state.held)]
        state.stack += "p" if char == "(" else "b"
    return at + 1


def _close(state: PythonText, char: str, at: int, out: list[str]) -> int:
    """A closing bracket: it closes the innermost one of its kind, and what is open inside that."""
    while state.stack and CLOSERS[state.stack[-1]] != char and char in map(CLOSERS.get, state.stack):
        _pop(state, out)
    if state.stack and CLOSERS[state.stack[-1]] == char:
        _pop(state, out)
        return at + 1
    if char == ")":  # the call's own
        while state.stack:
            _pop(state, out)
        state.done = True
        return at
    state.dropped += 1
    return at + 1


def _pop(state: PythonText, out: list[str]) -> None:
    letter = state.stack[-1]
    empty = state.mode == VALUE
    if letter == "p":
        tuple_ = empty
        decide(state, out, "t" if tuple_ else "g", "[" if tuple_ else "")
    elif letter == "b":
        decide(state, out, "d" if empty else "s", "{" if empty else "[")
    elif letter == "v" and empty and not state.gap:
        put(state, out, "null")
    elif letter == "d" and not empty:
        put(state, out, ": null")
    put(state, out, _WRITTEN[state.stack[-1]])
    state.stack = state.stack[:-1]
    state.gap = False
    state.mode = AFTER


def _after(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """Behind a value."""
    char = text[at]
    top = state.stack[-1:]
    if char.isspace():
        return at + 1
    if char in ")]}":
        return _close(state, char, at, out)
    if char == "," and not top:
        state.done = True
        return at
    if char == "," and top != "g":
        if top in "pb":
            decide(state, out, "t" if top == "p" else "s", "[")
        elif top == "d":
            put(state, out, ": null")
        elif top == "v":
            state.stack = state.stack[:-1] + "d"
        state.gap = True
        state.mode = VALUE
        return at + 1
    if char == ":" and top in ("b", "d"):
        if top == "b":
            decide(state, out, "v", "{")
        else:
            state.stack = state.stack[:-1] + "v"
        put(state, out, ": ")
        state.mode = VALUE
        return at + 1
    state.mode = SKIP
    return at


def skip(state: PythonText) -> None:
    """Drop what comes, up to the comma or the parenthesis behind it."""
    state.mode, state.depth, state.inner = SKIP, 0, ""


def _skip(state: PythonText, text: str, at: int, out: list[str]) -> int:
    end = _ends(state, text, at)
    if end:
        state.mode = AFTER
        return at
    plain = None if state.inner else _RAW_PLAIN.match(text, at)
    size = len(plain.group()) if plain else 1
    state.dropped += size - (size == 1 and text[at].isspace())
    return at + size


def _ends(state: PythonText, text: str, at: int) -> bool:
    """Whether the expression ends before this character; counts its brackets and quotes."""
    char = text[at]
    if state.inner:
        if char == state.inner:
            state.inner = ""
        return False
    if char in "\"'":
        state.inner = char
    elif char in "([{":
        state.depth += 1
    elif char in ")]}":
        if not state.depth:
            return True
        state.depth -= 1
    elif not state.depth:
        return char == "," or (char == ":" and state.stack[-1:] in ("b", "d"))
    return False


def _raw(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """An expression that is no literal: a string of its source."""
    if _ends(state, text, at):
        put(state, out, '"')
        state.pending = ""
        state.mode = AFTER
        return at
    if text[at].isspace():  # of none at the end
        state.pending += text[at]
        if len(state.pending) > _LONGEST_BLANK:
            put(state, out, escaped(state.pending))
            state.pending = ""
        return at + 1
    plain = None if state.inner else _RAW_PLAIN.match(text, at)
    piece = plain.group() if plain else text[at]
    put(state, out, escaped(state.pending + piece))
    state.pending = ""
    return at + len(piece)


def _word(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """A number, a literal, the prefix of a string, or the beginning of an expression."""
    end = _WORD_END.search(text, at)
    stop = end.start() if end else len(text)
    held = len(state.pending)
    word = state.pending + text[at : min(stop, at + _LONGEST_WORD + 1)]
    if len(word) > _LONGEST_WORD and word.lstrip("-").isdecimal() and word.isascii():
        put(state, out, word)
        state.pending = ""
        state.mode = DIGITS
        return at + len(word) - held
    if word and _may_be(word):
        if end is None:
            state.pending = word
            return stop
        written = _LITERALS.get(word) or _number(word)
        if end.group() in "\"'" and word.lower() in _PREFIXES:
            put(state, out, '"')
            state.quote, state.raw, state.mode, state.pending = end.group(), "r" in word.lower(), QUOTE, ""
            return stop + 1
        if written is not None and end.group() not in "([{='\"":
            put(state, out, f'"{written}"' if state.stack[-1:] == "d" else written)
            state.pending = ""
            state.mode = AFTER
            return stop
    sure = next((size for size in range(held + 1, len(word)) if not _may_be(word[:size])), len(word))
    put(state, out, '"' + escaped(word[:sure]))
    state.pending = ""
    state.mode, state.depth, state.inner = RAW, 0, ""
    return at + sure - held


def _may_be(word: str) -> bool:
    """Whether a number, a literal or the prefix of a string may begin like this."""
    known = any(literal.startswith(word) for literal in _LITERALS) or word.lower() in _PREFIXES
    return len(word) <= _LONGEST_WORD and (known or _NUMBER_BEGUN.fullmatch(word) is not None)


def _digits(state: PythonText, text: str, at: int, out: list[str]) -> int:
    """A number too long to be held."""
    digits = _DIGITS.match(text, at)
    if digits is None:
        state.mode = AFTER
        return at
    put(state, out, digits.group())
    return digits.end()


def _number(word: str) -> str | None:
    """A Python number as JSON; None for anything else."""
    try:
        value = ast.literal_eval(re.sub(r"^([-+]?)0+(?=\d)", r"\1", word))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else json.dumps(word)
    return None


_READERS = {
    VALUE: _value,
    QUOTE: python_string.quote,
    STRING: python_string.string,
    CLOSED: python_string.closed,
    PEEK: python_string.peek,
    WORD: _word,
    DIGITS: _digits,
    RAW: _raw,
    AFTER: _after,
    SKIP: _skip,
}
