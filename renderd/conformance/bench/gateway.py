"""`renderd bench gateway`: what a gateway takes for an event of its engine, one token each, and how much
later than the engine its first token comes.

Many chats stream at once, at the pace at which the scripted engine is told to write. Then, and while they
run, one more is asked of the gateway and of the engine in turns, each on a connection of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import msgspec

from renderd.conformance.bench import workload
from renderd.conformance.bench.tables import Cells, digits, ms, whole
from renderd.conformance.bench.target import RENDER, Target

CHAT = "/v1/chat/completions"
GENERATE = "/inference/v1/generate"
PROBES = 30
"""Pairs of first tokens that are compared, idle and under load."""
_PROBE_TOKENS = 4


class GatewayRow(msgspec.Struct):
    """`cpu_event`: seconds of CPU of all processes of the gateway for an event of the engine; `idle_cpu`: a
    second, without any. First tokens in seconds from the request; medians. `parsed`: see streaming."""

    target: str
    streams: int
    rate: float
    tokens: int
    events: int
    wall: float
    cpu: float
    cpu_event: float
    idle_cpu: float
    first_engine: float
    first_gateway: float
    loaded_first_engine: float
    loaded_first_gateway: float
    parsed: bool


def gateway(
    target: Target, engine: str, tokens: workload.Tokens, streams: int, rate: float, length: int
) -> GatewayRow:
    """`rate`: tokens a second of each stream, `length`: of an answer. Raises RuntimeError, OSError."""
    return asyncio.run(_Measurement(target, engine, tokens, streams, rate, length).run())


class _Measurement:
    def __init__(
        self,
        target: Target,
        engine: str,
        tokens: workload.Tokens,
        streams: int,
        rate: float,
        length: int,
    ) -> None:
        self._target = target
        self._engine = engine
        self._streams = streams
        self._rate = rate
        self._ids = workload.parsed_answer(tokens, length)
        self._content = 0

    async def run(self) -> GatewayRow:
        target, clock = self._target, self._target.clock
        await self._stream(self._chat(self._ids[:50], 0.0))
        await self._probes(5)
        before = clock.read()
        await asyncio.sleep(1.0)
        idle = clock.read() - before
        first_engine, first_gateway = await self._probes(PROBES)
        before, began = clock.read(), time.monotonic()
        delay = 1 / self._rate
        running = [
            asyncio.create_task(self._late(number, self._chat(self._ids, delay)))
            for number in range(self._streams)
        ]
        chunks = sum(await asyncio.gather(*running))
        cpu, wall = clock.read() - before, time.monotonic() - began
        running = [
            asyncio.create_task(self._late(number, self._chat(self._ids, delay)))
            for number in range(self._streams)
        ]
        await asyncio.sleep(2 * delay + 1.0)
        loaded_engine, loaded_gateway = await self._probes(PROBES)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        events = len(self._ids) * self._streams
        return GatewayRow(
            target.name,
            self._streams,
            self._rate,
            len(self._ids),
            events,
            wall,
            cpu,
            (cpu - idle * wall) / events,
            idle,
            first_engine,
            first_gateway,
            loaded_engine,
            loaded_gateway,
            chunks < events,  # a marker gives no chunk
        )

    def _chat(self, ids: Sequence[int], delay: float) -> dict[str, Any]:
        return {
            "model": self._target.model,
            "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
            "tools": [workload.TOOL],
            "stream": True,
            "max_tokens": len(ids) + 1,
            "vllm_xargs": {"force_token_ids": list(ids), "force_delay": delay},
        }

    async def _late(self, number: int, body: dict[str, Any]) -> int:
        """One of many streams, which do not begin all at once."""
        await asyncio.sleep(number / self._streams / self._rate)
        return (await self._stream(body))[1]

    async def _probes(self, count: int) -> tuple[float, float]:
        """Medians of the time to the first token: of the engine, of the gateway."""
        chat = self._chat(self._ids[-_PROBE_TOKENS:], 0.0)
        rendered = self._target.post(RENDER, chat)
        engine, gateway = [], []
        for _ in range(count):
            engine.append((await self._ask(self._engine, GENERATE, rendered))[0])
            gateway.append((await self._ask(self._target.url, CHAT, chat))[0])
            await asyncio.sleep(0.01)
        return median(engine), median(gateway)

    async def _stream(self, body: dict[str, Any]) -> tuple[float, int]:
        return await self._ask(self._target.url, CHAT, body)

    async def _ask(self, url: str, path: str, body: dict[str, Any]) -> tuple[float, int]:
        """Seconds to the first event, and the number of events. Raises RuntimeError for an answer that does
        not come to its end."""
        parts, data = urlsplit(url), msgspec.json.encode(body)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        try:
            began = time.perf_counter()
            writer.write(head.encode() + data)
            first, events, last = 0.0, 0, b""
            while piece := await reader.read(65536):
                events += piece.count(b"data: {")
                if events and not first:
                    first = time.perf_counter() - began
                last = (last + piece)[-400:]
        finally:
            writer.close()
        if b"[DONE]" not in last or b'{"error"' in last:
            raise RuntimeError(f"{url}{path}: {last.decode(errors='replace')}")
        return first, events


def lines(rows: Sequence[GatewayRow]) -> list[Cells]:
    of = f"{rows[0].streams} streams of {rows[0].rate:g} tokens a second"
    idle = {row.target: ms(row.first_gateway - row.first_engine) for row in rows}
    loaded = {row.target: ms(row.loaded_first_gateway - row.loaded_first_engine) for row in rows}
    return [
        (f"{of}: events a second", {row.target: row.events / row.wall for row in rows}, whole),
        (f"{of}: CPU an event, us", {row.target: row.cpu_event * 1e6 for row in rows}, digits),
        ("first token of the engine, idle, ms", {r.target: ms(r.first_engine) for r in rows}, digits),
        ("first token later than the engine's, idle, ms", idle, digits),
        (
            "first token of the engine beside the streams, ms",
            {r.target: ms(r.loaded_first_engine) for r in rows},
            digits,
        ),
        ("first token later than the engine's, beside the streams, ms", loaded, digits),
    ]
