"""`renderd bench stream`: CPU of streaming derender of an answer with reasoning, text and one call.

One caller sends chunk after chunk with the state that came back. Every server is asked an answer of the same
length, which their ratio is taken of; those that are fast enough are asked a longer one too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import msgspec

from renderd.conformance import chunking
from renderd.conformance.assemble import Assembly
from renderd.conformance.bench import workload
from renderd.conformance.bench.tables import Cells, digits, ms, whole
from renderd.conformance.bench.target import DERENDER, RENDER, Json, Target

ANSWER = 2000
"""Tokens of the answer that every server is asked."""
TOO_SLOW = 0.010
"""CPU seconds a chunk at the end of that answer, above which a server is not asked a longer one."""
TOOLS = (workload.TOOL,)


class StreamRow(msgspec.Struct):
    """One streamed answer, in CPU seconds: `early` a chunk of chunks 100 to 600, `late` of the last 500.

    `minimal`: chat_request and prompt_token_ids went with the first chunk only.
    """

    target: str
    tokens: int
    chunk: int
    minimal: bool
    calls: int
    cpu: float
    wall: float
    early: float | None
    late: float | None
    state_bytes: int
    parsed: bool


class Opening:
    """The request whose answer is streamed, as the first derender call has to tell of it."""

    def __init__(self, target: Target, tools: Sequence[Json] = TOOLS) -> None:
        self.request: Json = {
            "model": target.model,
            "messages": [{"role": "user", "content": "Write a report."}],
            "tools": list(tools),
        }
        self.prompt: list[int] = target.post(RENDER, self.request)["token_ids"]

    def told(self, stream: bool) -> Json:
        """What of a derender body tells of the request."""
        request = {**self.request, "stream": stream}
        return {
            "prompt_tokens": len(self.prompt),
            "prompt_token_ids": self.prompt,
            "chat_request": request,
        }


def stream(target: Target, tokens: workload.Tokens, count: int, chunk: int, minimal: bool) -> StreamRow:
    """One parsed answer of `count` tokens through streaming derender, `chunk` tokens a call."""
    full = Opening(target).told(True)
    ids = workload.parsed_answer(tokens, count)
    choice = {"index": 0, "token_ids": ids, "finish_reason": "length"}
    events = chunking.events({"request_id": "bench", "choices": [choice]}, 0, chunk)
    assembly, state, state_bytes = Assembly(), None, 0
    readings = [target.clock.read()]
    started = time.perf_counter()
    for number, event in enumerate(events):
        body = {"stream": True, "model": target.model, "generate_chunk": event, "stream_state": state}
        answer = target.post(DERENDER, body if minimal and number else {**body, **full})
        readings.append(target.clock.read())
        state = answer["stream_state"]
        state_bytes = max(state_bytes, len(msgspec.json.encode(state)))
        assembly.add(answer["chunk"])
    wall = time.perf_counter() - started
    message = assembly.answer()["choices"][0]["message"]
    return StreamRow(
        target=target.name,
        tokens=len(ids),
        chunk=chunk,
        minimal=minimal,
        calls=len(events),
        cpu=readings[-1] - readings[0],
        wall=wall,
        early=_per_call(readings, 100, 600),
        late=_per_call(readings, len(events) - 500, len(events)),
        state_bytes=state_bytes,
        parsed=bool(message["reasoning"] and message["content"] and len(message["tool_calls"]) == 1),
    )


def _per_call(readings: Sequence[float], start: int, end: int) -> float | None:
    if start < 100 or end >= len(readings):
        return None
    return (readings[end] - readings[start]) / (end - start)


def run_streams(
    targets: Sequence[Target], words: workload.Tokens, tokens: int, chunk: int, minimal: Sequence[str]
) -> list[StreamRow]:
    """The answer of ANSWER tokens from every server, and the longer one from those that are not too slow.

    `minimal`: names of the servers that need chat_request and prompt_token_ids with the first chunk only.
    """
    rows = []
    for target in targets:
        small = target.name in minimal
        stream(target, words, min(tokens, 100), chunk, small)
        short = stream(target, words, min(tokens, ANSWER), chunk, small)
        rows.append(short)
        if tokens > ANSWER:
            if short.late is not None and short.late > TOO_SLOW:
                print(f"{target.name}: too slow for an answer of {tokens} tokens, left out", file=sys.stderr)
            else:
                rows.append(stream(target, words, tokens, chunk, small))
    return rows


def lines(rows: Sequence[StreamRow]) -> list[Cells]:
    out: list[Cells] = []
    for tokens in dict.fromkeys(row.tokens for row in rows):
        own = [row for row in rows if row.tokens == tokens]
        of = f"answer of {tokens:,} tokens, {own[0].chunk} a chunk"
        ratios = {row.target: row.late / row.early if row.late and row.early else None for row in own}
        out += [
            (f"{of}: CPU, s", {row.target: row.cpu for row in own}, digits),
            (f"{of}: CPU a chunk, ms", {row.target: ms(row.cpu / row.calls) for row in own}, digits),
            (f"{of}: CPU a chunk, chunks 100 to 600, ms", {row.target: ms(row.early) for row in own}, digits),
            (f"{of}: CPU a chunk, last 500 chunks, ms", {row.target: ms(row.late) for row in own}, digits),
            (f"{of}: last 500 to chunks 100 to 600", ratios, digits),
            (
                f"{of}: largest stream_state, bytes",
                {row.target: float(row.state_bytes) for row in own},
                whole,
            ),
        ]
    return out
