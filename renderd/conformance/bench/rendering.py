"""`renderd bench render`: CPU of chat render, for prompts of several lengths and conversations that grow.

One caller waits for each answer. A prompt shares no text with another one but the template's. The turns of a
conversation each send all the turns before them; three users take turns, with the same tools and system
prompt.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import msgspec

from renderd.conformance.bench import workload
from renderd.conformance.bench.tables import Cells, digits, ms
from renderd.conformance.bench.target import RENDER, Json, Target

PROMPTS = {
    "short chat": (40, 200),
    "1.5k tokens": (1500, 50),
    "9k tokens": (9000, 40),
    "20k tokens": (20_000, 24),
    "50k tokens": (50_000, 12),
}
"""Prompt tokens and number of requests, by the name of the workload."""
WARMUP = 3
"""Requests of each kind before those that count."""
TURNS, USERS = 20, 3
CONVERSATIONS = (20_000, 60_000)
"""Tokens to which conversations grow."""


class RenderRow(msgspec.Struct):
    """Requests of one kind. `cpu` and `wall` are seconds per request, `tokens` the prompt's on average."""

    target: str
    workload: str
    tokens: int
    requests: int
    cpu: float
    wall: float


def render(targets: Sequence[Target], tokens: workload.Tokens) -> list[RenderRow]:
    """All workloads, each on all servers whose window it fits, one server right after the other.

    `tokens`: counts the text that is sent, so that all servers are sent the same.
    """
    rows = []
    for name, (size, requests) in PROMPTS.items():
        generator = random.Random(name)
        contents = [tokens.prose(max(size - 10, 20), generator) for _ in range(requests + WARMUP)]
        chats = [{"messages": [{"role": "user", "content": content}]} for content in contents]
        for target in targets:
            if target.fits(size):
                _render(target, name, chats[:WARMUP])
                rows.append(_render(target, name, chats[WARMUP:]))
    for size in CONVERSATIONS:
        chats = workload.conversations(tokens, USERS, TURNS, size)
        name = f"{USERS} conversations of {TURNS} turns growing to {size:,} tokens"
        rows += [_render(target, name, chats) for target in targets if target.fits(size)]
    return rows


def _render(target: Target, name: str, chats: Sequence[Json]) -> RenderRow:
    tokens = 0
    before, started = target.clock.read(), time.perf_counter()
    for chat in chats:
        answer = target.post(RENDER, {"model": target.model, **chat})
        tokens += len(answer["token_ids"])
    wall, cpu = time.perf_counter() - started, target.clock.read() - before
    count = len(chats)
    return RenderRow(target.name, name, tokens // count, count, cpu / count, wall / count)


def lines(rows: Sequence[RenderRow]) -> list[Cells]:
    out: list[Cells] = []
    for name in dict.fromkeys(row.workload for row in rows):
        own = [row for row in rows if row.workload == name]
        label = f"{name} ({own[0].tokens:,} tokens a prompt): CPU a request, ms"
        out.append((label, {row.target: ms(row.cpu) for row in own}, digits))
    return out
