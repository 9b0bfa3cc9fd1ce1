"""Work that takes long: processes of each worker do it, so that nothing else waits for it.

Threads would not do: the encoder keeps Python from running anything else while it works, for a millisecond or
more on a long prompt. A worker forks these processes before it begins to serve, and speaks to each over a
pair of sockets, one question at a time. When one dies, the worker does without and ends as soon as it has
nothing to do; the supervisor replaces both.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from renderd import telemetry
from renderd.server.children import Children, Pipes
from renderd.server.config import ServerConfig
from renderd.wire.errors import ApiError, bad_request, internal_error, overloaded, scrub

logger = logging.getLogger("renderd.server")

Handler = Callable[[bytes, str | None], bytes]
"""Body and header X-Request-Id -> body of the 200 answer. Raises ApiError."""

_PREFIX = 8
"""Bytes that say how long a question or an answer is."""
_BUFFER_BYTES = 1 << 20
_HUNG_SECONDS = 300.0
"""A process that works on one question for longer is taken for hung, and killed."""


class _Question(msgspec.Struct, array_like=True):
    """A body for the route `path`; no path: take the faster encoder, and answer nothing. `asked`: when, by
    telemetry's clock. `log_id`: the request's id in the log."""

    path: str
    body: bytes = b""
    request_id: str | None = None
    asked: float = 0.0
    log_id: str = ""


class _Refusal(msgspec.Struct, array_like=True):
    status: int
    type: str
    message: str
    param: str | None
    retry_after: int | None


class _Reply(msgspec.Struct, array_like=True):
    """The body of the answer, or why there is none; and what the work took and met."""

    body: bytes
    refusal: _Refusal | None
    noted: telemetry.Noted


_ENCODE = msgspec.msgpack.Encoder().encode
_READ_QUESTION = msgspec.msgpack.Decoder(_Question).decode
_READ_REPLY = msgspec.msgpack.Decoder(_Reply).decode


def answer(handler: Handler, body: bytes, request_id: str | None) -> bytes:
    """What a handler makes of a body. Raises ApiError."""
    try:
        return handler(body, request_id)
    except (UnicodeEncodeError, OverflowError) as error:
        # JSON can spell lone surrogates and numbers of any size. Most fields are never looked at closely
        # enough to mind; where one has to be written out or stored, this is what the client sent.
        raise bad_request(f"The request holds a value that cannot be used: {error}") from None
    except RecursionError:  # where the work goes deeper than reading the body did
        raise bad_request("The request is nested too deeply to be used.") from None


class LongWork:
    """The processes of one worker, and the questions that wait for them. `handlers`: by path of a route.

    `broken`: a process has died, and this worker should end. Where there is none, as then and in tests of the
    application alone, the event loop does the work.
    """

    def __init__(self, config: ServerConfig, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._max_seconds = config.max_queue_seconds
        self._helpers: list[_Helper] = []
        self._idle: list[_Helper] = []
        self._asking: set[asyncio.Task[bytes]] = set()
        self._waiting: deque[asyncio.Future[_Helper | None]] = deque()
        self.broken = False

    @property
    def queued(self) -> int:
        """Questions that wait for a process."""
        return sum(not future.done() for future in self._waiting)

    def start(
        self,
        count: int,
        enter: Callable[[int], None],
        noted: Callable[[], None],
        take_faster: Callable[[], None],
    ) -> list[int]:
        """Fork `count` processes. Returns their ids.

        `enter`: called first in each, with its number; `noted`: after each answer; `take_faster`: see there.
        """
        children = Children()
        pids = []
        for number in range(count):
            ours, theirs = socket.socketpair()
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

            self._helpers.append(_Helper(ours))

            def work(pipes: Pipes, number: int = number, theirs: socket.socket = theirs) -> None:
                for helper in self._helpers:
                    helper.end.close()  # while one of these is open, the worker seems to live
                enter(number)
                self._serve(theirs, noted, take_faster)

            self._helpers[-1].pid = children.fork(work).pid
            pids.append(self._helpers[-1].pid)
            theirs.close()
        self._idle = list(self._helpers)
        return pids

    def take_faster(self) -> None:
        """The faster encoder is exact: the processes take it."""
        for helper in self._helpers:
            helper.tell(_ENCODE(_Question("")))

    async def do(self, path: str, body: bytes, request_id: str | None) -> bytes:
        """The answer of the route `path` to a body. Raises ApiError, 503 when it waited too long."""
        record, asked = telemetry.current() or telemetry.Record(), telemetry.clock()
        helper = await self._next()
        if helper is None:
            return answer(self._handlers[path], body, request_id)
        question = _ENCODE(_Question(path, body, request_id, asked, record.request_id))
        asking = asyncio.get_running_loop().create_task(self._ask(helper, question))
        self._asking.add(asking)
        asking.add_done_callback(self._on_reply)
        # Whoever asked may go away; the process goes on, and is nobody else's before it has answered.
        reply = _READ_REPLY(await asyncio.shield(asking))
        record.take(reply.noted)
        if reply.refusal is not None:
            raise ApiError(*msgspec.structs.astuple(reply.refusal))
        return reply.body

    def _on_reply(self, asking: asyncio.Task[bytes]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # if nobody waits any more, nobody else looks at it

    async def _ask(self, helper: _Helper, question: bytes) -> bytes:
        """The reply of a process, which is free again then. Raises ApiError 503 when it has died."""
        try:
            reply = await asyncio.wait_for(helper.ask(question), _HUNG_SECONDS)
        except (EOFError, OSError):  # a TimeoutError is one
            logger.error("process %d for long work died or hung", helper.pid)
            self._lose(helper)
            raise overloaded("The process that did the work has died.") from None
        self._release(helper)
        return reply

    async def _next(self) -> _Helper | None:
        """A process that has nothing to do, when there is one; None where there will be none."""
        if not self._helpers:
            return None
        if self._idle:
            return self._idle.pop()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Helper | None] = loop.create_future()
        self._waiting.append(future)
        timer = loop.call_later(self._max_seconds, self._give_up, future)
        try:
            return await future
        except asyncio.CancelledError:
            given = future.done() and not future.cancelled() and future.exception() is None
            if given and (helper := future.result()) is not None:
                self._release(helper)
            raise
        finally:
            timer.cancel()

    def _give_up(self, future: asyncio.Future[_Helper | None]) -> None:
        if not future.done():
            future.set_exception(overloaded(f"The request waited for {self._max_seconds:g} seconds."))

    def _release(self, helper: _Helper) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(helper)
                return
        self._idle.append(helper)

    def _lose(self, helper: _Helper) -> None:
        self.broken = True
        self._helpers.remove(helper)
        helper.kill()
        if not self._helpers:
            while self._waiting:
                future = self._waiting.popleft()
                if not future.done():
                    future.set_result(None)

    def _serve(
        self, questions: socket.socket, noted: Callable[[], None], take_faster: Callable[[], None]
    ) -> None:
        """Answer one question after another, until the worker has gone."""
        with questions.makefile("rb") as file:
            while prefix := file.read(_PREFIX):
                question = _READ_QUESTION(file.read(int.from_bytes(prefix, "big")))
                if not question.path:
                    take_faster()
                    continue
                questions.sendall(_framed(_ENCODE(self._reply(question))))
                noted()

    def _reply(self, question: _Question) -> _Reply:
        record = telemetry.Record(question.log_id)
        return record.run(self._answered, question, record)

    def _answered(self, question: _Question, record: telemetry.Record) -> _Reply:
        telemetry.spent("wait", question.asked)
        try:
            body, refusal = answer(self._handlers[question.path], question.body, question.request_id), None
        except ApiError as error:
            body, refusal = b"", _refusal(error)
        except Exception:
            logger.exception("%s failed: a defect of renderd", question.path)
            body, refusal = b"", _refusal(internal_error())
        return _Reply(body, refusal, record.noted())


class _Helper:
    """The worker's end of one process."""

    def __init__(self, end: socket.socket) -> None:
        self.pid = 0
        self.end = end
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._unsent = b""

    def kill(self) -> None:
        """End the process, if it still runs."""
        if self._streams is not None:
            self._streams[1].transport.abort()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def tell(self, message: bytes) -> None:
        """Send what nothing answers to, with or before the next question."""
        self._unsent += _framed(message)

    async def ask(self, question: bytes) -> bytes:
        """The reply to a question. Raises EOFError or OSError when the process has died."""
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(sock=self.end, limit=_BUFFER_BYTES)
        reader, writer = self._streams
        writer.write(self._unsent + _framed(question))
        self._unsent = b""
        await writer.drain()
        return await reader.readexactly(int.from_bytes(await reader.readexactly(_PREFIX), "big"))


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(_PREFIX, "big") + message


def _refusal(error: ApiError) -> _Refusal:
    # What a message quotes of a request may not be writable as it is.
    param = None if error.param is None else scrub(error.param)
    return _Refusal(error.status, error.type, scrub(error.message), param, error.retry_after)
