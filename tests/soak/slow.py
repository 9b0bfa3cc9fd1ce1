"""Clients that are slow, stop, or go away, some hundreds at a time, beside others that want their answers."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from .connection import Call, Connection, LostError
from .report import Report, quantile
from .servers import Replica, replica, until

SLOW = 300
"""At a time."""
VANISHING = 50
"""At a time, each again and again."""
SECONDS = 25.0
ORDINARY = Call("/v1/chat/completions/render", b'{"messages":[{"role":"user","content":"Hello there"}]}')
LONG = Call("/tokenize", b'{"prompt":"%b","return_token_strs":true}' % (b"some words and more " * 5000))
"""Its answer is larger than what the system's buffers hold."""

Stage = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


async def drip_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    """A byte a second from the first one on."""
    for byte in ORDINARY.encoded(host):
        writer.write(bytes([byte]))
        await asyncio.sleep(1)


async def drip_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    """A whole head, then a byte a second."""
    whole = ORDINARY.encoded(host)
    writer.write(whole[: -len(ORDINARY.body)])
    for byte in ORDINARY.body:
        writer.write(bytes([byte]))
        await asyncio.sleep(1)


async def half_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    """Half of a body, then nothing."""
    writer.write(ORDINARY.encoded(host)[: -len(ORDINARY.body) // 2])
    await asyncio.sleep(3600)


async def unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    """An answer that nobody reads."""
    writer.write(LONG.encoded(host))
    await asyncio.sleep(3600)


async def endless_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    """Ever more header lines."""
    writer.write(b"POST /tokenize HTTP/1.1\r\nHost: x\r\n")
    while True:
        writer.write(b"X-More: %b\r\n" % (b"a" * 1000))
        await writer.drain()
        await asyncio.sleep(0.01)


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    """A connection without a request."""
    await asyncio.sleep(3600)


async def vanish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    """Some of a request, or all of it and some of its answer; then gone."""
    call = random.choice((ORDINARY, LONG))
    whole = call.encoded(host)
    writer.write(whole[: random.choice((0, 1, 30, len(whole) - len(call.body), len(whole) // 2, len(whole)))])
    await writer.drain()
    await asyncio.sleep(random.choice((0.0, 0.0, 0.001, 0.05)))
    if random.random() < 0.3:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):  # wait_for of Python 3.11 may swallow that it is cancelled
                await reader.read(100)


KINDS: tuple[Stage, ...] = (drip_head, drip_body, half_body, unread, endless_head, nothing)


@asynccontextmanager
async def opened(
    url: str, small: bool = False
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that ends without good manners. `small`: it takes little of an answer."""
    name, port = url.removeprefix("http://").split(":")
    plain = socket.socket()
    plain.setblocking(False)
    if small:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.get_running_loop().sock_connect(plain, (name, int(port)))
    reader, writer = await asyncio.open_connection(sock=plain, limit=4096)
    try:
        yield reader, writer
    finally:
        if random.random() < 0.5:  # a reset instead of an end
            plain_socket = writer.get_extra_info("socket")
            with suppress(OSError):
                plain_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def slow_client(url: str, kind: Stage) -> None:
    """Until it is cancelled. A server may close the connection; then there is another one."""
    while True:
        with suppress(OSError):
            async with opened(url, small=True) as (reader, writer):
                await kind(reader, writer, "x")
        await asyncio.sleep(0.5)


async def vanishing_client(url: str) -> None:
    """Again and again, until it is cancelled."""
    while True:
        with suppress(OSError):
            async with opened(url) as (reader, writer):
                await vanish(reader, writer, "x")
        await asyncio.sleep(0.2)


async def ordinary(url: str, seconds: float, failed: list[str]) -> list[float]:
    """Calls, some a second on each of four connections. Returns how long each took."""
    taken: list[float] = []

    async def line() -> None:
        connection, end = Connection(url, timeout=30), time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                reply = await connection.ask(ORDINARY)
                if reply.status != 200:
                    failed.append(f"{reply.status} {reply.body!r}")
            except (LostError, OSError) as error:
                failed.append(repr(error))
            taken.append(time.monotonic() - began)
            await asyncio.sleep(0.02)
        connection.close()

    await asyncio.gather(*(line() for _ in range(4)))
    return taken


async def run(report: Report, scale: float) -> None:
    """The whole part. `scale`: of the number of clients and of the time."""
    report.part("Slow and vanishing clients")
    seconds = max(SECONDS * scale, 5.0)
    with replica("slow", "--workers", "2") as server:
        await _run(
            report, server, seconds, max(int(SLOW * min(scale, 1.0)), 30), max(int(VANISHING * scale), 10)
        )


async def _run(report: Report, server: Replica, seconds: float, slow: int, vanishing: int) -> None:
    failed: list[str] = []
    await ordinary(server.url, 2, failed)
    before = await ordinary(server.url, max(seconds / 4, 3.0), failed)
    files, memory = server.open_files(), server.memory()
    clients = [asyncio.create_task(slow_client(server.url, KINDS[n % len(KINDS)])) for n in range(slow)]
    clients += [asyncio.create_task(vanishing_client(server.url)) for _ in range(vanishing)]
    await asyncio.sleep(2)
    early = server.memory()
    during = await ordinary(server.url, seconds, failed)
    late = server.memory()
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    free = await asyncio.to_thread(until, lambda: server.metric("renderd_requests_in_flight") == 0, 20)
    back = await asyncio.to_thread(until, lambda: server.open_files() <= files + 2, 20)
    report.figure("slow clients, vanishing ones at a time", f"{slow}, {vanishing}")
    report.figure("ordinary requests", f"{len(before)} without them, {len(during)} beside them")
    report.figure(
        "median of ordinary requests", f"{_ms(before, 0.5)} without them, {_ms(during, 0.5)} beside them"
    )
    report.figure(
        "p99 of ordinary requests", f"{_ms(before, 0.99)} without them, {_ms(during, 0.99)} beside them"
    )
    report.figure(
        "memory before, at their start, at their end", f"{memory >> 20}, {early >> 20}, {late >> 20} MB"
    )
    report.promise(not failed, "no ordinary request failed", *failed)
    slowed = quantile(during, 0.5) <= 2 * quantile(before, 0.5) + 0.005
    report.promise(slowed, "their median stayed within twice its time and 5 ms")
    report.promise(free, "afterwards no request is in flight", server.metric("renderd_requests_in_flight"))
    report.promise(back, "afterwards no file is open", f"{files} before, {server.open_files()} after")
    report.promise(late <= 1.1 * early + (8 << 20), "memory stays while they wait")
    report.promise(not server.faults(), "no worker was lost, the log has no defect", *server.faults())


def _ms(seconds: list[float], share: float) -> str:
    return f"{quantile(seconds, share) * 1e3:.1f} ms"
