"""What a worker refuses because it has enough to do, and that nothing is refused any more afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import ANY

import pytest

from renderd import telemetry
from renderd.model.hurry import takes_long
from renderd.server import long_work
from renderd.server.admission import Admission
from renderd.server.config import ServerConfig
from renderd.server.endpoint import Endpoint
from renderd.server.long_work import LongWork
from renderd.wire.errors import ApiError, bad_request

Answer = tuple[int, dict[bytes, bytes], bytes]
BUSY = (0, 0, 0)


class Worker:
    """An endpoint that answers with `handler`, and the processes for what takes long."""

    def __init__(self, handler: Callable[[bytes], bytes], brief: bool = False, **flags: Any) -> None:
        config = ServerConfig(**flags)
        self.admission = Admission(config)

        def handle(body: bytes, request_id: str | None) -> bytes:
            return handler(body)

        self.long_work = LongWork(config, {"/x": handle})
        self._endpoint = Endpoint(
            "/x", handle, lambda body: brief, self.long_work, self.admission, config.max_body_bytes
        )

    def start(self, count: int = 1, take_faster: Callable[[], None] = lambda: None) -> list[int]:
        return self.long_work.start(count, lambda number: None, lambda: None, take_faster)

    @property
    def busy(self) -> tuple[int, int, int]:
        return self.admission.in_flight, self.admission.held_bytes, self.long_work.queued

    async def post(self, *chunks: bytes, wait: Awaitable[None] | None = None) -> Answer | None:
        """Send a body in chunks, the last one after `wait`; no chunks: the client goes. None: no answer."""
        waiting = list(chunks)
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not waiting:
                return {"type": "http.disconnect"}
            if len(waiting) == 1 and wait is not None:
                await wait
            return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": "/x", "headers": [(b"content-type", b"application/json")]}
        await self._endpoint(scope, receive, send)
        if not sent:
            return None
        start, body = sent
        return start["status"], dict(start["headers"]), body["body"]


def status_of(answer: Answer | None) -> int:
    assert answer is not None
    return answer[0]


def sleeping(body: bytes) -> bytes:
    time.sleep(float(body))
    return body


def test_more_requests_than_may_be_are_refused() -> None:
    worker = Worker(lambda body: body, max_concurrent_requests=2)

    async def run() -> None:
        rest = asyncio.Event()

        async def wait() -> None:
            await rest.wait()

        under_way = [asyncio.create_task(worker.post(b"1", b"2", wait=wait())) for _ in range(2)]
        await asyncio.sleep(0.01)
        answer = await worker.post(b"1")
        assert answer is not None and answer[0] == 503
        assert answer[1][b"retry-after"] == b"1"
        assert b'"type":"ServiceUnavailableError"' in answer[2]
        assert worker.admission.in_flight == 2
        rest.set()
        assert [status_of(await task) for task in under_way] == [200, 200]
        assert status_of(await worker.post(b"1")) == 200
        assert worker.busy == BUSY

    asyncio.run(run())


def test_what_is_cut_is_a_503() -> None:
    worker = Worker(sleeping)
    worker.start()

    async def run() -> None:
        under_way = asyncio.create_task(worker.post(b"0.5"))
        await asyncio.sleep(0.05)
        assert worker.admission.cut() == 1
        assert status_of(await under_way) == 503
        assert status_of(await worker.post(b"0")) == 503
        assert worker.admission.in_flight == 0

    asyncio.run(run())


def test_bodies_that_take_too_much_memory_are_refused() -> None:
    worker = Worker(lambda body: body, max_pending_bytes=100)

    async def run() -> None:
        rest = asyncio.Event()

        async def wait() -> None:
            await rest.wait()

        held = asyncio.create_task(worker.post(b"x" * 80, b"y" * 10, wait=wait()))
        await asyncio.sleep(0.01)
        assert status_of(await worker.post(b"x" * 30)) == 503
        assert status_of(await worker.post(b"x" * 20)) == 200
        rest.set()
        assert status_of(await held) == 200
        assert worker.busy == BUSY

    asyncio.run(run())


def test_work_that_waits_too_long_is_refused_and_never_done() -> None:
    worker = Worker(sleeping, max_queue_seconds=0.1)
    worker.start()

    async def run() -> None:
        first = asyncio.create_task(worker.post(b"1.0"))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(worker.post(b"60"))
        await asyncio.sleep(0.01)
        assert worker.long_work.queued == 1
        assert status_of(await second) == 503
        assert worker.long_work.queued == 0
        assert status_of(await first) == 200
        assert status_of(await worker.post(b"0")) == 200
        assert worker.busy == BUSY

    asyncio.run(run())


def test_as_many_are_worked_on_as_there_are_processes() -> None:
    worker = Worker(lambda body: sleeping(body) and str(os.getpid()).encode())
    pids = worker.start(2)

    async def run() -> None:
        answers = await asyncio.gather(*[worker.post(b"0.05") for _ in range(8)])
        assert {answer[2] for answer in answers if answer} == {str(pid).encode() for pid in pids}
        assert worker.busy == BUSY

    asyncio.run(run())


@pytest.mark.parametrize("error", [ApiError(418, "x", "no", "p", 7), RuntimeError("defect"), None])
@pytest.mark.parametrize("brief", [True, False])
@pytest.mark.parametrize("started", [True, False])
def test_errors_are_the_same_wherever_the_work_is_done(
    error: Exception | None, brief: bool, started: bool
) -> None:
    def handler(body: bytes) -> bytes:
        if error is not None:
            raise error
        return body

    worker = Worker(handler, brief=brief)
    if started:
        worker.start()

    async def run() -> None:
        answer = await worker.post(b"body")
        assert answer is not None
        if isinstance(error, ApiError):
            assert answer[0] == 418 and answer[1][b"retry-after"] == b"7" and answer[2] == error.body()
        else:
            assert answer[0] == (500 if error else 200)
        assert await worker.post() is None, "the client has gone"
        await worker.post(b"x" * 20, b"y")
        assert worker.busy == BUSY

    asyncio.run(run())


def test_short_work_stays_and_long_work_goes() -> None:
    def handler(body: bytes) -> bytes:
        if body == b"long":
            takes_long()
        return str(os.getpid()).encode()

    worker = Worker(handler, brief=True)
    [pid] = worker.start()

    async def run() -> None:
        assert await worker.post(b"short") == (200, ANY, str(os.getpid()).encode())
        assert await worker.post(b"long") == (200, ANY, str(pid).encode())

    asyncio.run(run())


def test_what_a_process_notes_is_noted_here() -> None:
    def handler(body: bytes) -> bytes:
        current = telemetry.current()
        assert current is not None
        telemetry.rendered(7)
        telemetry.met("hermes", "dropped_text", 3)
        telemetry.spent("encode", telemetry.clock())
        return current.request_id.encode()

    worker = Worker(handler)
    worker.start()

    async def run() -> None:
        record = telemetry.begin(telemetry.Record("the id"))
        assert await worker.post(b"body") == (200, ANY, b"the id")
        assert record.tokens_rendered == 7
        assert record.anomalies == {("hermes", "dropped_text"): [1, 3]}
        assert set(record.stages) == {"wait", "encode"}

    asyncio.run(run())


def test_large_bodies_and_answers_pass() -> None:
    worker = Worker(lambda body: body[::-1])
    worker.start()
    body = os.urandom(20 << 20)

    async def run() -> None:
        answers = await asyncio.gather(worker.post(body), worker.post(b"small"))
        assert [answer[2] for answer in answers if answer] == [body[::-1], b"llams"]

    asyncio.run(run())


def test_the_faster_encoder_is_taken_by_the_processes() -> None:
    taken = [False]
    worker = Worker(lambda body: b"fast" if taken[0] else b"slow")

    def take() -> None:
        taken[0] = True

    worker.start(take_faster=take)

    async def run() -> None:
        assert await worker.post(b"body") == (200, ANY, b"slow")
        worker.long_work.take_faster()
        assert await worker.post(b"body") == (200, ANY, b"fast")

    asyncio.run(run())


def test_clients_that_go_away_leave_the_process_to_others() -> None:
    worker = Worker(sleeping)
    worker.start()

    async def run() -> None:
        tasks = [asyncio.create_task(worker.post(b"0.1")) for _ in range(3)]
        await asyncio.sleep(0.02)
        for task in tasks:  # one that is worked on, two that wait
            task.cancel()
        assert status_of(await worker.post(b"0")) == 200
        for moment in range(20):  # about when the process is handed on
            first = asyncio.create_task(worker.post(b"0.01"))
            second = asyncio.create_task(worker.post(b"0"))
            await asyncio.sleep(0.005 + moment / 1000)
            second.cancel()
            await first
        assert status_of(await worker.post(b"0")) == 200
        assert not worker.long_work.broken and worker.busy == BUSY

    asyncio.run(run())


def test_a_refusal_may_quote_what_cannot_be_written() -> None:
    def handler(body: bytes) -> bytes:
        raise bad_request("no \ud800", "\ud800")

    worker = Worker(handler)
    worker.start()

    async def run() -> None:
        for _ in range(2):
            assert await worker.post(b"body") == (400, ANY, bad_request("no \ud800", "\ud800").body())

    asyncio.run(run())


def test_a_hung_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "_HUNG_SECONDS", 0.2)
    worker = Worker(lambda body: body)
    [pid] = worker.start()
    os.kill(pid, signal.SIGSTOP)

    async def run() -> None:
        assert status_of(await worker.post(b"body")) == 503
        assert worker.long_work.broken
        assert status_of(await worker.post(b"body")) == 200

    asyncio.run(run())
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


def test_a_process_that_dies_breaks_its_worker() -> None:
    def handler(body: bytes) -> bytes:
        if body == b"die":
            os._exit(3)
        raise bad_request("no")

    worker = Worker(handler)
    worker.start()

    async def run() -> None:
        died, waited = await asyncio.gather(worker.post(b"die"), worker.post(b"next"))
        assert (status_of(died), status_of(waited)) == (503, 400), "the worker does the other work itself"
        assert status_of(await worker.post(b"later")) == 400
        assert worker.long_work.broken
        assert worker.busy == BUSY

    asyncio.run(run())
