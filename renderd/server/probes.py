"""Whether the server lives and is ready: what its processes know of it, and who answers while it loads."""

from __future__ import annotations

import mmap
import os

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from renderd.server.endpoint import RawHeaders
from renderd.server.entrance import path_below_root
from renderd.server.metrics import Metrics
from renderd.wire.api import Readiness
from renderd.wire.errors import ApiError

LOADING, SERVING, DRAINING = range(3)
RETRY_AFTER = 2
"""Seconds after which a client may come again while the model is loaded."""


class State:
    """What the processes of a server know of it, in memory that they share. The supervisor writes it, and
    each process how many connections it has.

    `phase`: LOADING, SERVING or DRAINING. Place 0 is the supervisor's.
    """

    def __init__(self, places: int) -> None:
        self._numbers = memoryview(mmap.mmap(-1, 4 * (1 + 3 * places))).cast("i")
        self._pids = self._numbers[1 : 1 + places]
        self._serving = self._numbers[1 + places : 1 + 2 * places]
        self._connections = self._numbers[1 + 2 * places :]
        self.set_process(0, os.getpid())

    @property
    def phase(self) -> int:
        return int(self._numbers[0])

    @phase.setter
    def phase(self, phase: int) -> None:
        self._numbers[0] = phase

    def set_process(self, place: int, pid: int) -> None:
        """A process began at this place, or with pid 0: it has ended. It does not serve yet."""
        self._pids[place] = pid
        self._serving[place] = self._connections[place] = 0

    def set_serving(self, place: int) -> None:
        """The process at this place serves requests."""
        self._serving[place] = 1

    def set_connections(self, place: int, count: int) -> None:
        """The process at this place has so many."""
        self._connections[place] = count

    def lead(self, place: int, more: int) -> int:
        """How many connections the process at this place has, and `more`, beyond what another that serves
        has."""
        own = self._connections[place] + more
        counts = zip(self._serving, self._connections, strict=True)
        others = [has for at, (serves, has) in enumerate(counts) if serves and at != place]
        return own - min(others, default=own)

    def pids(self) -> list[int]:
        """Of all processes that run, the supervisor first."""
        return [pid for pid in self._pids if pid]

    @property
    def has_worker(self) -> bool:
        """Whether a process serves requests."""
        return any(self._serving)

    def not_ready(self) -> str | None:
        """Why no requests should be sent here; None when they may be."""
        if self.phase != SERVING:
            return "draining" if self.phase == DRAINING else "loading"
        return None if self.has_worker else "no worker"


def readiness(reason: str | None) -> Readiness:
    """The body of /health/ready."""
    return Readiness("ready" if reason is None else "not ready", reason)


class ProbeApp:
    """Answers probes and nothing else, in a process that neither loads nor works.

    `metrics`: for /metrics, None where it is not told. Paths that are none of these: 404, or 503 while the
    server loads.
    """

    def __init__(self, state: State, metrics: Metrics | None = None, root_path: str = "") -> None:
        self._state = state
        self._metrics = metrics
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass  # who is answered before the body is read may see no answer
        scope["root_path"] = self._root_path
        path = path_below_root(scope)
        if path == "/metrics" and self._metrics is not None:
            response: ASGIApp = self._metrics.exposition()
            await response(scope, receive, send)
            return
        status, headers, body = self._answer(path)
        headers = [*headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})

    def _answer(self, path: str) -> tuple[int, RawHeaders, bytes]:
        json = [(b"content-type", b"application/json")]
        if path == "/health/live":
            return 200, json, b'{"status":"live"}'
        if path == "/health/ready":
            reason = self._state.not_ready()
            return 200 if reason is None else 503, json, msgspec.json.encode(readiness(reason))
        if self._state.phase == LOADING:
            error = ApiError(503, "ServiceUnavailableError", "The model is being loaded.")
            return 503, [*json, (b"retry-after", b"%d" % RETRY_AFTER)], error.body()
        if path in ("/health", "/ping"):
            return 200, [], b""
        return 404, json, b'{"detail":"Not Found"}'
