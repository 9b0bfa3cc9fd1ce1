"""What came of it: figures, and promises that were kept or broken."""

from __future__ import annotations

import time


class Report:
    """Prints as it grows. `end`: when all has to be over, on the clock of time.monotonic."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.broken: list[str] = []

    def part(self, title: str) -> None:
        print(f"\n{title}", flush=True)

    def figure(self, name: str, value: object) -> None:
        print(f"  {name:<46} {value}", flush=True)

    def promise(self, kept: bool, sentence: str, *reasons: object) -> None:
        """`reasons`: shown where it was not kept, some of them."""
        print(f"  {'kept' if kept else 'BROKEN':<8}{sentence}", flush=True)
        if not kept:
            self.broken.append(sentence)
            for reason in list(dict.fromkeys(map(str, reasons)))[:8]:
                print(f"          {reason[:600]}", flush=True)

    def late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.end

    def memory(self, early: int, late: int) -> None:
        """Of all processes of a server, after a quarter of the work and at its end."""
        growth = late / early - 1
        self.figure(
            "memory after a quarter, at the end", f"{early >> 20} MB, {late >> 20} MB ({growth:+.1%})"
        )
        self.promise(growth <= 0.1, "memory grew by no more than 10%")


def quantile(values: list[float], share: float) -> float:
    """Of unordered values; 0 of none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
