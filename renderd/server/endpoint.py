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
from renderd.server.admission import Admission
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

_JSON = (b"content-type", b"application/json")


class _Answer(NamedTuple):
    status: int
    body: bytes
    headers: RawHeaders = ()


class ClientGoneError(Exception):
    """Nobody waits for the answer."""


class Endpoint:
    """Answers POST requests to `path` with what `handler` makes of the body.

    A body that is `brief` is answered on the event loop: it takes less than a millisecond, and another
    process would cost more than it frees. The others, and those that turn out to be long, are `long_work`, so
    that nothing waits for them. `max_body_bytes`: what is larger is a 413. `log`: of bodies, None where
    nobody wants one. `failure`: the body that says an error.
    """

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
        self._path = path
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
        except ApiError as error:
            answer = self._refusal(error)
        except asyncio.CancelledError:
            answer = self._refusal(self._admission.cancelled())
        except ClientGoneError:
            return
        except Exception:
            logger.exception("%s failed: a defect of renderd", scope["path"])
            answer = self._refusal(internal_error())
        if self._log is not None:
            self._log.answered(answer.body)
        await respond(send, answer.status, answer.body, answer.headers)

    def _refusal(self, error: ApiError) -> _Answer:
        retry = [(b"retry-after", b"%d" % error.retry_after)] if error.retry_after is not None else ()
        return _Answer(error.status, self._failure(error), retry)

    async def _answer(self, headers: Mapping[bytes, bytes], receive: Receive) -> _Answer:
        """Raises ApiError, or ClientGoneError when the client went away."""
        self._admission.enter()
        held = [0]
        try:
            check_content_type(text_of(headers.get(b"content-type")))
            body = await self._body(headers, receive, held)
            if self._log is not None:
                self._log.received(body)
            return _Answer(200, await self._handle(body, text_of(headers.get(b"x-request-id"))))
        finally:
            self._admission.leave(held[0])

    async def _handle(self, body: bytes, request_id: str | None) -> bytes:
        if self._brief(body):
            try:
                with hurried():
                    return answer(self._handler, body, request_id)
            except TakesLongError:
                pass
        return await self._long_work.do(self._path, body, request_id)

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive, held: list[int]) -> bytes:
        """The whole body. Counts in `held` what admission granted. Raises ApiError 413 or 503."""
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and (len(declared) > MAX_DIGITS or int(declared) > self._max_body_bytes):
            raise self._too_large()
        chunks: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            chunk = message.get("body", b"")
            self._admission.hold(len(chunk))
            held[0] += len(chunk)
            if held[0] > self._max_body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return b"".join([*chunks, chunk]) if chunks else chunk
            chunks.append(chunk)

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            "RequestEntityTooLargeError",
            f"The request body is larger than {self._max_body_bytes} bytes.",
        )


async def respond(send: Send, status: int, body: bytes, headers: RawHeaders = ()) -> None:
    """Send a whole JSON answer."""
    start = [_JSON, (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def text_of(value: bytes | None) -> str | None:
    """The value of a header as text."""
    return None if value is None else value.decode("latin-1")
