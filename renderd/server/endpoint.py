"""Raw bytes in, raw bytes out: the ASGI endpoint of every POST route, and where its work runs.

These routes do not pass through FastAPI's request handling: bodies are decoded and checked once, by the room
that answers them, and the framework's own decoding and validation would cost more than a derender chunk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from renderd.model.hurry import TakesLongError, hurried
from renderd.server.admission import Admission, UnderWay
from renderd.server.logs import RequestLog
from renderd.server.long_work import Handler, LongWork, answer
from renderd.wire.decode import check_content_type
from renderd.wire.errors import ApiError, internal_error

logger = logging.getLogger("renderd.server")

Brief = Callable[[bytes], bool]
"""Whether a body takes less than a millisecond, as far as one can see."""

RawHeaders = Sequence[tuple[bytes, bytes]]

MAX_DIGITS = 20
"""Of a Content-Length that is looked at: Python does not read numbers of thousands."""
BROKEN_OFF = "renderd.broken_off"
"""Key of the last message of an answer that began well and is not whole: the status that logs give it."""

JSON = (b"content-type", b"application/json")


class Answer(NamedTuple):
    """A whole answer in JSON."""

    status: int
    body: bytes
    headers: RawHeaders = ()


class ClientGoneError(Exception):
    """Nobody waits for the answer."""


class Incoming:
    """The body of a request as it comes, and what admission grants it until `leave`."""

    def __init__(
        self, admission: Admission, headers: Mapping[bytes, bytes], max_bytes: int, under_way: UnderWay
    ) -> None:
        """Raises ApiError: 503, 400 for another type than JSON, 413."""
        self._admission = admission
        self._max_bytes = max_bytes
        self._under_way = under_way
        self._chunks: list[bytes] = []
        self._held = 0
        admission.enter(under_way)
        try:
            check_content_type(text_of(headers.get(b"content-type")))
            declared = headers.get(b"content-length", b"")
            if declared.isdigit() and (len(declared) > MAX_DIGITS or int(declared) > max_bytes):
                raise self._too_large()
        except ApiError:
            admission.leave(under_way, 0)
            raise

    def add(self, chunk: bytes) -> None:
        """Raises ApiError 413 or 503."""
        self._admission.hold(len(chunk))
        self._held += len(chunk)
        if self._held > self._max_bytes:
            raise self._too_large()
        self._chunks.append(chunk)

    def take(self) -> bytes:
        """The whole body, which is not kept here."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def release(self) -> None:
        """The body is not needed any more, the answer not sent."""
        self._admission.release(self._held)
        self._held = 0

    def leave(self) -> None:
        """The request is answered, or is not going to be."""
        self._chunks.clear()
        self._admission.leave(self._under_way, self._held)

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            "RequestEntityTooLargeError",
            f"The request body is larger than {self._max_bytes} bytes.",
        )


class Endpoint:
    """Answers POST requests to `path` with what `handler` makes of the body.

    A body that is `brief` is answered on the event loop: it takes less than a millisecond, and another
    process would cost more than it frees. The others, and those that turn out to be long, are `long_work`, so
    that nothing waits for them. `max_body_bytes`: what is larger is a 413. `log`: of bodies, None where
    nobody wants one. `failure`: the body that says an error.
    """

    whole = True
    """Whether every answer is one piece, of which nothing is sent before the body has come."""

    def __init__(
        self,
        path: str,
        handler: Handler,
        brief: Brief,
        long_work: LongWork,
        admission: Admission,
        max_body_bytes: int,
        log: RequestLog | None = None,
        failure: Callable[[ApiError], bytes] = ApiError.body,
    ) -> None:
        self.path = path
        self._handler = handler
        self._brief = brief
        self._long_work = long_work
        self._admission = admission
        self._max_body_bytes = max_body_bytes
        self._log = log
        self._failure = failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        try:
            answer = await self._answer(headers, receive)
        except ClientGoneError:
            return
        except (Exception, asyncio.CancelledError) as error:
            answer = self.failed(error)
        await respond(send, *answer)

    async def _answer(self, headers: Mapping[bytes, bytes], receive: Receive) -> Answer:
        """Raises ApiError, or ClientGoneError when the client went away."""
        incoming = self.begin(headers, current_task())
        try:
            await read(receive, incoming)
            return self.answered(await self.work(incoming.take(), text_of(headers.get(b"x-request-id"))))
        finally:
            incoming.leave()

    def begin(self, headers: Mapping[bytes, bytes], under_way: UnderWay) -> Incoming:
        """A request has come, its body is to follow. Raises ApiError."""
        return Incoming(self._admission, headers, self._max_body_bytes, under_way)

    async def work(self, body: bytes, request_id: str | None) -> bytes:
        """What the handler makes of the body. Raises ApiError."""
        made = self.at_once(body, request_id)
        return await self.later(body, request_id) if made is None else made

    def at_once(self, body: bytes, request_id: str | None) -> bytes | None:
        """The same, None where it takes long."""
        if self._log is not None:
            self._log.received(body)
        if not self._brief(body):
            return None
        try:
            with hurried:
                return answer(self._handler, body, request_id)
        except TakesLongError:
            return None

    async def later(self, body: bytes, request_id: str | None) -> bytes:
        """The same, where it takes long."""
        return await self._long_work.do(self.path, body, request_id)

    def answered(self, body: bytes) -> Answer:
        """An answer that is well."""
        if self._log is not None:
            self._log.answered(body)
        return Answer(200, body)

    def failed(self, error: BaseException) -> Answer:
        """The answer to a request whose work raised this. Raises CancelledError that is nobody's answer."""
        if isinstance(error, asyncio.CancelledError):
            error = self._admission.cancelled()
        if not isinstance(error, ApiError):
            logger.error("%s failed: a defect of renderd", self.path, exc_info=error)
            error = internal_error()
        body = self._failure(error)
        if self._log is not None:
            self._log.answered(body)
        retry = [(b"retry-after", b"%d" % error.retry_after)] if error.retry_after is not None else ()
        return Answer(error.status, body, retry)


async def read(receive: Receive, incoming: Incoming) -> None:
    """Wait for the whole body. Raises ApiError 413 or 503, ClientGoneError."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        incoming.add(message.get("body", b""))
        more = message.get("more_body", False)


def current_task() -> UnderWay:
    """What works on the request, in ASGI's way."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def respond(send: Send, status: int, body: bytes, headers: RawHeaders = ()) -> None:
    """Send a whole JSON answer."""
    start = [JSON, (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def text_of(value: bytes | None) -> str | None:
    """The value of a header as text."""
    return None if value is None else value.decode("latin-1")
