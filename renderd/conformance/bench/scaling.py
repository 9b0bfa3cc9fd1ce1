"""`renderd bench workers`: throughput and CPU per call under full load, by number of workers.

A generator of its own process, on the same cores, keeps 16 connections busy: the next call follows the
answer. Two kinds of calls: chunks of streams, and prompts of 1,500 tokens without common text. The servers
take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from renderd.conformance.bench import load, workload
from renderd.conformance.bench.generator import Load, Prompts, Streams
from renderd.conformance.bench.tables import Cells, digits, ms, whole
from renderd.conformance.bench.target import Target

LINES = 16
PROMPT = 1500
"""Tokens of a prompt."""
PROMPTS = 5000
"""Prompts a second, at most, that are kept ready."""


class WorkersRow(msgspec.Struct):
    """Calls of one kind in one round."""

    target: str
    calls: str
    load: Load


def workers(
    targets: Sequence[Target], tokens: workload.Tokens, seconds: float, rounds: int
) -> list[WorkersRow]:
    """`seconds`: of each kind of calls, for each target, in each round."""
    rows = []
    for number in range(rounds + 1):
        for target in targets:
            prompts = load.prompts(target, tokens, PROMPT, round(PROMPTS * seconds), number)
            kinds: dict[str, Streams | Prompts] = {
                "chunk of a stream": load.streams(target, tokens, 1000, 1),
                f"prompt of {PROMPT:,} tokens": prompts,
            }
            for kind, calls in kinds.items():
                length = seconds if number else min(seconds, 1.0)  # the first round is not counted
                done = load.run(load.work(target, calls, lines=LINES, seconds=length))
                if number:
                    rows.append(WorkersRow(target.name, kind, done))
    return rows


def lines(rows: Sequence[WorkersRow]) -> list[Cells]:
    out: list[Cells] = []
    for kind in dict.fromkeys(row.calls for row in rows):
        loads: dict[str, list[Load]] = {}
        for row in rows:
            if row.calls == kind and row.load.calls:
                loads.setdefault(row.target, []).append(row.load)
        of = f"{kind}, {LINES} at once"
        cpu = {name: ms(median(one.cpu / one.calls for one in own)) for name, own in loads.items()}
        out += [
            (f"{of}: CPU a call, ms", cpu, digits),
            (
                f"{of}: calls a second",
                {n: median(one.rate for one in own) for n, own in loads.items()},
                whole,
            ),
            (f"{of}: p99, ms", {n: ms(median(one.p99 for one in own)) for n, own in loads.items()}, digits),
            (f"{of}: failed", {n: float(sum(o.failed for o in own)) for n, own in loads.items()}, whole),
            (
                f"{of}: cores that the generator took",
                {n: median(one.own_cpu / one.wall for one in own) for n, own in loads.items()},
                digits,
            ),
        ]
    return out
