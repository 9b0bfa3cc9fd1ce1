"""Results for people: a table of counts, and what differed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from renderd.conformance.runner import Outcome, Result

_CHECKS = ("render", "batch", "coupled", "stream", "order", "eager", "repeat", "hop", "http", "recording")


def table(results: Sequence[Result]) -> str:
    """Counts of outcomes by configuration and area, then by check. A case counts in each of its areas."""
    rows: list[tuple[str, str, list[Outcome]]] = []
    for server in dict.fromkeys(result.case.server for result in results):
        own = [result for result in results if result.case.server == server]
        areas = sorted({area for result in own for area in result.case.areas})
        for area in areas:
            rows.append((server, area, [r.outcome() for r in own if area in r.case.areas]))
        rows.append((server, "all cases", [result.outcome() for result in own]))
        for check in _CHECKS:
            outcomes = [result.outcome(check) for result in own if check in result.found]
            if outcomes:
                rows.append((server, f"check: {check}", outcomes))
    lines: list[tuple[str, ...]] = [("server", "area", "cases", "pass", "declared", "fail")]
    kinds: tuple[Outcome, ...] = ("pass", "declared", "fail")
    for server, area, outcomes in rows:
        counts = (str(outcomes.count(kind)) for kind in kinds)
        lines.append((server, area, str(len(outcomes)), *counts))
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def differences(results: Iterable[Result], verbose: bool) -> str:
    """What failed, a line each; with `verbose` what is declared too, and nothing cut short."""
    lines = []
    for result in results:
        for check, findings in result.found.items():
            for finding in findings:
                if finding.declared and not verbose:
                    continue
                label = f"declared by {finding.declared}" if finding.declared else "FAIL"
                what = finding.what
                if not verbose and len(what) > 400:
                    what = f"{what[:300]} ... {what[-80:]}"
                lines.append(f"{label}  {result.case.id}  {check}: {what}")
    return "\n".join(lines)
