"""Bodies that no friendly client sends, to all POST routes: none is a 5xx, costs a worker, or stays."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from .connection import Call, Connection, LostError
from .material import POSTS, Known, Recorded, known_calls, places
from .report import Report
from .servers import Replica, replica

BODIES = 20_000
CONNECTIONS = 8
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2.5, 2**31, 2**63, 2**64, -(2**63), 1e308, "", "a", "1", "\x00", "\ud800"),
    *("ü🌍\n", "<|im_end|>", "<tool_call>", "</think>", " ", "x" * 5000, "🌍" * 1000, "\\u0000"),
    *([], {}, [None], ["a"], [1], [[]], [{}], {"a": 1}, {"type": "text", "text": "t"}, [-1] * 50, [2**40]),
    *({"type": "object", "properties": {"a": {"type": "x"}}}, {"$ref": "#"}, "NaN", "[" * 400),
]


class Mutations:
    """Calls that begin as right ones, the same for the same seed and calls."""

    def __init__(self, known: list[Known], seed: int) -> None:
        self._random = random.Random(seed)
        by_path: dict[str, list[Call]] = {}
        for one in known:
            by_path.setdefault(one.call.path, []).append(one.call)
        self._calls = list(by_path.values())
        self._streams = [one.call for one in known if b'"parser_state":"' in one.call.body]
        self._states = [json.loads(call.body)["stream_state"] for call in self._streams]
        self._kinds: list[tuple[int, Callable[[], Call]]] = [
            (20, self._text),
            (25, self._values),
            (10, self._noise),
            (45, self._state),
        ]

    def next(self) -> Call:
        weights = [weight for weight, _ in self._kinds]
        return self._random.choices([make for _, make in self._kinds], weights)[0]()

    def _call(self) -> Call:
        return self._random.choice(self._random.choice(self._calls))

    def _text(self) -> Call:
        """A body as bytes: cut, with wrong ones, with some twice."""
        call, rng = self._call(), self._random
        body = bytearray(call.body)
        kind = rng.random()
        if kind < 0.4:
            del body[rng.randrange(len(body) + 1) :]
        else:
            for _ in range(rng.choice((1, 1, 2, 5, 20))):
                at = rng.randrange(len(body) + 1)
                if kind < 0.6:
                    body[at : at + 1] = bytes([rng.randrange(256)])
                elif kind < 0.8:
                    body[at : at + rng.randrange(20)] = rng.choice(
                        (b"", b"{", b"]", b'"', b",", b"\\u", b"\xff")
                    )
                else:
                    start = rng.randrange(len(body) + 1)
                    body[at:at] = body[start : start + rng.randrange(200)]
        return call._replace(body=bytes(body))

    def _values(self) -> Call:
        """JSON whose values are others, gone, or twice; or sent to another route."""
        call = self._call()
        body = _parsed(call.body)
        for _ in range(self._random.choice((1, 1, 2, 4))):
            body = self._changed(body)
        path = self._random.choice(POSTS) if self._random.random() < 0.1 else call.path
        return call._replace(path=path, body=json.dumps(body).encode())

    def _noise(self) -> Call:
        """No request at all."""
        rng = self._random
        kind = rng.random()
        if kind < 0.3:
            body = rng.randbytes(rng.choice((0, 1, 10, 1000, 60_000)))
        elif kind < 0.5:
            body = rng.choice((b"[", b'{"a":', b"[[],", b'"\\')) * rng.choice((1, 100, 20_000))
        elif kind < 0.7:
            body = json.dumps(rng.choice(VALUES)).encode()
        elif kind < 0.85:
            body = b'{"model":null,"prompt":%s}' % (b"9" * rng.choice((10, 400, 50_000)))
        else:
            body = b"{%s}" % b",".join(b'"k%d":%d' % (n, n) for n in range(rng.choice((1, 500, 5000))))
        content_type = rng.choice(
            ("application/json", "application/json", "text/plain", "", "a/b; charset=\xe4")
        )
        return Call(rng.choice(POSTS), body, f"Content-Type: {content_type}\r\n")

    def _state(self) -> Call:
        """A right chunk with a state that is none, or another's."""
        rng = self._random
        call = rng.choice(self._streams)
        body = json.loads(call.body)
        kind = rng.random()
        state = body["stream_state"]
        if kind < 0.15:
            state = copy.deepcopy(rng.choice(self._states))
        elif kind < 0.3:
            state = self._changed(state)
        elif kind < 0.4:
            state["parser_state"] = rng.choice(self._states)["parser_state"]
        elif kind < 0.5:
            state["parser_state"] = state["parser_state"][: rng.randrange(len(state["parser_state"]))]
        elif kind < 0.65:
            state["parser_state"] = self._flipped(state["parser_state"])
        else:
            state["parser_state"] = self._repacked(state["parser_state"])
        if rng.random() < 0.1:
            body = self._changed(body)
        if isinstance(body, dict):
            body["stream_state"] = state
        path = rng.choice(POSTS) if rng.random() < 0.05 else call.path
        return call._replace(path=path, body=json.dumps(body).encode())

    def _flipped(self, text: str) -> str:
        """Some bits of the packed bytes."""
        data = bytearray(_unpacked(text))
        for _ in range(self._random.choice((1, 1, 3))):
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
        return _packed(bytes(data))

    def _repacked(self, text: str) -> str:
        """Other values under a checksum that fits."""
        data = _unpacked(text)
        if self._random.random() < 0.2:
            changed = bytearray(data[5:])
            changed[self._random.randrange(len(changed))] = self._random.randrange(256)
            content = bytes(changed)
        else:
            value = msgspec.msgpack.decode(data[5:])
            for _ in range(self._random.choice((1, 1, 2, 3))):
                value = self._changed(value)
            content = _msgpack(value)
        return _packed(data[:1] + zlib.crc32(content).to_bytes(4, "big") + content)

    def _changed(self, value: Any) -> Any:
        """One value anywhere in it is another, goes, or comes twice."""
        rng = self._random
        value = copy.deepcopy(value)
        found = list(places(value))
        if not found:
            return rng.choice(VALUES)
        parent, key = rng.choice(found)
        kind = rng.random()
        if kind < 0.25 and isinstance(parent[key], int) and not isinstance(parent[key], bool):
            parent[key] += rng.choice((-1, 1, 2, 1000, -(2**31), 2**31))
        elif kind < 0.7:
            parent[key] = copy.deepcopy(rng.choice(VALUES))
        elif kind < 0.8:
            other, name = rng.choice(found)
            parent[key] = copy.deepcopy(other[name])
        elif kind < 0.9:
            del parent[key]
        elif isinstance(parent, list):
            parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
        else:
            parent[rng.choice(("type", "text", "name", "extra", "role"))] = copy.deepcopy(parent[key])
        return value


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return {}


def _msgpack(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError):  # a number or a text that msgpack cannot spell
        return msgspec.msgpack.encode([value and None])


def _unpacked(text: str) -> bytes:
    return base64.b64decode(text)


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Hostile:
    """The calls that were made and what came of them."""

    def __init__(self, server: Replica, mutations: Mutations, count: int) -> None:
        self.made = 0
        self.early = 0
        self.statuses: Counter[int] = Counter()
        self.failed: list[str] = []
        self.slowest = (0.0, b"")
        self._server = server
        self._mutations = mutations
        self._count = count

    async def run(self, report: Report) -> None:
        """Make them all."""
        await asyncio.gather(*(self._line(report) for _ in range(CONNECTIONS)))

    async def _line(self, report: Report) -> None:
        connection = Connection(self._server.url)
        while self.made < self._count and not report.late():
            self.made += 1
            if self.made == self._count // 4:
                self.early = self._server.memory()
            call, began = self._mutations.next(), time.monotonic()
            try:
                status = (await connection.ask(call)).status
            except (LostError, OSError) as error:
                self.failed.append(f"{call.path} {call.body[:3000]!r}: {error!r}")
                continue
            self.slowest = max(self.slowest, (time.monotonic() - began, call.path.encode() + call.body[:200]))
            self.statuses[status] += 1
            if status >= 500:
                self.failed.append(f"{status} {call.path} {call.body[:3000]!r}")
        connection.close()


async def run(report: Report, scale: float) -> None:
    """The whole part. `scale`: of the number of bodies."""
    report.part("Malformed, truncated, mutated and random bodies")
    count = int(BODIES * scale)
    with replica("hostile", "--workers", "2") as server:
        recorded = Recorded()
        recorded.streams = recorded.streams[::4]
        known = await known_calls(Connection(server.url), recorded)
        hostile = Hostile(server, Mutations(known, seed=6), count)
        began = time.monotonic()
        await hostile.run(report)
        late = server.memory()
        restarts = server.metric("renderd_worker_restarts_total")
        statuses = ", ".join(f"{status}: {number}" for status, number in sorted(hostile.statuses.items()))
        report.figure("bodies", f"{hostile.made} in {time.monotonic() - began:.0f} s ({statuses})")
        report.figure("slowest answer", f"{hostile.slowest[0]:.2f} s")
        report.promise(hostile.made >= count, f"{count} bodies were sent in the time")
        report.promise(not hostile.failed, "each was answered, none with a 5xx", *hostile.failed)
        report.promise(restarts == 0, "no worker was lost", *server.faults())
        report.promise(not server.faults(), "the log has no defect", *server.faults())
        report.memory(hostile.early or late, late)
