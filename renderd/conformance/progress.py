"""How far a run has come, for whoever waits for it."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from renderd.conformance.lines import printable, say


class Told:
    """One line on stderr that is written anew; where that is no terminal, a line every ten seconds.

    `notes`: what else was said, for reports.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._terminal = sys.stderr.isatty()
        self._said = time.monotonic()

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if now - self._said < (0.1 if self._terminal else 10):
            return
        self._said = now
        line = printable(f"{done}/{total} {name}")
        print(f"\r\x1b[K{line[:78]}" if self._terminal else line, file=sys.stderr, flush=True)

    def note(self, *lines: str, file: TextIO | None = None) -> None:
        """Say what is no progress. `file`: stdout where none is given."""
        self.end()
        say(*lines, file=file)
        self.notes += lines

    def end(self) -> None:
        """Takes the line away."""
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
