"""What of an answer is written at once."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from renderd.server.whole import Whole


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Flow:
    write_paused = False


def written(messages: list[Message], method: str = "POST", keep_alive: bool = True) -> Transport:
    """What the connection of an application is told that sends these messages."""
    transport: Any = Transport()
    flow: Any = Flow()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async def answer() -> None:
        cycle = RequestResponseCycle(
            scope={"method": method},  # type: ignore[typeddict-item]
            transport=transport,
            flow=flow,
            logger=logging.getLogger("uvicorn.error"),
            access_logger=logging.getLogger("uvicorn.access"),
            access_log=False,
            default_headers=[(b"server", b"x")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=lambda: None,
        )
        whole: Any = Whole(app, cycle)
        await cycle.run_asgi(whole)

    asyncio.run(answer())
    assert isinstance(transport, Transport)
    return transport


def start(*headers: tuple[bytes, bytes]) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def body(content: bytes, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


HEAD = b"HTTP/1.1 200 OK\r\nserver: x\r\n"


def test_head_and_body_at_once() -> None:
    transport = written([start((b"content-length", b"2")), body(b"{}")])
    assert transport.written == [HEAD + b"content-length: 2\r\n\r\n{}"]
    assert not transport.closed


@pytest.mark.parametrize("said", [(), ((b"connection", b"close"),)], ids=["by the client", "by the answer"])
def test_connections_are_closed(said: tuple[tuple[bytes, bytes], ...]) -> None:
    transport = written([start((b"content-length", b"2"), *said), body(b"{}")], keep_alive=bool(said))
    assert transport.written == [HEAD + b"content-length: 2\r\nconnection: close\r\n\r\n{}"]
    assert transport.closed


@pytest.mark.parametrize(
    "messages, method",
    [
        ([start(), body(b"a", True), body(b"b")], "GET"),
        ([start((b"content-length", b"2")), body(b"a", True), body(b"b")], "GET"),
        ([start((b"content-length", b"70000")), body(b"a" * 70000)], "GET"),
        ([start((b"content-length", b"2")), body(b"")], "HEAD"),
    ],
    ids=["stream", "parts", "long", "HEAD"],
)
def test_others_go_part_by_part(messages: list[Message], method: str) -> None:
    parts = written(messages, method).written
    assert parts[0].startswith(HEAD) and parts[0].endswith(b"\r\n\r\n")
    assert [part for part in parts[1:] if part] or method == "HEAD"


def test_of_an_answer_that_fails_nothing_is_sent() -> None:
    transport = written([start((b"content-length", b"2")), {"type": "http.response.body", "body": None}])
    assert b"".join(transport.written).startswith(b"HTTP/1.1 500 ")


def test_a_body_of_another_length_is_refused() -> None:
    transport = written([start((b"content-length", b"2")), body(b"{}}")])
    assert transport.closed
    assert b"{}}" not in b"".join(transport.written)
