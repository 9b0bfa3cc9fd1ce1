"""How much is kept of values that came: a server decides how long they are."""

from __future__ import annotations

from typing import Any

import msgspec

from renderd.conformance.paths import ABSENT, Path

CHARACTERS = 65536
"""Of a value, more of which nobody reads."""


def cut(value: Any) -> Any:
    """A value; of one that is longer, as JSON, the beginning, as text that says how long it was."""
    if value is ABSENT or value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return value if len(text) <= CHARACTERS else cut_text(text)


def cut_text(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]} ... ({len(text)} characters)"


def cut_path(path: Path) -> Path:
    """The same of a place: keys can be as long as texts."""
    return tuple(one if isinstance(one, int) else cut_text(one) for one in path)
