"""Answers that are sent whole: head and body in one packet, by one system call."""

from __future__ import annotations

from typing import Any

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

_MOST_BYTES = 65536
"""Of a body; copying a longer one behind its head would take as long as the other system call."""


class Whole:
    """An application as one request of uvicorn's sees it.

    uvicorn writes the head of an answer before its body. Where the head says how long the body is, it waits
    here, and if the body then comes in one piece both are written at once. Everything else goes uvicorn's
    way.
    """

    __slots__ = ("_app", "_cycle", "_size", "_start")

    def __init__(self, app: Any, cycle: Any) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Message | None = None
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, self.send)

    async def send(self, message: Message) -> None:
        """What the application calls."""
        start, self._start = self._start, None
        if start is None:
            if message["type"] == "http.response.start" and self._waits(message):
                self._start = message
                return
        elif len(message.get("body", b"")) == self._size and not message.get("more_body", False):
            await self._write(start, message.get("body", b""))
            return
        else:
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _waits(self, start: Message) -> bool:
        """Whether the body may soon follow in one piece, of `_size` bytes."""
        length = next((value for name, value in start["headers"] if name == b"content-length"), b"")
        self._size = int(length) if length.isdigit() else _MOST_BYTES
        return self._size < _MOST_BYTES and self._cycle.scope["method"] != "HEAD"

    async def _write(self, start: Message, body: bytes) -> None:
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        parts = [STATUS_LINE[start["status"]]]
        closes = False
        for name, value in (*cycle.default_headers, *start["headers"]):
            parts += (name, b": ", value, b"\r\n")
            closes = closes or (name == b"connection" and b"close" in value)
        if closes:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", body)
        cycle.transport.write(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
