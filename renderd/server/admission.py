"""How much a worker takes on: requests under way, bytes of their bodies, waiting for a thread.

What is over a limit is refused at once with 503 and Retry-After, so that a load balancer asks another
replica.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from renderd.server.config import ServerConfig
from renderd.wire.errors import ApiError

T = TypeVar("T")

RETRY_AFTER = 1
"""Seconds after which a refused client may come again: a queue is seldom longer."""


class Admission:
    """What one worker holds. All methods but the work itself run on the event loop.

    `in_flight`: requests whose answers are not sent; `held_bytes`: of their bodies. `draining`: the worker is
    about to end: what comes is answered, and told not to come again on this connection.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._max_requests = config.max_concurrent_requests
        self._max_bytes = config.max_pending_bytes
        self._max_seconds = config.max_queue_seconds
        threads = config.renderer_num_workers or os.cpu_count()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="renderd")
        self._lock = Lock()
        self._submitted = 0
        self._begun = 0
        self.in_flight = 0
        self.held_bytes = 0
        self.draining = False

    @property
    def queued(self) -> int:
        """Requests whose work waits for a thread."""
        return self._submitted - self._begun

    def enter(self) -> None:
        """A request has come. Raises ApiError 503 when there are too many; else `leave` has to follow."""
        if self.in_flight >= self._max_requests:
            raise _refused(f"{self._max_requests} requests are under way, which is as many as may be.")
        self.in_flight += 1

    def leave(self, held: int) -> None:
        """The request is answered. `held`: bytes that it held."""
        self.in_flight -= 1
        self.held_bytes -= held

    def hold(self, size: int) -> None:
        """Bytes of a body have come. Raises ApiError 503 when bodies take too much memory."""
        if self.held_bytes + size > self._max_bytes:
            raise _refused(f"The bodies of the requests under way take {self._max_bytes} bytes.")
        self.held_bytes += size

    async def run(self, work: Callable[[], T]) -> T:
        """The result of work done in a thread. Raises ApiError 503 when it waited for one too long."""

        def begin() -> T:
            self._count_begun()
            return work()

        self._submitted += 1
        future = self._pool.submit(begin)
        timer = asyncio.get_running_loop().call_later(self._max_seconds, future.cancel)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancelled():
                raise
            self._count_begun()
            raise _refused(f"The request waited for {self._max_seconds:g} seconds.") from None
        finally:
            timer.cancel()

    def _count_begun(self) -> None:
        with self._lock:
            self._begun += 1


def _refused(message: str) -> ApiError:
    return ApiError(
        503, "ServiceUnavailableError", f"The server is overloaded. {message}", retry_after=RETRY_AFTER
    )
