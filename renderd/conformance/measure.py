"""The measurements of `renderd bench`: what a server is asked, and the CPU time that its processes took."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from renderd.conformance import chunking, workload
from renderd.conformance.assemble import Assembly
from renderd.conformance.client import Client
from renderd.conformance.cpu import CpuClock, serving_pids
from renderd.conformance.runner import served_model

Json = dict[str, Any]

ANSWER = 1000
"""Tokens of the answer that every server is asked: the one that their ratio is taken of."""
TOO_SLOW = 0.010
"""CPU seconds a chunk at the end of that answer, above which a server is not asked a longer one."""


class StreamRow(msgspec.Struct):
    """One streamed answer, in CPU seconds: `early` a chunk of chunks 100 to 600, `late` of the last 500."""

    target: str
    tokens: int
    chunk: int
    calls: int
    cpu: float
    wall: float
    early: float | None
    late: float | None
    state_bytes: int
    parsed: bool


class RenderRow(msgspec.Struct):
    """Requests of one kind. `cpu` and `wall` are seconds per request, `tokens` the prompt's on average."""

    target: str
    workload: str
    tokens: int
    requests: int
    cpu: float
    wall: float


class Target:
    """A server. Raises ServerError, ProcessError, RuntimeError or OSError when it cannot be measured."""

    def __init__(self, name: str, url: str, pids: Sequence[int]) -> None:
        self.client = Client(url, timeout=600)
        self.name = name
        self.model = served_model(self.client)
        self.limit: int | None = self.client.get("/v1/models").json()["data"][0].get("max_model_len")
        version = self.client.get("/version")
        self.version = version.json().get("version", "") if version.status == 200 else ""
        self.clock = CpuClock(pids or serving_pids(url))

    def post(self, path: str, body: Any) -> Json:
        """The answer's body. RuntimeError for any status but 200."""
        answer = self.client.post(path, body)
        if answer.status != 200:
            raise RuntimeError(f"{self.client.url}{path}: status {answer.status}: {answer.body[:300]!r}")
        body = answer.json()
        return body if isinstance(body, dict) else {"answers": body}

    def fits(self, tokens: int) -> bool:
        """Whether a prompt of about that length fits the server's window."""
        return self.limit is None or tokens * 1.05 + 200 < self.limit


def stream(target: Target, tokens: workload.Tokens, count: int, chunk: int, minimal: bool) -> StreamRow:
    """One parsed answer of `count` tokens through streaming derender, `chunk` tokens a call."""
    request: Json = {
        "model": target.model,
        "messages": [{"role": "user", "content": "Write a report."}],
        "tools": [workload.TOOL],
        "stream": True,
    }
    prompt = target.post("/v1/chat/completions/render", request)["token_ids"]
    ids = workload.parsed_answer(tokens, count)
    choice = {"index": 0, "token_ids": ids, "finish_reason": "length"}
    events = chunking.events({"request_id": "bench", "choices": [choice]}, 0, chunk)
    full = {"prompt_tokens": len(prompt), "prompt_token_ids": prompt, "chat_request": request}
    assembly, state, state_bytes = Assembly(), None, 0
    readings = [target.clock.read()]
    started = time.perf_counter()
    for number, event in enumerate(events):
        body = {"stream": True, "model": target.model, "generate_chunk": event, "stream_state": state}
        answer = target.post(
            "/v1/chat/completions/derender", body if minimal and number else {**body, **full}
        )
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


PROMPTS = {
    "short chat": (40, 200),
    "1.5k tokens": (1500, 50),
    "9k tokens": (9000, 20),
    "20k tokens": (20_000, 12),
    "50k tokens": (50_000, 6),
}
"""Prompt tokens and number of requests, by the name of the workload. No two requests share text."""
TURNS, USERS = 20, 3
CONVERSATIONS = (20_000, 60_000)
"""Tokens to which conversations grow. Each turn sends all of the turns before it, and the tools."""


def render(target: Target, tokens: workload.Tokens) -> list[RenderRow]:
    """Prompts of several lengths, and conversations that grow, as far as they fit the server's window.

    `tokens`: counts the text that is sent, so that all servers are sent the same.
    """
    rows = []
    for name, (size, requests) in PROMPTS.items():
        if target.fits(size):
            generator = random.Random(name)
            contents = [tokens.prose(max(size - 10, 20), generator) for _ in range(requests + 3)]
            chats = [{"messages": [{"role": "user", "content": content}]} for content in contents]
            _render(target, name, chats[:3])
            rows.append(_render(target, name, chats[3:]))
    for size in CONVERSATIONS:
        if target.fits(size):
            chats = workload.conversations(tokens, USERS, TURNS, size)
            name = f"{USERS} conversations of {TURNS} turns growing to {size:,} tokens"
            rows.append(_render(target, name, chats))
    return rows


def _render(target: Target, name: str, chats: Sequence[Json]) -> RenderRow:
    tokens = 0
    before, started = target.clock.read(), time.perf_counter()
    for chat in chats:
        answer = target.post("/v1/chat/completions/render", {"model": target.model, **chat})
        tokens += len(answer["token_ids"])
    wall, cpu = time.perf_counter() - started, target.clock.read() - before
    count = len(chats)
    return RenderRow(target.name, name, tokens // count, count, cpu / count, wall / count)


def run_streams(
    targets: Sequence[Target], words: workload.Tokens, tokens: int, chunk: int, minimal: bool
) -> list[StreamRow]:
    """The answer of ANSWER tokens from every server, and the longer one from those that are not too slow."""
    rows = []
    for target in targets:
        stream(target, words, min(tokens, 100), chunk, minimal)
        short = stream(target, words, min(tokens, ANSWER), chunk, minimal)
        rows.append(short)
        if tokens > ANSWER:
            if short.late is not None and short.late > TOO_SLOW:
                print(f"{target.name}: too slow for an answer of {tokens} tokens, left out", file=sys.stderr)
            else:
                rows.append(stream(target, words, tokens, chunk, minimal))
    return rows
