"""The tables of `renderd bench`: a line a figure, a column a server, and ratios to the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Cells = tuple[str, Mapping[str, float | None], Callable[[float], str]]
"""A line of the table: what it is, its value by target, how a value is written."""


def markdown(lines: Sequence[Cells], targets: Sequence[str]) -> str:
    """A table with a column for each target and, beside all but the first, the ratio to the first."""
    head = ["", targets[0], *(name for other in targets[1:] for name in (other, f"{other} / {targets[0]}"))]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for label, values, written in lines:
        if all(value is None for value in values.values()):
            continue
        first = values.get(targets[0])
        cells = [label, _cell(first, written)]
        for other in targets[1:]:
            value = values.get(other)
            ratio = value / first if value is not None and first else None
            cells += [_cell(value, written), _cell(ratio, digits)]
        rows.append(cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(value: float | None, written: Callable[[float], str]) -> str:
    return "-" if value is None else written(value)


def digits(value: float) -> str:
    """Three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def whole(value: float) -> str:
    """No decimals."""
    return f"{value:,.0f}"


def ms(seconds: float | None) -> float | None:
    """Milliseconds of seconds."""
    return None if seconds is None else seconds * 1000
