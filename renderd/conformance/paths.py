"""Paths into JSON values: `choices[0].message.content`, in patterns also `choices[*].message`."""

from __future__ import annotations

import re
from typing import Any, Final

Path = tuple[str | int, ...]
"""A concrete place in a JSON value: object keys and array indexes."""

Pattern = tuple[str | int, ...]
"""A Path in which "*" stands for any key or index."""


class _Absent:
    """The value of a key that is not there, which null is not."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Final = _Absent()

_SEGMENT = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\*)\]")


def parse(text: str) -> Pattern:
    """Read `a.b[0].c[*]`. ValueError when it is no path."""
    segments: list[str | int] = []
    at = 0
    while at < len(text):
        found = _SEGMENT.match(text, at)
        if found is None:
            raise ValueError(f"{text!r} is no path: cannot read it from character {at} on")
        key, index = found.groups()
        segments.append(key if key is not None else "*" if index == "*" else int(index))
        at = found.end()
    return tuple(segments)


def show(path: Path) -> str:
    """The text that `parse` reads."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        else:
            text += f".{segment}" if text else segment
    return text


def covers(pattern: Pattern, path: Path) -> bool:
    """Whether `path` is a place that `pattern` names, or lies inside one."""
    return len(pattern) <= len(path) and all(
        wanted in ("*", found) for wanted, found in zip(pattern, path, strict=False)
    )


def get(value: Any, path: Path) -> Any:
    """The value at `path`, ABSENT where there is none."""
    for segment in path:
        if isinstance(segment, int):
            if not isinstance(value, list) or segment >= len(value):
                return ABSENT
            value = value[segment]
        else:
            if not isinstance(value, dict) or segment not in value:
                return ABSENT
            value = value[segment]
    return value


def find(value: Any, pattern: Pattern) -> list[Path]:
    """Every place in `value` that `pattern` names. A last segment that is no wildcard may be absent."""
    places: list[tuple[Path, Any]] = [((), value)]
    for segment in pattern:
        following: list[tuple[Path, Any]] = []
        for path, inner in places:
            keys: list[str | int]
            if segment == "*":
                keys = (
                    list(range(len(inner)))
                    if isinstance(inner, list)
                    else list(inner)
                    if isinstance(inner, dict)
                    else []
                )
            else:
                keys = [segment]
            following += [((*path, key), get(inner, (key,))) for key in keys]
        places = following
    return [path for path, _ in places]
