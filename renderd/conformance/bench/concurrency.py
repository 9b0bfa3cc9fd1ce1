"""`renderd bench concurrent`: how long a derender call takes while many streams run at once.

A generator of its own process, on the same cores, holds a connection a stream and sends a chunk of each at
the pace at which an engine would write it, whether or not the server keeps up. Bodies after the first of a
stream carry the chunk and the state only. A call counts from when it was due.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from renderd.conformance.bench import load, workload
from renderd.conformance.bench.generator import Load
from renderd.conformance.bench.tables import Cells, digits, ms, whole
from renderd.conformance.bench.target import Target

ANSWER = 1000
"""Tokens of an answer; a stream that has ended is followed by another one."""


class ConcurrencyRow(msgspec.Struct):
    """`streams` at `rate` tokens a second each, `chunk` tokens a call."""

    target: str
    streams: int
    rate: float
    chunk: int
    load: Load


def concurrent(
    target: Target, tokens: workload.Tokens, streams: int, rate: float, chunk: int, seconds: float
) -> ConcurrencyRow:
    calls = load.streams(target, tokens, ANSWER, chunk)
    load.run(load.work(target, calls, lines=4, seconds=min(1.0, seconds)))
    done = load.run(load.work(target, calls, lines=streams, gap=chunk / rate, seconds=seconds))
    return ConcurrencyRow(target.name, streams, rate, chunk, done)


def lines(rows: Sequence[ConcurrencyRow]) -> list[Cells]:
    of = f"{rows[0].streams} streams of {rows[0].rate:g} tokens a second, {rows[0].chunk} a call"
    return [
        (f"{of}: calls a second", {row.target: row.load.rate for row in rows}, whole),
        (f"{of}: failed", {row.target: float(row.load.failed) for row in rows}, whole),
        (f"{of}: p50 of a call, ms", {row.target: ms(row.load.p50) for row in rows}, digits),
        (f"{of}: p99 of a call, ms", {row.target: ms(row.load.p99) for row in rows}, digits),
        (f"{of}: CPU a call, ms", {row.target: ms(_per_call(row.load)) for row in rows}, digits),
        (
            f"{of}: cores that the generator took",
            {row.target: row.load.own_cpu / row.load.wall if row.load.wall else None for row in rows},
            digits,
        ),
    ]


def _per_call(done: Load) -> float | None:
    return done.cpu / done.calls if done.calls else None
