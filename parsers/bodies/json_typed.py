"""JSON arguments as they stream in, passed on as they came, but for scalars that the schema types otherwise.

A string where the schema has numbers, truth values, null or structures is held until it is certain what it
is, and typed as `parsers.schema` types it; a number or a truth value where it has only strings gets quotes.
Everything else goes out at once. Nothing but the way to the open value is remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from parsers import schema
from parsers.bodies import json_raw
from parsers.bodies.json_raw import STOP
from parsers.bodies.json_text import JsonText
from parsers.schema import Node

_VALUE, _NEXT, _KEY, _RAW, _HELD, _QUOTED = range(6)

_LONGEST_KEY = 256  # characters; what is longer is no parameter
_LONGEST_TYPED = 65536  # of a string that may be something else; a longer one is a string
_LONGEST_WORD = 64  # of a number, a truth value or null that was written as a string
_NUMBER = re.compile(r"[-+._\deEinfatyINFATY\s]*")
_WORDS = ("true", "false", "1", "0")
_JSON_BEGINS = frozenset('{["-0123456789tfn')
_load = json.JSONDecoder(strict=False).decode
_dump = json.JSONEncoder(ensure_ascii=False).encode


class TypedJson(msgspec.Struct, array_like=True):
    """State between two pieces.

    `path`: the open containers of which the schema says something, "a" for an array, "o" and the key for an
    object. `held`: the key being read, or the scalar whose type is open. `value`: the innermost value.
    """

    phase: int = _VALUE
    path: list[str] = []
    held: str = ""
    value: JsonText = msgspec.field(default_factory=JsonText)
    done: bool = False


def feed(
    state: TypedJson,
    text: str,
    out: list[str],
    types: Mapping[str, Node],
    at: int = 0,
    stops: bool = False,
) -> int:
    """Read one JSON value from `text[at:]`, append it to `out` without whitespace around it, return where it
    stopped; `stops` as in `json_raw`. `types`: of the value's properties.
    """
    size = len(text)
    while at < size and not state.done:
        if state.phase in (_RAW, _KEY, _HELD, _QUOTED):
            if stops and text[at] == STOP and not state.value.in_string:
                break
            at = _inside(state, text, out, types, at, stops)
            continue
        char = text[at]
        if stops and char == STOP:
            break
        if char.isspace():
            if state.path:
                out.append(char)
            at += 1
        elif char in "}]" and state.path:
            out.append(char)
            at += 1
            state.path.pop()
            _leave(state)
        elif char in ",:" and state.path:
            out.append(char)
            at += 1
            state.phase = _NEXT if char == "," and state.path[-1] != "a" else _VALUE
        elif char == '"' and state.phase == _NEXT and state.path[-1] != "a":
            state.phase = _KEY
            state.held = ""
            state.value = JsonText()
        else:
            at = _begin(state, char, out, _node(state, types), at)
    return at


def cut(state: TypedJson, out: list[str]) -> None:
    """The value ended before its end: say what is held back, as it came."""
    if state.phase == _HELD:
        out.append(state.held)
        state.held = ""


def _begin(state: TypedJson, char: str, out: list[str], node: Node, at: int) -> int:
    """A value begins at `char`."""
    state.value = JsonText()
    state.held = ""
    codes = schema.letters(node)
    if char in "{[" and not isinstance(node, str):
        out.append(char)
        state.path = [*state.path, "o" if char == "{" else "a"]
        state.phase = _NEXT if char == "{" else _VALUE
        return at + 1
    if char == '"':
        state.phase = _HELD if codes not in ("", "s") else _RAW
    else:
        state.phase = _scalar(char, codes)
    if state.phase == _QUOTED:
        out.append('"')
    return at


def _scalar(char: str, codes: str) -> int:
    """How a value without quotes is passed on whose first character is `char`."""
    has = set(codes).intersection
    if char in "-0123456789":
        if has("n") or not has("is"):
            return _HELD if has("b") and not has("in") else _RAW
        if has("b"):
            return _HELD
        if has("i"):  # a fraction is none
            return _HELD if has("s") else _RAW
    elif char not in "tf" or has("b"):
        return _RAW
    return _QUOTED if has("s") and not has("oa") else _RAW


def _inside(
    state: TypedJson, text: str, out: list[str], types: Mapping[str, Node], at: int, stops: bool
) -> int:
    """Read on in a key or in a value that has no typed inside."""
    if state.phase in (_RAW, _QUOTED):
        at = json_raw.feed(state.value, text, out, at, stops)
        if state.value.done:
            if state.phase == _QUOTED:
                out.append('"')
            _leave(state)
        return at
    pieces: list[str] = []
    at = json_raw.feed(state.value, text, pieces, at, stops)
    piece = "".join(pieces)
    if state.phase == _KEY:
        out.append(piece)
        state.held = (state.held + piece)[: _LONGEST_KEY + 1]
        if state.value.done:
            state.path[-1] = "o" + _read(state.held)
            state.phase = _NEXT
        return at
    state.held += piece
    if state.value.done:
        out.append(_typed(state.held, _node(state, types)))
        _leave(state)
        return at
    if state.value.in_string:
        certain = not _undecided(state.held, schema.letters(_node(state, types)))
    else:
        certain = len(state.held) > _LONGEST_WORD
    if certain:
        out.append(state.held)
        state.held = ""
        state.phase = _RAW
    return at


def _leave(state: TypedJson) -> None:
    """A value ended."""
    state.held = ""
    state.phase = _NEXT
    state.done = not state.path


def _node(state: TypedJson, types: Mapping[str, Node]) -> Node:
    """What the schema says of the value that is next."""
    node: Node = ["o", dict(types), None] if types else ""
    for step in state.path:
        if isinstance(node, str):
            return ""
        node = node[2] if step == "a" else node[1].get(step[1:])
        node = node or ""
    return node


def _undecided(held: str, codes: str) -> bool:
    """Whether the string that begins with `held` may be anything else, by the types that are allowed."""
    text = held[1:]
    word = text[:_LONGEST_WORD].lstrip().lower()
    if not word or "\\" in text[:_LONGEST_WORD]:
        return len(text) < _LONGEST_TYPED
    structure = "s" not in codes or "o" in codes or "a" in codes
    if structure and word[0] in _JSON_BEGINS:
        return len(text) < _LONGEST_TYPED
    if len(text) > _LONGEST_WORD:
        return False
    return (
        ("z" in codes and "null".startswith(text.lower()))
        or ("b" in codes and any(known.startswith(word.rstrip()) for known in _WORDS))
        or (("i" in codes or "n" in codes) and _NUMBER.fullmatch(text) is not None)
    )


def _typed(literal: str, node: Node) -> str:
    """The JSON of a scalar that was written as `literal`."""
    try:
        value: Any = _load(literal)
    except ValueError:
        return literal
    if isinstance(value, str):
        written = schema.coerce(value, node)
        return literal if written == _dump(value) else written
    typed = schema.retype(value, node)
    return literal if typed == value and type(typed) is type(value) else _dump(typed)


def _read(literal: str) -> str:
    try:
        key: Any = _load(literal)
    except ValueError:
        return ""
    return key if isinstance(key, str) else ""
