"""Many requests of all kinds: no answer is another than before, and memory does not grow."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

from .connection import Call, Connection, LostError
from .material import Known, Recorded, head, known_calls, timeless
from .report import Report
from .servers import Replica, replica

REQUESTS = 200_000
CONNECTIONS = 16
SHARES = {"chunk": 50, "render": 20, "derender": 10, "tokenize": 5, "detokenize": 5, "error": 8, "new": 2}
"""Percent of the requests, by kind. `new`: chats whose text no cache has seen."""


class Endurance:
    """`known`: calls with their answers."""

    def __init__(self, server: Replica, known: list[Known], count: int) -> None:
        self.made = 0
        self.wrong: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.early = 0
        self._server = server
        self._count = count
        self._random = random.Random(6)
        self._by_kind = {kind: [one for one in known if one.kind == kind] for kind in SHARES}
        self._by_kind["new"] = [Known(Call("", b""), 200, None, "new")]
        missing = [kind for kind, found in self._by_kind.items() if not found]
        if missing:
            raise RuntimeError(f"no golden case makes calls of the kinds {missing}")

    async def run(self, report: Report) -> None:
        """Make all calls, as fast as the answers come."""
        await asyncio.gather(*(self._line(report) for _ in range(CONNECTIONS)))

    async def _line(self, report: Report) -> None:
        connection = Connection(self._server.url)
        kinds, weights = list(SHARES), list(SHARES.values())
        while self.made < self._count and len(self.wrong) < 20 and not report.late():
            self.made += 1
            if self.made == self._count // 4:
                self.early = self._server.memory()
            known = self._random.choice(self._by_kind[self._random.choices(kinds, weights)[0]])
            call = known.call if known.call.path else self._new_chat()
            try:
                reply = await connection.ask(call)
            except (LostError, OSError) as error:
                self.wrong.append(f"{call.path}: {error!r}")
                continue
            self.statuses[reply.status] += 1
            same = known.answer is None or timeless(reply.body) == known.answer
            if reply.status != known.status or not same:
                self.wrong.append(f"{call.path} {call.body[:200]!r}: {reply.status} {reply.body[:300]!r}")
        connection.close()

    def _new_chat(self) -> Call:
        text = f"Question {self._random.random()}: " + "what is this about? " * self._random.randrange(20)
        body = b'{"messages":[{"role":"user","content":"%b"}]}' % text.encode()
        return Call("/v1/chat/completions/render", body, head("soak-new"))


async def run(report: Report, scale: float) -> None:
    """The whole part. `scale`: of the number of requests."""
    report.part("Requests of all kinds")
    count = int(REQUESTS * scale)
    with replica("endurance", "--workers", "2") as server:
        recorded = Recorded()
        if scale < 0.2:
            recorded.streams = recorded.streams[:: int(0.2 / scale) + 1]
        known = await known_calls(Connection(server.url), recorded)
        endurance = Endurance(server, known, count)
        began, cpu = time.monotonic(), server.cpu()
        await endurance.run(report)
        seconds, cpu = time.monotonic() - began, server.cpu() - cpu
        late = server.memory()
        restarts = server.metric("renderd_worker_restarts_total")
        statuses = ", ".join(f"{status}: {number}" for status, number in sorted(endurance.statuses.items()))
        report.figure("requests", f"{endurance.made}, of {len(known)} known ones ({statuses})")
        report.figure("requests a second", f"{endurance.made / seconds:.0f}, in {seconds:.0f} s")
        report.figure("processor of the server, a request", f"{cpu / max(endurance.made, 1) * 1e3:.2f} ms")
        report.promise(endurance.made >= count, f"{count} requests were made in the time")
        report.promise(not endurance.wrong, "every answer is what it was at first", *endurance.wrong)
        report.memory(endurance.early or late, late)
        report.promise(restarts == 0, "no worker was lost", *server.faults())
        report.promise(not server.faults(), "the log has no defect", *server.faults())
