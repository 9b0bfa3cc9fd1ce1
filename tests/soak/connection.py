"""HTTP/1.1 over a connection that stays open, with as little work for the client as can be."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast

from renderd.conformance.bench.replies import Replies


class Call(NamedTuple):
    """A POST request. `head`: further lines of its head, each with its line end."""

    path: str
    body: bytes
    head: str = "Content-Type: application/json\r\n"

    def encoded(self, host: str) -> bytes:
        """As it goes over the wire."""
        first = f"POST {self.path} HTTP/1.1\r\nHost: {host}\r\n"
        return f"{first}{self.head}Content-Length: {len(self.body)}\r\n\r\n".encode("latin-1") + self.body


class Reply(NamedTuple):
    status: int
    body: bytes


class LostError(Exception):
    """The connection ended before the answer did, or there was none in time."""


class Connection(asyncio.Protocol):
    """One request at a time. Opened when it is needed, and again after the server has closed it."""

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        self.host = url.removeprefix("http://")
        self._timeout = timeout
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._replies = Replies()

    async def ask(self, call: Call) -> Reply:
        """The answer. Raises LostError; OSError when nobody listens."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            name, port = self.host.split(":")
            await loop.create_connection(lambda: self, name, int(port))
        assert self._transport is not None
        self._answer = loop.create_future()
        timer = loop.call_later(self._timeout, self._fail, "no answer in time")
        try:
            self._transport.write(call.encoded(self.host))
            return await self._answer
        finally:
            timer.cancel()
            self._answer = None

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._replies = Replies()

    def data_received(self, data: bytes) -> None:
        try:
            reply = self._replies.feed(data)
        except ValueError as error:
            self._fail(str(error))
            return
        if reply is not None:
            head, body = reply
            if b"\r\nconnection: close" in head.lower():
                self.close()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(Reply(int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(f"connection lost: {exc}")

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(LostError(why))
            self.close()
