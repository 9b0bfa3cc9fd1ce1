"""Finding the first of several literal markers in text that arrives in pieces."""

from __future__ import annotations

import re


class Scanner:
    """Finds markers, the longest at a position first, and says how much of the end may still become one."""

    __slots__ = ("_first", "_longest", "_markers", "_opening", "_pattern")

    def __init__(self, markers: tuple[str, ...]) -> None:
        self._markers = tuple(sorted(set(markers), key=len, reverse=True))
        self._pattern = re.compile("|".join(map(re.escape, self._markers)))
        self._longest = max(map(len, self._markers), default=0)
        self._first = frozenset(marker[0] for marker in self._markers)
        self._opening = re.compile("|".join(map(re.escape, sorted(self._first))) or "(?!)")

    def quiet(self, text: str) -> bool:
        """Whether the text holds no character with which a marker begins."""
        return self._opening.search(text) is None

    def find(self, text: str, at: int = 0, last: bool = False) -> tuple[int, str | None]:
        """The first marker at or after `at` and its position; without one, None and where the undecided end
        begins.

        A marker is not reported while the text could still complete a longer one at the same or an earlier
        position; `last`: it cannot.
        """
        if self._opening.search(text, at) is None:
            return len(text), None
        match = self._pattern.search(text, at)
        open_end = len(text) if last else self._open_end(text, at)
        if match is None or open_end <= match.start():
            return open_end, None
        return match.start(), match.group()

    def _open_end(self, text: str, at: int) -> int:
        size = len(text)
        for start in range(max(at, size - self._longest + 1), size):
            if text[start] in self._first:
                tail = text[start:]
                if any(len(marker) > len(tail) and marker.startswith(tail) for marker in self._markers):
                    return start
        return size
