"""`renderd bench prompt-ids`: what a chunk costs more whose body carries the ids of a long prompt.

The same chunk, in the middle of a stream, is sent with prompt_token_ids and without, turn by turn, with
chat_request both times. Derender keeps nothing, so each of them is the same work.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import msgspec

from renderd.conformance import chunking
from renderd.conformance.bench import workload
from renderd.conformance.bench.streaming import Opening
from renderd.conformance.bench.tables import Cells, digits, ms
from renderd.conformance.bench.target import DERENDER, Target

_BEFORE = 60
"""Chunks of the stream before the one that is repeated."""
_JSON = {"Content-Type": "application/json"}


class PromptIdsRow(msgspec.Struct):
    """CPU and wall seconds of a call, with and without the prompt's ids. `bytes`: of the larger body."""

    target: str
    prompt_tokens: int
    calls: int
    bytes: int
    with_ids: float
    without: float
    wall_with_ids: float
    wall_without: float


def prompt_ids(target: Target, tokens: workload.Tokens, length: int, calls: int) -> PromptIdsRow:
    """`length`: of the prompt, in tokens. `calls`: of either kind."""
    full = Opening(target).told(True)
    choice = {"index": 0, "token_ids": workload.parsed_answer(tokens, 400), "finish_reason": "length"}
    events = chunking.events({"request_id": "bench", "choices": [choice]}, 0, 1)
    state = None
    for event in events[:_BEFORE]:
        body = {"stream": True, "model": target.model, "generate_chunk": event, "stream_state": state}
        state = target.post(DERENDER, {**body, **full})["stream_state"]
    body = {"stream": True, "model": target.model, "generate_chunk": events[_BEFORE], "stream_state": state}
    generator = random.Random(length)
    long = [generator.choice(full["prompt_token_ids"]) for _ in range(length)]
    long[-len(full["prompt_token_ids"]) :] = full["prompt_token_ids"]
    with_ids = msgspec.json.encode({**body, **full, "prompt_tokens": len(long), "prompt_token_ids": long})
    del full["prompt_token_ids"]
    bodies = (with_ids, msgspec.json.encode({**body, **full, "prompt_tokens": len(long)}))
    cpu, wall = [0.0, 0.0], [0.0, 0.0]
    for number in range(-2, calls):  # the first two are not counted
        for kind, sent in enumerate(bodies):
            before, started = target.clock.read(), time.perf_counter()
            answer = target.client.send("POST", DERENDER, sent, _JSON)
            if answer.status != 200:
                raise RuntimeError(f"{target.url}{DERENDER}: status {answer.status}: {answer.body[:300]!r}")
            if number >= 0:
                wall[kind] += time.perf_counter() - started
                cpu[kind] += target.clock.read() - before
    return PromptIdsRow(
        target=target.name,
        prompt_tokens=len(long),
        calls=calls,
        bytes=len(with_ids),
        with_ids=cpu[0] / calls,
        without=cpu[1] / calls,
        wall_with_ids=wall[0] / calls,
        wall_without=wall[1] / calls,
    )


def lines(rows: Sequence[PromptIdsRow]) -> list[Cells]:
    of = f"chunk with {rows[0].prompt_tokens:,} prompt_token_ids"
    return [
        (f"{of}: CPU, ms", {row.target: ms(row.with_ids) for row in rows}, digits),
        ("the same chunk without: CPU, ms", {row.target: ms(row.without) for row in rows}, digits),
        ("what they cost: CPU, ms", {row.target: ms(row.with_ids - row.without) for row in rows}, digits),
    ]
