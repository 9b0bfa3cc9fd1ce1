"""`renderd bench interference`: whether long renders delay the chunks of streams.

First the capacity: long prompts one after the other on two connections, as fast as the server answers. Then
a few paced streams alone, and again while such prompts arrive at half that rate, at random times as from
users that know nothing of each other. No two prompts share text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from renderd.conformance.bench import load, workload
from renderd.conformance.bench.generator import Load
from renderd.conformance.bench.tables import Cells, digits, ms
from renderd.conformance.bench.target import Target

STREAMS, GAP = 4, 0.05
"""Streams, and seconds between the calls of one."""
CONNECTIONS = 4
"""Connections that the prompts arrive on."""
CAPACITY = 200
"""Prompts at most by which the capacity is measured."""
SHARE = 0.5


class InterferenceRow(msgspec.Struct):
    """`capacity`: prompts of `tokens` tokens a second. `idle`, `busy`: the streams' calls without and with
    the prompts, `renders`: the prompts then."""

    target: str
    tokens: int
    capacity: float
    idle: Load
    busy: Load
    renders: Load


def interference(target: Target, tokens: workload.Tokens, length: int, seconds: float) -> InterferenceRow:
    """`length`: tokens of a prompt. `seconds`: how long the streams run, each time."""
    calls = load.streams(target, tokens, 1000, 1)
    prompts = load.prompts(target, tokens, length, CAPACITY, 1)
    load.run(load.work(target, load.prompts(target, tokens, length, 4, 2), lines=1, seconds=5.0))
    full = load.run(load.work(target, prompts, lines=2, seconds=seconds / 2))
    if not full.calls:
        raise RuntimeError(f"{target.url}: no prompt of {length} tokens was rendered: {full.failure}")
    streams = load.work(target, calls, lines=STREAMS, gap=GAP, seconds=seconds)
    idle = load.run(streams)
    rate = full.rate * SHARE
    count = round(rate * (seconds + 3) * 1.2) + 10
    arriving = load.work(
        target,
        load.prompts(target, tokens, length, count, 3),
        lines=CONNECTIONS,
        gap=CONNECTIONS / rate,
        steady=False,
        seconds=seconds + 2,
    )
    with load.Generator(arriving) as beside, load.Generator(streams) as streaming:
        beside.start()
        time.sleep(1.0)
        streaming.start()
        busy = streaming.result()
        renders = beside.result()
    return InterferenceRow(target.name, length, full.rate, idle, busy, renders)


def lines(rows: Sequence[InterferenceRow]) -> list[Cells]:
    what = f"prompts of {rows[0].tokens:,} tokens"
    failed = {row.target: float(row.idle.failed + row.busy.failed + row.renders.failed) for row in rows}
    ratios = {row.target: row.busy.p99 / row.idle.p99 if row.idle.p99 else None for row in rows}
    return [
        (f"capacity, {what} a second", {row.target: row.capacity for row in rows}, digits),
        (f"{what} that arrived a second", {row.target: row.renders.rate for row in rows}, digits),
        ("derender call of a stream, idle: p50, ms", {row.target: ms(row.idle.p50) for row in rows}, digits),
        ("derender call of a stream, idle: p99, ms", {row.target: ms(row.idle.p99) for row in rows}, digits),
        ("the same beside the prompts: p50, ms", {row.target: ms(row.busy.p50) for row in rows}, digits),
        ("the same beside the prompts: p99, ms", {row.target: ms(row.busy.p99) for row in rows}, digits),
        ("p99 beside the prompts to p99 idle", ratios, digits),
        ("failed", failed, digits),
    ]
