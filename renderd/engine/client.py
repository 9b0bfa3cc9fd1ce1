"""Client of a tokens-only engine (contract G): generate, stream, abort, health. Bodies are bytes."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from renderd import telemetry
from renderd.engine.events import EventReader
from renderd.engine.failures import EngineFailure, cause_of, lost, said, too_late
from renderd.wire.errors import ErrorResponse

__all__ = ["EngineClient", "EngineFailure", "EventStream", "Timeouts"]

logger = logging.getLogger("renderd.engine")

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"
LARGEST_ANSWER = 256 * 1024 * 1024
"""Bytes of one that does not stream: the candidates of 200,000 tokens, twenty each."""
_LOST = (aiohttp.ClientError, OSError)
"""What a connection may raise. Timeouts of its own are among them."""
_ABORT_SECONDS = 5.0
_REUSE_SECONDS = 3.0
"""How long an unused connection is kept: less than servers keep it (vLLM 5 s), for a request on a connection
that the server is closing is lost."""


class _Idle(Exception):
    """Nothing came for too long."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds to connect, until the first event of a stream, between two; None for any time."""

    connect: float = 5.0
    first_token: float | None = None
    idle: float | None = None


class EngineClient:
    """One engine, by its base URL. Belongs to the event loop that first uses it.

    `api_key`: what it wants to see before it takes a request; None where it wants none.
    """

    def __init__(self, url: str, timeouts: Timeouts | None = None, api_key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.timeouts = timeouts or Timeouts()
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._made: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.Timeout] = set()

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._made is None:
            # How many requests there are is limited where they come in. An engine is a neighbour: a proxy
            # that the environment names is for the world outside, and what compresses holds events back.
            self._made = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=_REUSE_SECONDS, socket_factory=_socket
                ),
                timeout=aiohttp.ClientTimeout(sock_connect=self.timeouts.connect),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept-Encoding", "User-Agent"),
            )
        return self._made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what is left to send, and close all connections."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ABORT_SECONDS)
        if self._made is not None:
            await self._made.close()

    async def generate(self, body: bytes, request_id: str | None = None, limit: float | None = None) -> bytes:
        """The GenerateResponse to a GenerateRequest that does not stream.

        `request_id`: of the request; if given, the engine is told to abort it when this is cancelled or takes
        more than `limit` seconds. Raises EngineFailure.
        """
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                self._timers.add(timer)
                async with await self._post(GENERATE, body) as response:
                    return await _whole(response)
        except TimeoutError:
            self.abort_later(request_id)
            raise too_late("The engine did not answer in time.") from None
        except (*_LOST, ValueError) as error:
            raise lost(error) from error
        except asyncio.CancelledError:
            self.abort_later(request_id)
            raise
        finally:
            self._timers.discard(timer)

    def give_up(self) -> None:
        """End all that `generate` waits for, as when it takes too long."""
        now = asyncio.get_running_loop().time()
        for timer in self._timers:
            if not timer.expired():
                timer.reschedule(now)

    async def stream(self, body: bytes, request_id: str | None = None) -> EventStream:
        """The events of a GenerateRequest that streams. Returns when the first has come.

        `request_id`: of the request; if given, the engine is told to abort it when this is cancelled or takes
        too long, and when the stream is closed early. Raises EngineFailure.
        """
        stream: EventStream | None = None
        try:
            async with asyncio.timeout(self.timeouts.first_token):
                stream = EventStream(self, await self._post(GENERATE, body), request_id)
                await stream.begin()
        except TimeoutError:
            self._drop(stream, request_id)
            raise too_late("The engine sent no token in time.") from None
        except asyncio.CancelledError:
            self._drop(stream, request_id)
            raise
        return stream

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End requests by the ids that the answers carry; unknown ones are ignored. Raises EngineFailure."""
        body = msgspec.json.encode({"request_ids": list(request_ids)})
        try:
            async with await self._post(ABORT, body) as response:
                await response.read()
        except _LOST as error:
            raise lost(error) from error

    async def illness(self, limit: float) -> str | None:
        """Why GET /health is not answered with 200 within so many seconds; None where it is."""
        try:
            async with asyncio.timeout(limit), self._http.get(f"{self.url}/health") as response:
                return None if response.status == 200 else f"GET /health was answered {response.status}"
        except TimeoutError:  # a kind of OSError
            return f"GET /health was not answered in {limit:g} seconds"
        except _LOST as error:
            return cause_of(error)

    def abort_later(self, request_id: str | None) -> None:
        """Have the engine end a request, by the request's own id, without waiting for it."""
        if request_id is not None:
            self.spawn(self._abort(f"generate-tokens-{request_id}"))

    async def _abort(self, answer_id: str) -> None:
        try:
            async with asyncio.timeout(_ABORT_SECONDS):
                await self.abort([answer_id])
        except (EngineFailure, TimeoutError) as error:
            logger.warning("engine %s: %s was not aborted: %s", self.url, answer_id, error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for. It has to end by itself, and raise nothing."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _drop(self, stream: EventStream | None, request_id: str | None) -> None:
        if stream is not None:
            stream.close()
        else:
            self.abort_later(request_id)

    async def _post(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        """The answer, which is 200, when its head has come. Raises EngineFailure."""
        try:
            headers = {**self._headers, **telemetry.trace()}
            response = await self._http.post(
                self.url + path, data=body, headers=headers, allow_redirects=False
            )
            if response.status == 200:
                return response
            async with response:
                after = response.headers.get("Retry-After", "")
                retry_after = int(after) if after.isascii() and after.isdigit() and len(after) < 10 else None
                raise said(await _whole(response), response.status, retry_after)
        except (*_LOST, ValueError) as error:
            raise lost(error) from error


class EventStream:
    """The data of a stream's events, without the closing [DONE]. The first is here already.

    `close` has to be called in any case. While nobody iterates nothing is read but some 100 KB.
    """

    def __init__(
        self, client: EngineClient, response: aiohttp.ClientResponse, request_id: str | None
    ) -> None:
        self._client = client
        self._response = response
        self._request_id = request_id
        self._reader = EventReader()
        self._events: deque[bytes] = deque()
        self._ended = False
        self._begun = False
        self._loop = asyncio.get_running_loop()
        self._waits_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pending(self) -> bool:
        """Whether the next event or the end is here."""
        return bool(self._events) or self._ended

    async def begin(self) -> None:
        """Wait for the first event. Raises EngineFailure."""
        await self._fill()
        if self._events and self._events[0].startswith(b'{"error"'):
            failure = self._failure(self._events[0])
            self._end()
            raise failure
        self._begun = True
        if self._client.timeouts.idle is not None and not self._ended:
            self._timer = self._loop.call_later(self._client.timeouts.idle, self._watch)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Raises EngineFailure on an error event, and when the stream does not end with [DONE]."""
        if not self._events:
            await self._fill()
            if not self._events:
                raise StopAsyncIteration
        event = self._events.popleft()
        if event.startswith(b'{"error"'):
            self._end()
            self._events.clear()
            raise self._failure(event)
        return event

    def close(self) -> None:
        """Let go of the connection. Before the end, the engine is told to abort the request."""
        if not self._ended:
            self._end()
            self._client.abort_later(self._request_id)

    async def _fill(self) -> None:
        """Wait until there are events, or no more will come."""
        while not self._events and not self._ended:
            self._waits_since = self._loop.time()
            try:
                piece = await self._response.content.readany()
                if not piece:
                    raise EOFError("the engine's stream ended without [DONE]")
                self._add(piece)
            except _Idle:
                self.close()
                raise too_late("The engine fell silent.", self._begun) from None
            except (*_LOST, EOFError, ValueError) as error:
                self._end()
                raise lost(error, self._begun) from error
            finally:
                self._waits_since = None

    def _add(self, piece: bytes) -> None:
        events = self._reader.feed(piece)
        if events and events[-1] == b"[DONE]":
            events.pop()
            self._end(whole=True)
        self._events.extend(events)

    def _watch(self) -> None:
        """One timer for the whole stream: setting one an event would cost more than reading it."""
        idle = self._client.timeouts.idle
        assert idle is not None
        waited = 0.0 if self._waits_since is None else self._loop.time() - self._waits_since
        if waited >= idle:
            self._response.content.set_exception(_Idle())
        else:
            self._timer = self._loop.call_later(idle - waited, self._watch)

    def _end(self, whole: bool = False) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if not whole:
            self._response.close()
        elif not self._response.content.at_eof():
            # The end of the body comes in a packet of its own. Then the connection may be used again.
            self._client.spawn(_read_end(self._response))

    def _failure(self, event: bytes) -> EngineFailure:
        try:
            code = msgspec.json.decode(event, type=ErrorResponse).error.code
        except (msgspec.DecodeError, RecursionError) as wrong:
            return lost(wrong, self._begun)
        return said(event, code if 400 <= code < 600 else 502, begun=self._begun)


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises ValueError for one that is too large."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > LARGEST_ANSWER:
            response.close()
            raise ValueError(f"an answer has more than {LARGEST_ANSWER} bytes")
        pieces.append(piece)
    return b"".join(pieces)


async def _read_end(response: aiohttp.ClientResponse) -> None:
    with suppress(*_LOST, TimeoutError):
        async with asyncio.timeout(1.0):
            await response.content.readany()
    response.release()


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """One on which a host that is gone without a word is noticed within half a minute."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
