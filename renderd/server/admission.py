"""How much a worker takes on: requests under way and bytes of their bodies.

What is over a limit is refused at once with 503 and Retry-After, so that a load balancer asks another
replica.
"""

from __future__ import annotations

from collections.abc import Callable

from renderd.server.config import ServerConfig
from renderd.wire.errors import overloaded


class Admission:
    """What one worker holds.

    `in_flight`: requests whose answers are not sent; `held_bytes`: of their bodies; `unread_bytes`: of
    answers that their clients have still to take. `draining`: the worker is about to end: what comes is
    answered, and told not to come again on this connection.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._max_requests = config.max_concurrent_requests
        self._max_bytes = config.max_pending_bytes
        self.in_flight = 0
        self.held_bytes = 0
        self.draining = False
        self.unread_bytes: Callable[[], int] = lambda: 0

    def enter(self) -> None:
        """A request has come. Raises ApiError 503 when there are too many; else `leave` has to follow."""
        if self.in_flight >= self._max_requests:
            raise overloaded(f"{self._max_requests} requests are under way, which is as many as may be.")
        self.in_flight += 1

    def leave(self, held: int) -> None:
        """The request is answered. `held`: bytes that it held."""
        self.in_flight -= 1
        self.held_bytes -= held

    def hold(self, size: int) -> None:
        """Bytes of a body have come. Raises ApiError 503 when too much is held."""
        if self.held_bytes + self.unread_bytes() + size > self._max_bytes:
            raise overloaded(
                f"Bodies under way and answers that nobody took yet have {self._max_bytes} bytes."
            )
        self.held_bytes += size
