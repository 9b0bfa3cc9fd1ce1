"""`renderd bench batch`: CPU of batch derender of a long answer with reasoning, text and two calls.

One caller waits for each answer. No two answers have the same text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from renderd.conformance.bench import workload
from renderd.conformance.bench.streaming import Opening
from renderd.conformance.bench.tables import Cells, digits, ms
from renderd.conformance.bench.target import DERENDER, Target

CALLS = 2
"""Tool calls in the answer."""


class BatchRow(msgspec.Struct):
    """Batch derender of answers of `tokens` tokens. `cpu` and `wall` are seconds a request."""

    target: str
    tokens: int
    requests: int
    cpu: float
    wall: float
    parsed: bool


def batch(target: Target, tokens: workload.Tokens, count: int, requests: int) -> BatchRow:
    """`count`: tokens of each answer."""
    told = Opening(target).told(False)
    cpu = wall = 0.0
    parsed = True
    for number in range(-2, requests):  # the first two are not counted
        ids = workload.parsed_answer(tokens, count, CALLS, number)
        choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": None}
        response = {"request_id": f"bench-{number}", "choices": [choice]}
        before, started = target.clock.read(), time.perf_counter()
        answer = target.post(DERENDER, {"model": target.model, "generate_response": response, **told})
        if number >= 0:
            wall += time.perf_counter() - started
            cpu += target.clock.read() - before
        message = answer["choices"][0]["message"]
        parsed &= bool(message["reasoning"] and message["content"])
        parsed &= len(message.get("tool_calls") or []) == CALLS
    return BatchRow(target.name, count, requests, cpu / requests, wall / requests, parsed)


def lines(rows: Sequence[BatchRow]) -> list[Cells]:
    label = f"batch answer of {rows[0].tokens:,} tokens with {CALLS} calls: CPU a request, ms"
    return [(label, {row.target: ms(row.cpu) for row in rows}, digits)]
