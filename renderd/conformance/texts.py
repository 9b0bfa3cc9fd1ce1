"""The texts of messages and answers, as the checks on recordings look at them.

The "pieces" of a text are its words and its single symbols; white space counts for nothing among them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from renderd.conformance.paths import ABSENT

_PIECE = re.compile(r"\w+|[^\w\s]")
MARKUP = re.compile(r"<[^<>\s]+>|\[[A-Z_]{3,}\]")
MARKUP_BEGINS = re.compile(r"<[^<>\s]|\[[A-Z_]{3,}\]")


def pieces_of(value: Any) -> Counter[str]:
    """How often each piece occurs. Of arguments only words count: the rest may come of writing them anew."""
    found: Counter[str] = Counter()
    for key, text in strings(value):
        pieces = _PIECE.findall(text)
        found.update(piece for piece in pieces if key != "arguments" or piece[0].isalnum() or piece > "\x7f")
    return found


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a message, each with the key that it stands at. Arguments that are JSON are read."""
    if isinstance(value, str):
        read = json_value(value) if key == "arguments" else ABSENT
        yield key, value if read is ABSENT else " ".join(_leaves(read))
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner, key)
    elif isinstance(value, dict):
        for inner_key, inner in value.items():
            if inner_key not in ("id", "type", "role"):
                yield from strings(inner, inner_key)


def raw_strings(value: Any) -> Iterator[str]:
    """The texts of a value as they stand, but for ids and types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from raw_strings(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("id", "type", "role"):
                yield from raw_strings(inner)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    else:
        yield value if isinstance(value, str) else msgspec.json.encode(value).decode()


def calls_of(value: Any) -> Iterator[dict[str, Any]]:
    """Every `{name, arguments}` in a value."""
    if isinstance(value, dict):
        if "name" in value and "arguments" in value:
            yield value
        for inner in value.values():
            yield from calls_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from calls_of(inner)


def json_value(text: Any) -> Any:
    """The value of a JSON text, ABSENT when it is none. Python's NaN and Infinity are no JSON."""
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, AttributeError, UnicodeEncodeError):
        return ABSENT


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""
