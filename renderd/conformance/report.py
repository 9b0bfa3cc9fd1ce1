"""Results for people in a terminal: a table of counts, and what differed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from renderd.conformance.lines import printable
from renderd.conformance.runner import OUTCOMES, Outcome, Result

_CHECKS = (
    *("render", "batch", "coupled", "stream", "order", "eager", "repeat", "hop", "linear", "errors"),
    *("http", "recording", "tokens"),
)
WORDS: dict[Outcome, str] = {"absent": "not offered", "unfit": "not fitting"}
"""Of outcomes that are not called by their own name."""


def table(results: Sequence[Result]) -> str:
    """Counts of outcomes by family and area, then by check. A case counts in each of its areas."""
    rows: list[tuple[str, str, list[Outcome]]] = []
    for family in dict.fromkeys(result.family for result in results):
        own = [result for result in results if result.family == family]
        for area in sorted({area for result in own for area in areas(result)}):
            rows.append((family, area, [r.outcome() for r in own if area in areas(r)]))
        rows.append((family, "all cases", [result.outcome() for result in own]))
        for check in _CHECKS:
            outcomes = [result.outcome(check) for result in own if check in result.found]
            if outcomes:
                rows.append((family, f"check: {check}", outcomes))
    heads = [WORDS.get(kind, kind) for kind in OUTCOMES]
    lines: list[tuple[str, ...]] = [("family", "area", "cases", *heads)]
    for family, area, outcomes in rows:
        counts = (str(outcomes.count(kind)) for kind in OUTCOMES)
        lines.append((family, area, str(len(outcomes)), *counts))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def areas(result: Result) -> list[str]:
    """The areas of a case; its API where it names none."""
    return result.case.areas or [result.case.api]


def summary(results: Iterable[Result]) -> str:
    """The counts of all outcomes that there are: `3 cases: 2 pass, 1 fail`."""
    outcomes = [result.outcome() for result in results]
    counts = [f"{outcomes.count(kind)} {WORDS.get(kind, kind)}" for kind in OUTCOMES if kind in outcomes]
    return f"{len(outcomes)} cases: {', '.join(counts) or 'none asked'}"


def differences(results: Iterable[Result], verbose: bool) -> str:
    """What failed, a line each; with `verbose` all other findings too, and nothing cut short."""
    lines = []
    for result in results:
        for check, findings in result.found.items():
            for finding in findings:
                if (finding.declared or finding.aside) and not verbose:
                    continue
                label = f"declared by {finding.declared}" if finding.declared else finding.aside or "FAIL"
                what = finding.what
                if not verbose and len(what) > 400:
                    what = f"{what[:300]} ... {what[-80:]}"
                lines.append(f"{label}  {result.case.id}  {check}: {what}")
    return "\n".join(map(printable, lines))  # what a line end in a server's text begins is no line
