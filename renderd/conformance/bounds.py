"""How much is kept of values that came: a server decides how long they are."""

from __future__ import annotations

from typing import Any

import msgspec

from renderd.conformance.paths import ABSENT, Path

CHARACTERS = 65536
"""Of a value, more of which nobody reads."""


def cut(value: Any) -> Any:
    """A value; of one that is longer, the beginning of its JSON, as text that says how long it was."""
    text = _text(value)
    return value if len(text) <= CHARACTERS else cut_text(text)


def cut_text(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]} ... ({len(text)} characters)"


def cut_path(path: Path) -> Path:
    """The same of a place: keys can be as long as texts."""
    return tuple(one if isinstance(one, int) else cut_text(one) for one in path)


def length(value: Any) -> int:
    """Characters of a text, or of a value's JSON."""
    return len(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is ABSENT else msgspec.json.encode(value).decode()
