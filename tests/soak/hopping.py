"""Streams that hop between three replicas behind nginx, while one is killed and another is drained."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import msgspec

from renderd.conformance.bench import workload
from renderd.conformance.client import Client

from .connection import Connection, LostError
from .material import Stream, state_of, timeless, written_streams
from .report import Report
from .servers import Replica, nginx

STREAMS = 100
LENGTH = 150
"""Tokens of an answer, each a call."""
GAP = 0.2
"""Seconds between two calls of a stream."""
DRAIN_SECONDS = 10
TRIES = 100
"""Of one call, a tenth of a second apart."""
_CREATED = 2
"""Where `parser_state` holds the time of the first chunk."""


def canonical(answer: bytes) -> bytes:
    """An answer to a chunk without the time of its first chunk, in the chunk and in the state."""
    state: Any = msgspec.json.decode(state_of(answer))
    chunk = timeless(answer[: answer.rfind(b'"stream_state":')])
    packed = state.pop("parser_state")
    memory = msgspec.msgpack.decode(base64.b64decode(packed)[5:])
    memory[_CREATED] = 0
    return chunk + msgspec.json.encode(state) + msgspec.msgpack.encode(memory)


class Hopping:
    """`done`: the disturbances are over. `phases`: what went on from which time on, for the counts."""

    def __init__(self, streams: list[Stream], expected: list[list[bytes]], url: str) -> None:
        self.phases: list[tuple[float, str]] = []
        self.begin("undisturbed")
        self.done = False
        self.calls = self.ended = 0
        self.retries: Counter[str] = Counter()
        self.longest = 0.0
        self.wrong: list[str] = []
        self._streams = streams
        self._expected = expected
        self._url = url

    def begin(self, phase: str) -> None:
        """Something else goes on from now on."""
        self.phases.append((time.time(), phase))

    def phase(self, moment: float) -> str:
        """What went on at a time."""
        return next(name for began, name in reversed(self.phases) if began <= moment)

    async def run(self) -> None:
        """All streams at a time, each again and again until `done`; none ends in the middle."""
        await asyncio.gather(*(self._client(number) for number in range(len(self._streams))))

    async def _client(self, number: int) -> None:
        connection = Connection(self._url)
        await asyncio.sleep(GAP * number / len(self._streams))
        while not self.done and not self.wrong:
            await self._one(connection, number)
        connection.close()

    async def _one(self, connection: Connection, number: int) -> None:
        stream, state = self._streams[number], b"null"
        for at, expected in enumerate(self._expected[number]):
            began = time.monotonic()
            answer = await self._answer(connection, stream, at, state)
            if answer is None or canonical(answer) != expected:
                self.wrong.append(f"stream {number}, event {at}: {answer!r}, wanted {expected!r}")
                return
            state = state_of(answer)
            self.longest = max(self.longest, time.monotonic() - began)
            await asyncio.sleep(max(0.0, began + GAP - time.monotonic()))
        self.ended += 1

    async def _answer(self, connection: Connection, stream: Stream, at: int, state: bytes) -> bytes | None:
        self.calls += 1
        for _ in range(TRIES):
            during = self.phases[-1][1]
            try:
                reply = await connection.ask(stream.call(at, state))
                if reply.status == 200:
                    return reply.body
                if reply.status < 500:
                    return None
            except (LostError, OSError):
                pass
            self.retries[during] += 1
            await asyncio.sleep(0.1)
        return None


async def undisturbed(streams: list[Stream], url: str) -> list[list[bytes]]:
    """What one replica alone answers, by stream and event."""

    async def one(stream: Stream) -> list[bytes]:
        connection, state, answers = Connection(url), b"null", []
        for at in range(len(stream.calls)):
            reply = await connection.ask(stream.call(at, state))
            if reply.status != 200:
                raise RuntimeError(f"status {reply.status}: {reply.body!r}")
            state = state_of(reply.body)
            answers.append(canonical(reply.body))
        connection.close()
        return answers

    return await asyncio.gather(*map(one, streams))


def disturb(hopping: Hopping, killed: Replica, drained: Replica) -> tuple[float, int | None]:
    """One after the other. Returns how long the drain took and its exit status."""
    time.sleep(2)
    hopping.begin("one is killed")
    killed.kill()
    time.sleep(2)
    hopping.begin("the killed one starts")
    killed.start()
    killed.wait_until_ready()
    time.sleep(3)
    hopping.begin("one drains")
    began = time.monotonic()
    status = drained.drain(DRAIN_SECONDS + 10)
    seconds = time.monotonic() - began
    time.sleep(1)
    hopping.begin("the drained one starts")
    drained.start()
    drained.wait_until_ready()
    time.sleep(3)
    return seconds, status


async def run(report: Report, scale: float) -> None:
    """The whole part. `scale`: of the number of streams and of their length."""
    report.part("Streams that hop between three replicas behind nginx")
    with ExitStack() as stack:
        replicas = [Replica(f"hop-{n}", "--drain-seconds", str(DRAIN_SECONDS)) for n in range(3)]
        for server in replicas:
            stack.callback(server.kill)
            server.start()
        for server in replicas:
            server.wait_until_ready()
        url, access = stack.enter_context(nginx(replicas))
        tokens = workload.Tokens(Client(replicas[0].url), "qwen3")
        count = max(int(STREAMS * min(scale, 1.0)), 5)
        streams = written_streams(tokens, count, LENGTH)
        hopping = Hopping(streams, await undisturbed(streams, replicas[0].url), url)
        began = time.monotonic()
        disturbing = asyncio.create_task(asyncio.to_thread(disturb, hopping, replicas[1], replicas[2]))
        disturbing.add_done_callback(lambda task: setattr(hopping, "done", True))
        await hopping.run()
        seconds, status = await disturbing
        passed_on = _passed_on(hopping, access.read_text())
        report.figure("streams at a time, ended", f"{count}, {hopping.ended}")
        report.figure("calls", f"{hopping.calls} in {time.monotonic() - began:.0f} s")
        report.figure("calls that nginx made again elsewhere", f"{passed_on.total()} ({_counts(passed_on)})")
        report.figure("calls that clients made again", hopping.retries.total())
        report.figure("longest wait for a call", f"{hopping.longest:.2f} s")
        report.figure("drain", f"{seconds:.1f} s, exit status {status}")
        report.promise(
            not hopping.wrong, "every stream is the undisturbed one, byte for byte", *hopping.wrong
        )
        drains = {name: number for name, number in hopping.retries.items() if "drain" in name}
        report.promise(not drains, "the drained replica failed no call", drains)
        report.promise(not hopping.retries, "nor did the killed one, to a client", dict(hopping.retries))
        report.promise(status == 0, "the drained replica ended with status 0")
        faults = [fault for server in replicas for fault in server.faults()]
        report.promise(not faults, "no replica lost a worker or wrote a traceback", *faults)


def _passed_on(hopping: Hopping, access: str) -> Counter[str]:
    """Calls for which nginx asked more than one replica, by what went on."""
    found = re.findall(r"^(\S+) \d+ \S+[,:] ", access, re.MULTILINE)
    return Counter(hopping.phase(float(moment)) for moment in found)


def _counts(counted: Counter[str]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in counted.items())
