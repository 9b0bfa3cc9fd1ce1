"""How much a worker takes on: requests under way and bytes of their bodies.

What is over a limit is refused at once with 503 and Retry-After, so that a load balancer asks another
replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from renderd.server.config import ServerConfig
from renderd.wire.errors import RETRY_AFTER, ApiError, overloaded


class Admission:
    """What one worker holds.

    `in_flight`: requests whose answers are not sent; `held_bytes`: of their bodies; `unread_bytes`: of
    answers that their clients have still to take. `draining`: the worker is about to end: what comes is
    answered, and told not to come again on this connection. `cutting`: what is not answered is not going to
    be.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._max_requests = config.max_concurrent_requests
        self._max_bytes = config.max_pending_bytes
        self.in_flight = 0
        self.held_bytes = 0
        self.draining = False
        self.cutting = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.unread_bytes: Callable[[], int] = lambda: 0

    def enter(self) -> None:
        """The request of this task has come. Raises ApiError 503 when there are too many; else `leave` has to
        follow."""
        if self.cutting:
            raise _cut()
        if self.in_flight >= self._max_requests:
            raise overloaded(f"{self._max_requests} requests are under way, which is as many as may be.")
        self.in_flight += 1
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)

    def leave(self, held: int) -> None:
        """The request of this task is answered. `held`: bytes that it held."""
        self.in_flight -= 1
        if (task := asyncio.current_task()) is not None:
            self._tasks.discard(task)
        self.held_bytes -= held

    def cut(self) -> int:
        """Cancel the requests that are under way. Returns how many they are."""
        self.cutting = True
        for task in self._tasks:
            task.cancel()
        return len(self._tasks)

    def cancelled(self) -> ApiError:
        """What the client of this task is told, whose work was cancelled. Raises CancelledError where it was
        not by `cut`."""
        task = asyncio.current_task()
        if not self.cutting or task is None:
            raise asyncio.CancelledError
        task.uncancel()  # what is to be said may still be sent
        return _cut()

    def hold(self, size: int) -> None:
        """Bytes of a body have come. Raises ApiError 503 when too much is held."""
        if self.held_bytes + self.unread_bytes() + size > self._max_bytes:
            raise overloaded(
                f"Bodies under way and answers that nobody took yet have {self._max_bytes} bytes."
            )
        self.held_bytes += size


def _cut() -> ApiError:
    return ApiError(
        503,
        "ServiceUnavailableError",
        "The server ends before the request is answered.",
        retry_after=RETRY_AFTER,
    )
