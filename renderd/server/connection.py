"""HTTP/1.1 as uvicorn speaks it, with bounds to what a client may make its process hold and wait for, and a
shorter way to the endpoints whose answers are one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from renderd.server.direct import DirectCycle, ShortWay
from renderd.wire.errors import ApiError

MAX_HEAD_BYTES = 65536
"""Of a request's first line and headers; also of whatever else is no body, such as what stands around chunks
of one. More is read only where it came together with the end of the head."""


class Connection(HttpToolsProtocol):
    """A connection of a client. It is one of the `Connections` of its server."""

    cycle: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert isinstance(self.connections, Connections)
        self._unread = self.connections.unread
        self._short_way = self.connections.short_way
        self._direct: DirectCycle | None = None
        self._answered = False
        self._no_body = 0
        self._owed: tuple[Any, str] | None = None
        self._owed_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(self)

    def data_received(self, data: bytes) -> None:
        self._no_body += len(data)
        self._answered = False
        super().data_received(data)
        if self._no_body > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, f"The head of the request is larger than {MAX_HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()  # the request before may have been answered meanwhile
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._no_body = 0
        self._direct = None
        way = self._short_way
        endpoint = None if way is None else way.to.get(self.url)
        if (
            way is None
            or endpoint is None
            or self.parser.get_method() != b"POST"
            or b"origin" in (headers := dict(self.headers))
            or self._answered  # a client that sends many requests at once lets others in between
            or self.flow.write_paused  # it does not take its answers
            or not (self.cycle is None or self.cycle.response_complete)
            or self.parser.should_upgrade()
        ):
            super().on_headers_complete()
            if self.expect_100_continue and self.cycle is not None:
                self.cycle.keep_alive = False  # where it is refused, nobody knows whether the body follows
        else:
            self._answered = True
            self._direct = self.cycle = DirectCycle(self, way, endpoint, headers)
            self._direct.begin()
        self.headers = []  # nobody reads those behind a body

    def on_body(self, body: bytes) -> None:
        self._no_body = 0
        if self._direct is None:
            super().on_body(body)
        else:
            self._direct.on_body(body)

    def on_message_complete(self) -> None:
        self._no_body = 0
        if self._direct is None:
            super().on_message_complete()
        else:
            self._direct.on_message_complete()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """The client sends no more. Whoever waits for an answer that takes long gets it, unless TLS ends with
        either side; ASGI applications are told that the client is gone."""
        direct = self._direct
        if direct is None or direct.more_body or direct.response_complete or self.scheme == "https":
            return None
        direct.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._direct is not None:
            self._direct.lose()
            # They know each other: the memory of a request would wait for the collector.
            self._direct = self.cycle = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.add(self)

    def resume_writing(self) -> None:
        self._unread.discard(self)
        super().resume_writing()

    def hurry(self, now: float, seconds: float) -> None:
        """To be called now and then: ends the connection of a client that took more than `seconds` to send a
        request or to take its answer. `now`: by the loop's clock."""
        owed = self._owes()
        if owed is None or owed != self._owed:
            self._owed, self._owed_since = owed, now
        elif now - self._owed_since > seconds:
            if owed[1] == "request":
                self._refuse(408, f"The request took more than {seconds:g} seconds to arrive.")
            else:
                self.transport.abort()

    def _owes(self) -> tuple[Any, str] | None:
        """What the client has to do next, for which request; None where it is the server's turn."""
        cycle = self.cycle
        if self.flow.write_paused:
            return cycle, "answer"
        if self.pipeline:
            return None
        if cycle is not None and not cycle.response_complete:
            return (cycle, "request") if cycle.more_body else None
        # Between two requests uvicorn has a timer of its own, which the first byte of a request stops.
        return (cycle, "request") if self.timeout_keep_alive_task is None else None

    def _refuse(self, status: int, message: str) -> None:
        """Say so, if it can be said, and close."""
        cycle = self.cycle
        began = self._no_body > 0 or (cycle is not None and not cycle.response_complete)
        if not began:
            self.transport.close()
        elif self.pipeline or (cycle is not None and cycle.response_started and not cycle.response_complete):
            self.transport.abort()
        else:
            phrase = HTTPStatus(status).phrase
            body = ApiError(status, phrase.replace(" ", "") + "Error", message).body()
            head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            self.transport.close()


class _Flow(FlowControl):
    """Reads no further while requests wait for their turn: nobody counts what they take."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.transport)
        self._connection = connection

    def resume_reading(self) -> None:
        if not self._connection.pipeline:
            super().resume_reading()


class Connections(set[Any]):
    """Those of a process. `tell`: called with their number. `unread`: those whose clients have still to take
    what was written. `short_way`: past ASGI, None where there is none."""

    def __init__(self, tell: Callable[[int], None], short_way: ShortWay | None = None) -> None:
        super().__init__()
        self._tell = tell
        self.short_way = short_way
        self.unread: set[Connection] = set()

    def add(self, connection: Any) -> None:
        super().add(connection)
        self._tell(len(self))

    def discard(self, connection: Any) -> None:
        super().discard(connection)
        self.unread.discard(connection)
        self._tell(len(self))

    def unread_bytes(self) -> int:
        """Of answers that are written and not taken."""
        return sum(c.transport.get_write_buffer_size() for c in self.unread) if self.unread else 0

    def hurry(self, seconds: float) -> None:
        """See Connection."""
        now = asyncio.get_running_loop().time()
        for connection in list(self):
            connection.hurry(now, seconds)
