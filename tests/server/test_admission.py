"""What a worker refuses because it has enough to do, and that nothing is refused any more afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import ANY

import pytest

from renderd.model.hurry import takes_long
from renderd.server.admission import Admission
from renderd.server.config import ServerConfig
from renderd.server.endpoint import Endpoint
from renderd.wire.errors import ApiError

Answer = tuple[int, dict[bytes, bytes], bytes]


def endpoint_of(
    handler: Callable[[bytes], bytes], brief: bool = False, **flags: Any
) -> tuple[Endpoint, Admission]:
    config = ServerConfig(**flags)
    admission = Admission(config)
    endpoint = Endpoint(
        lambda body, request_id: handler(body), lambda body: brief, admission, config.max_body_bytes
    )
    return endpoint, admission


async def post(endpoint: Endpoint, *chunks: bytes, wait: Awaitable[None] | None = None) -> Answer | None:
    """Send a body in chunks, the last one after `wait`; no chunks is a client that goes. None: no answer."""
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
    await endpoint(scope, receive, send)
    if not sent:
        return None
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


def status_of(answer: Answer | None) -> int:
    assert answer is not None
    return answer[0]


def test_more_requests_than_may_be_are_refused() -> None:
    release = threading.Event()

    def slow(body: bytes) -> bytes:
        release.wait(10)
        return body

    endpoint, admission = endpoint_of(slow, max_concurrent_requests=2)

    async def run() -> None:
        under_way = [asyncio.create_task(post(endpoint, b"1")) for _ in range(2)]
        await asyncio.sleep(0.01)
        answer = await post(endpoint, b"1")
        assert answer is not None and answer[0] == 503
        assert answer[1][b"retry-after"] == b"1"
        assert b'"type":"ServiceUnavailableError"' in answer[2]
        assert admission.in_flight == 2
        release.set()
        assert [status_of(await task) for task in under_way] == [200, 200]
        assert status_of(await post(endpoint, b"1")) == 200
        assert (admission.in_flight, admission.held_bytes, admission.queued) == (0, 0, 0)

    asyncio.run(run())


def test_bodies_that_take_too_much_memory_are_refused() -> None:
    endpoint, admission = endpoint_of(lambda body: body, max_pending_bytes=100)

    async def run() -> None:
        rest = asyncio.Event()

        async def wait() -> None:
            await rest.wait()

        held = asyncio.create_task(post(endpoint, b"x" * 80, b"y" * 10, wait=wait()))
        await asyncio.sleep(0.01)
        assert status_of(await post(endpoint, b"x" * 30)) == 503
        assert status_of(await post(endpoint, b"x" * 20)) == 200
        rest.set()
        assert status_of(await held) == 200
        assert (admission.in_flight, admission.held_bytes) == (0, 0)

    asyncio.run(run())


def test_work_that_waits_too_long_is_refused_and_never_done() -> None:
    release = threading.Event()
    done: list[bytes] = []

    def slow(body: bytes) -> bytes:
        release.wait(10)
        done.append(body)
        return body

    endpoint, admission = endpoint_of(slow, renderer_num_workers=1, max_queue_seconds=0.05)

    async def run() -> None:
        first = asyncio.create_task(post(endpoint, b"first"))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(post(endpoint, b"second"))
        await asyncio.sleep(0.01)
        assert admission.queued == 1
        assert status_of(await second) == 503
        assert admission.queued == 0
        release.set()
        assert status_of(await first) == 200
        assert status_of(await post(endpoint, b"third")) == 200
        assert done == [b"first", b"third"]

    asyncio.run(run())


@pytest.mark.parametrize("error", [ApiError(400, "x", "no"), RuntimeError("defect"), None])
@pytest.mark.parametrize("brief", [True, False])
def test_nothing_is_held_after_an_answer(error: Exception | None, brief: bool) -> None:
    def handler(body: bytes) -> bytes:
        if error is not None:
            raise error
        return body

    endpoint, admission = endpoint_of(handler, brief=brief)

    async def run() -> None:
        await post(endpoint, b"body")
        assert await post(endpoint) is None, "the client has gone"
        await post(endpoint, b"x" * 20, b"y")
        assert (admission.in_flight, admission.held_bytes, admission.queued) == (0, 0, 0)

    asyncio.run(run())


def test_short_work_stays_and_long_work_goes_to_a_thread() -> None:
    threads: list[str] = []

    def handler(body: bytes) -> bytes:
        threads.append(threading.current_thread().name)
        if body == b"long":
            takes_long()
        return body

    endpoint, _ = endpoint_of(handler, brief=True)
    for body in (b"short", b"long"):
        assert asyncio.run(post(endpoint, body)) == (200, ANY, body)
    loop, again, worker = threads
    assert loop == again == threading.current_thread().name != worker
