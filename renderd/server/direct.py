"""Requests that are answered without ASGI: POST to an endpoint whose answers are one piece.

A task, an event and a handful of messages for each request cost more than a derender chunk. Here the work
begins when the body is complete, in the callback that brought its end, and the answer is written at once.
Only what takes long has a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from renderd.server.admission import cut_off
from renderd.server.endpoint import JSON, Answer, Endpoint, Incoming, RawHeaders, text_of
from renderd.server.entrance import CLIENT_GONE, UNAUTHORIZED, Entrance

if TYPE_CHECKING:
    from renderd.server.connection import Connection

_COPIED_BYTES = 65536
"""Of a body that is put behind its head; a longer one is not copied, and still written with it at once."""
_UNHEARD = asyncio.Event()


class ShortWay:
    """Past ASGI into an `Entrance`. `proxies`: addresses whose word on clients is taken, as uvicorn's flag
    has them."""

    def __init__(self, entrance: Entrance, proxies: list[str] | str) -> None:
        self.entrance = entrance
        self.to: Mapping[bytes, Endpoint] = entrance.whole
        """By targets of requests."""
        self._proxies = ProxyHeadersMiddleware(_nothing, proxies)
        self._last: tuple[object, object, bytes] = (None, None, b"")

    def lines(self, given: RawHeaders, added: RawHeaders) -> bytes:
        """The lines of headers: `given` by uvicorn to every answer, which makes them anew each second, and
        `added` by the entrance."""
        last_given, last_added, lines = self._last
        if given is not last_given or added is not last_added:
            lines = _lines(given) + _lines(added) + _lines([JSON])
            self._last = given, added, lines
        return lines

    def look_behind_proxies(self, scope: Any) -> None:
        """Put into `scope` who asks."""
        with suppress(StopIteration):
            nobody: Any = None
            self._proxies(scope, nobody, nobody).send(None)


def _lines(headers: RawHeaders) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    pass


def short_way(settings: uvicorn.Config) -> ShortWay | None:
    """Into the application of an HTTP server. None where there is none: middleware of an operator is to see
    every request."""
    app: Any = settings.app
    return ShortWay(app, settings.forwarded_allow_ips or "") if isinstance(app, Entrance) else None


class DirectCycle:
    """One request and its answer. It stands where uvicorn's protocol has a RequestResponseCycle, and has of
    it what the protocol looks at."""

    __slots__ = (
        "_connection",
        "_endpoint",
        "_incoming",
        "_task",
        "_visit",
        "_way",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "response_started",
    )
    message_event = _UNHEARD

    def __init__(
        self, connection: Connection, way: ShortWay, endpoint: Endpoint, headers: Mapping[bytes, bytes]
    ) -> None:
        self._connection = connection
        self._endpoint = endpoint
        self._way = way
        self._incoming: Incoming | None = None
        self._task: asyncio.Task[None] | None = None
        self.more_body = True
        self.response_started = self.response_complete = self.disconnected = False
        parser, scope = connection.parser, connection.scope
        version = parser.get_http_version()
        self.keep_alive = version != "1.0" and parser.should_keep_alive()
        target = connection.url
        scope["http_version"] = version
        scope["method"] = "POST"
        scope["path"] = target.decode("ascii")
        scope["raw_path"] = target
        scope["query_string"] = b""
        if b"x-forwarded-for" in headers or b"x-forwarded-proto" in headers:
            way.look_behind_proxies(scope)
        self._visit = way.entrance.enter(scope, headers, endpoint.path)  # type: ignore[arg-type]

    def begin(self) -> None:
        """The head has come."""
        waits = self._connection.expect_100_continue
        try:
            if not self._visit.refused:
                self._incoming = self._endpoint.begin(self._visit.headers, self)
                if waits:
                    self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            answer = UNAUTHORIZED
        except Exception as error:
            answer = self._visit.record.run(self._endpoint.failed, error)
        if waits:
            self.keep_alive = False  # nobody knows whether the body will follow
        self._send(answer)

    def on_body(self, chunk: bytes) -> None:
        """A part of the body has come."""
        if self._incoming is None:
            return  # what was refused is not looked at
        try:
            self._incoming.add(chunk)
        except Exception as error:
            self._send(self._visit.record.run(self._endpoint.failed, error))

    def on_message_complete(self) -> None:
        """The body is complete."""
        self.more_body = False
        if self._incoming is not None:
            self._visit.record.run(self._work, self._incoming.take())

    def cancel(self) -> None:
        """See UnderWay."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._send(self._visit.record.run(self._endpoint.failed, cut_off()))

    def lose(self) -> None:
        """The connection has ended."""
        if self._task is None and not self.response_complete:
            self._leave(CLIENT_GONE, 0)

    def _work(self, body: bytes) -> None:
        request_id = text_of(self._visit.headers.get(b"x-request-id"))
        try:
            made = self._endpoint.at_once(body, request_id)
        except Exception as error:
            self._send(self._endpoint.failed(error))
            return
        if made is not None:
            self._send(self._endpoint.answered(made))
            return
        self._task = self._connection.loop.create_task(self._work_long(body, request_id))
        self._connection.tasks.add(self._task)
        self._task.add_done_callback(self._connection.tasks.discard)

    async def _work_long(self, body: bytes, request_id: str | None) -> None:
        try:
            answer = self._endpoint.answered(await self._endpoint.later(body, request_id))
        except (Exception, asyncio.CancelledError) as error:
            answer = self._endpoint.failed(error)
        if self._connection.transport.is_closing():
            self._leave(CLIENT_GONE, 0)
        else:
            self._send(answer)

    def _send(self, answer: Answer) -> None:
        status, body, headers = answer
        connection, visit = self._connection, self._visit
        lines = self._way.lines(connection.server_state.default_headers, visit.added)
        head = b"%b%bcontent-length: %d\r\n" % (STATUS_LINE[status], lines, len(body))
        if headers:
            head += _lines(headers)
        if visit.closes:
            self.keep_alive = False
        if not self.keep_alive:
            head += b"connection: close\r\n"
        transport = connection.transport
        if len(body) < _COPIED_BYTES:
            transport.write(b"%b\r\n%b" % (head, body))
        else:
            transport.writelines((head + b"\r\n", body))
        self.response_started = True
        self._leave(status, len(body))
        if not self.keep_alive:
            transport.close()
        connection.on_response_complete()

    def _leave(self, status: int, length: int) -> None:
        self.response_complete = True
        if self._incoming is not None:
            self._incoming.leave()
            self._incoming = None
        self._way.entrance.leave(self._visit, status, length)
