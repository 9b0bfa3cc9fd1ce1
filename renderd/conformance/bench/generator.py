"""The load generator: one process that keeps many connections busy and takes little CPU itself.

    python -m renderd.conformance.bench.generator < WORK

Its first line of input is `Work` as JSON. It prepares all bodies, opens the connections and writes a line;
on the next line of input it starts, and writes `Load` as JSON when it is done. No JSON is read in between: a
call is put together from prepared bytes and the bytes of the state that came back.

Calls of a connection have due times that do not depend on the answers (an open loop), and a call that its
predecessor made late counts from when it was due. Timers of an event loop have milliseconds: a call sent
within two of its due time counts from when it was sent. With `gap` 0 the next call follows the answer (a
closed loop).
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from collections.abc import Iterator
from typing import Protocol, cast
from urllib.parse import urlsplit

import msgspec
import uvloop

from renderd.conformance.bench import workload
from renderd.conformance.bench.cpu import CpuClock
from renderd.conformance.bench.replies import Replies

TIMER = 0.002
"""Seconds by which a timer of the event loop may be late."""
PATIENCE = 60.0
"""Seconds after the last due time at which calls without an answer have failed."""
_STATE = b'"stream_state":'


class Streams(msgspec.Struct, tag=True):
    """Streaming derender. A connection has one stream at a time; after an answer it starts the next one.

    `events`: of the answer, each as JSON without the opening brace and the request id. `told`: the members
    of the first body that tell of the request, as JSON without braces; later bodies have none.
    """

    path: str
    model: str
    events: list[str]
    told: str


class Prompts(msgspec.Struct, tag=True):
    """Chat renders of prompts of `words` words, each of its own text. At most `count` are sent, by all
    connections together."""

    path: str
    model: str
    words: int
    count: int
    seed: int


class Work(msgspec.Struct):
    """What to do: `lines` connections, on each a call every `gap` seconds, for `seconds`.

    `steady`: the gaps are equal, else they are random (exponential), as of many users that know nothing of
    each other. `pids`: processes whose CPU is read at the start and at the end.
    """

    url: str
    pids: list[int]
    calls: Streams | Prompts
    lines: int
    gap: float
    steady: bool
    seconds: float


class Load(msgspec.Struct):
    """What came of it. Times in seconds. `wall`: from the start to the last answer. `cpu`: of the server's
    processes, `own_cpu`: of the generator. `p50` to `longest`: from due time to the whole answer."""

    calls: int
    failed: int
    wall: float
    cpu: float
    own_cpu: float
    p50: float
    p90: float
    p99: float
    longest: float
    failure: str = ""

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.calls / self.wall if self.wall else 0.0


class Source(Protocol):
    """Bodies of the calls of one connection."""

    def next(self, answer: bytes | None) -> bytes | None:
        """The next one. `answer`: of the call before, None at first and after a failure. None: no more.

        Raises ValueError or MsgspecError when there is nothing to go on with in `answer`.
        """


class StreamSource:
    """The calls of one stream after another."""

    def __init__(self, streams: Streams, number: int) -> None:
        self._number = number
        self._round = 0
        self._at = 0
        self._opening = b'{"stream":true,"model":%b,"stream_state":' % msgspec.json.encode(streams.model)
        self._events = [b'",' + event.encode() + b"}" for event in streams.events]
        self._first = self._events[0][:-1] + b"," + streams.told.encode() + b"}"

    def next(self, answer: bytes | None) -> bytes:
        if answer is None or self._at == len(self._events):
            self._at, self._round = 0, self._round + 1
            self._id = b',"generate_chunk":{"request_id":"bench-%d-%d' % (self._number, self._round)
            state, rest = b"null", self._first
        else:
            state, rest = _state(answer), self._events[self._at]
        if self._at == 1:
            msgspec.json.decode(state)  # once an answer: that it was cut right
        self._at += 1
        return b"".join((self._opening, state, self._id, rest))


def _state(answer: bytes) -> bytes:
    # The last member. Inside of a JSON string its quotes would be escaped.
    at = answer.rfind(_STATE)
    if at < 0:
        raise ValueError(f"no stream_state: {answer[:200]!r}")
    return answer[at + len(_STATE) : -1]


class PromptSource:
    """Prepared bodies, shared by all connections."""

    def __init__(self, bodies: list[bytes]) -> None:
        self._bodies = bodies

    def next(self, answer: bytes | None) -> bytes | None:
        return self._bodies.pop() if self._bodies else None


def prompts(calls: Prompts) -> list[bytes]:
    """The bodies. No two have a run of more than a few phrases in common."""
    generator = random.Random(calls.seed)
    phrases = workload.phrases(4000, generator)
    per_prompt = max(calls.words // workload.PHRASE, 1)
    bodies = []
    for _ in range(calls.count):
        content = "".join(generator.choices(phrases, k=per_prompt))
        chat = {"model": calls.model, "messages": [{"role": "user", "content": content}]}
        bodies.append(msgspec.json.encode(chat))
    return bodies


class Line(asyncio.Protocol):
    """A connection and its calls. `done` is set when it has made the last one or has lost its server."""

    def __init__(self, source: Source, head: bytes, gaps: Iterator[float], latencies: list[float]) -> None:
        self.done = asyncio.Event()
        self.failed = 0
        self.failure = ""
        self.ended = 0.0
        self._source = source
        self._head = head
        self._gaps = gaps
        self._latencies = latencies
        self._answer: bytes | None = None
        self._replies = Replies()
        self._due = self._end = self._counted = 0.0

    def itself(self) -> Line:
        """What asyncio wants: a function that makes the protocol of a connection."""
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def start(self, end: float) -> None:
        """Make calls until `end`, on the clock of time.perf_counter."""
        self._due, self._end = time.perf_counter() + next(self._gaps), end
        self._schedule()

    def give_up(self) -> None:
        """No more waiting: a call without an answer has failed."""
        if not self.done.is_set():
            self._lost("no answer in time")

    def _schedule(self) -> None:
        left = self._due - time.perf_counter()
        if self._due >= self._end:
            self._finish()
        elif left > 0:
            asyncio.get_running_loop().call_later(left, self._send)
        else:
            self._send()

    def _send(self) -> None:
        if self.done.is_set():
            return
        try:
            body = self._source.next(self._answer)
        except (ValueError, msgspec.MsgspecError) as error:
            self._lost(str(error))
            return
        if body is None:
            self._finish()
            return
        now = time.perf_counter()
        self._counted = self._due if now - self._due > TIMER else now
        self._transport.write(self._head % len(body) + body)

    def data_received(self, data: bytes) -> None:
        try:
            reply = self._replies.feed(data)
        except ValueError as error:
            self._lost(str(error))
            return
        if reply is not None:
            self._answered(*reply)

    def _answered(self, head: bytes, body: bytes) -> None:
        now = time.perf_counter()
        self.ended = now
        if head.startswith(b"HTTP/1.1 200"):
            self._latencies.append(now - self._counted)
            self._answer = body
        else:
            self.failed += 1
            self.failure = (head + body)[:500].decode("utf-8", "replace")
            self._answer = None
        gap = next(self._gaps)
        self._due = self._due + gap if gap else now
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.is_set():
            self._lost(f"connection lost: {exc}")

    def _lost(self, failure: str) -> None:
        self.failed += 1
        self.failure = failure
        self._finish()

    def _finish(self) -> None:
        self.done.set()
        self._transport.close()


def _gaps(work: Work, generator: random.Random) -> Iterator[float]:
    if not work.gap:
        while True:
            yield 0.0
    yield generator.random() * work.gap  # the connections do not all start at once
    while True:
        yield work.gap if work.steady else generator.expovariate(1 / work.gap)


def _sources(work: Work) -> list[Source]:
    calls = work.calls
    if isinstance(calls, Streams):
        return [StreamSource(calls, number) for number in range(work.lines)]
    return [PromptSource(prompts(calls))] * work.lines


async def _run(work: Work) -> Load:
    parts = urlsplit(work.url)
    path = parts.path.rstrip("/") + work.calls.path
    head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    head += "Content-Length: "
    template = head.replace("%", "%%").encode() + b"%d\r\n\r\n"
    latencies: list[float] = []
    lines = [
        Line(source, template, _gaps(work, random.Random(number)), latencies)
        for number, source in enumerate(_sources(work))
    ]
    loop = asyncio.get_running_loop()
    gc.collect()
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    for line in lines:  # now, not before: servers close connections that are idle
        await loop.create_connection(line.itself, parts.hostname or "", parts.port or 80)
    clock = CpuClock(work.pids)
    cpu, own, started = clock.read(), time.process_time(), time.perf_counter()
    for line in lines:
        line.start(started + work.seconds)
    try:
        async with asyncio.timeout(work.seconds + PATIENCE):
            for line in lines:
                await line.done.wait()
    except TimeoutError:
        for line in lines:
            line.give_up()
    cpu, own = clock.read() - cpu, time.process_time() - own
    latencies.sort()
    ended = max((line.ended for line in lines), default=started)
    return Load(
        calls=len(latencies),
        failed=sum(line.failed for line in lines),
        wall=max(ended - started, 0.0),
        cpu=cpu,
        own_cpu=own,
        p50=_quantile(latencies, 0.5),
        p90=_quantile(latencies, 0.9),
        p99=_quantile(latencies, 0.99),
        longest=_quantile(latencies, 1.0),
        failure=next((line.failure for line in lines if line.failure), ""),
    )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def main() -> int:
    """The process. Its last line is `Load`."""
    work = msgspec.json.decode(sys.stdin.readline(), type=Work)
    load = uvloop.run(_run(work))
    print(msgspec.json.encode(load).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
