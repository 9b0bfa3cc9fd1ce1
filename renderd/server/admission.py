"""How much a worker takes on: requests under way and bytes of their bodies.

What is over a limit is refused at once with 503 and Retry-After, so that a load balancer asks another
replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from renderd.server.config import ServerConfig
from renderd.wire.errors import RETRY_AFTER, ApiError, overloaded


class UnderWay(Protocol):
    """What works on a request, such as a task."""

    def cancel(self) -> object:
        """The request is not going to be answered in full: its client is to be told."""


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
        self._under_way: set[UnderWay] = set()
        self.unread_bytes: Callable[[], int] = lambda: 0

    def enter(self, request: UnderWay) -> None:
        """A request has come. Raises ApiError 503 when there are too many; else `leave` has to follow."""
        if self.cutting:
            raise cut_off()
        if self.in_flight >= self._max_requests:
            raise overloaded(f"{self._max_requests} requests are under way, which is as many as may be.")
        self.in_flight += 1
        self._under_way.add(request)

    def leave(self, request: UnderWay, held: int) -> None:
        """A request is answered. `held`: bytes that it held."""
        self.in_flight -= 1
        self._under_way.discard(request)
        self.held_bytes -= held

    def cut(self) -> int:
        """Cancel the requests that are under way. Returns how many they are."""
        self.cutting = True
        requests = list(self._under_way)
        for request in requests:
            request.cancel()
        return len(requests)

    def cancelled(self) -> ApiError:
        """What the client of this task is told, whose work was cancelled. Raises CancelledError where it was
        not by `cut`."""
        task = asyncio.current_task()
        if not self.cutting or task is None:
            raise asyncio.CancelledError
        task.uncancel()  # what is to be said may still be sent
        return cut_off()

    def hold(self, size: int) -> None:
        """Bytes of a body have come. Raises ApiError 503 when too much is held."""
        if self.held_bytes + self.unread_bytes() + size > self._max_bytes:
            raise overloaded(
                f"Bodies under way and answers that nobody took yet have {self._max_bytes} bytes."
            )
        self.held_bytes += size

    def release(self, size: int) -> None:
        """Bytes of a body are not needed any more."""
        self.held_bytes -= size


def cut_off() -> ApiError:
    """Of a request that is not going to be answered."""
    return ApiError(
        503,
        "ServiceUnavailableError",
        "The server ends before the request is answered.",
        retry_after=RETRY_AFTER,
    )
