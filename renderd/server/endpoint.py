"""Raw bytes in, raw bytes out: the ASGI endpoint of every POST route, and where its work runs.

These routes do not pass through FastAPI's request handling: bodies are decoded and checked once, by the room
that answers them, and the framework's own decoding and validation would cost more than a derender chunk.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from renderd.wire.decode import check_content_type
from renderd.wire.errors import ApiError, bad_request

logger = logging.getLogger("renderd.server")

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Room for a prompt of millions of tokens, or for 40,000 sampled tokens with 20 candidates each."""

Handler = Callable[[bytes, str | None], bytes]
"""Body and header X-Request-Id -> body of the 200 answer. Raises ApiError. Called from several threads."""

Brief = Callable[[bytes], bool]
"""Whether a body surely takes less than a millisecond."""


class Endpoint:
    """Answers POST requests with what `handler` makes of the body.

    A body that is `brief` is answered on the event loop: it takes less than a millisecond, and a thread would
    cost more than it frees. The others go to the pool, so that nothing waits for them.
    """

    def __init__(self, handler: Handler, pool: ThreadPoolExecutor, brief: Brief) -> None:
        self._handler = handler
        self._pool = pool
        self._brief = brief

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(Headers(scope=scope), receive)
        except Exception:
            logger.exception("%s failed: a defect of renderd", scope["path"])
            answer = 500, internal_error().body()
        if answer is not None:
            await respond(send, *answer)

    async def _answer(self, headers: Headers, receive: Receive) -> tuple[int, bytes] | None:
        """Status and body, or None when the client went away."""
        try:
            try:
                check_content_type(headers.get("content-type"))
                body = await _body(headers, receive)
                if body is None:
                    return None
                return 200, await self._handle(body, headers.get("x-request-id"))
            except ApiError as error:
                return error.status, error.body()
        except (UnicodeEncodeError, OverflowError) as error:
            # JSON can spell lone surrogates and numbers of any size. Most fields are never looked at closely
            # enough to mind; where one has to be written out or stored, this is what the client sent.
            return 400, bad_request(f"The request holds a value that cannot be used: {error}").body()

    async def _handle(self, body: bytes, request_id: str | None) -> bytes:
        if self._brief(body):
            return self._handler(body, request_id)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._handler, body, request_id)


def worker_pool(threads: int | None) -> ThreadPoolExecutor:
    """Threads for work that leaves the event loop, one a processor unless a number is given."""
    return ThreadPoolExecutor(threads or os.cpu_count(), thread_name_prefix="renderd")


def internal_error() -> ApiError:
    """500 of a defect. The log has the reason; the client gets no detail."""
    return ApiError(500, "InternalServerError", "Internal server error")


async def respond(send: Send, status: int, body: bytes) -> None:
    """Send a whole JSON answer."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _body(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body, or None when the client went away. Raises ApiError 413."""
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise _too_large()
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return b"".join([*chunks, chunk]) if chunks else chunk
        chunks.append(chunk)


def _too_large() -> ApiError:
    return ApiError(
        413, "RequestEntityTooLargeError", f"The request body is larger than {MAX_BODY_BYTES} bytes."
    )
