"""The ASGI endpoint of the gateway's APIs: a body in, the whole answer or its event stream out."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Self

from starlette.types import Receive, Scope, Send

from renderd import telemetry
from renderd.gateway.exchange import events, responses, tokens_of
from renderd.gateway.gateway import Gateway
from renderd.gateway.prepared import Finished, Prepared, packed, unpacked
from renderd.gateway.route import Route
from renderd.server.admission import Admission
from renderd.server.endpoint import (
    BROKEN_OFF,
    Brief,
    ClientGoneError,
    Endpoint,
    RawHeaders,
    current_task,
    read,
    respond,
    text_of,
)
from renderd.server.logs import RequestLog
from renderd.server.long_work import LongWork

_TRACE = (b"traceparent", b"tracestate")
_EVENT_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")
_BRIEF_TOKENS = 256
"""Of an answer that is derendered on the event loop: less than a few milliseconds."""


class GatewayEndpoint(Endpoint):
    """Answers POST requests to `path` with what engines say to them.

    A request is rendered as the render routes do it, and a long answer is derendered where other long work is
    done. A request is in flight until its answer is sent; its body is held until it is rendered.
    """

    whole = False

    def __init__(
        self,
        path: str,
        gateway: Gateway,
        route: Route,
        brief: Brief,
        long_work: LongWork,
        admission: Admission,
        max_body_bytes: int,
        log: RequestLog | None = None,
    ) -> None:
        handler = gateway.handlers()[gateway.preparing(path)]
        self._face = gateway.faces[path]
        super().__init__(
            gateway.preparing(path),
            handler,
            brief,
            long_work,
            admission,
            max_body_bytes,
            log,
            self._face.failure,
        )
        self._finishing = gateway.finishing(path)
        self._desk = gateway.desk
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._exchange(dict(scope["headers"]), receive, send)
        except ClientGoneError:
            return
        except (Exception, asyncio.CancelledError) as error:
            await respond(send, *self.failed(error))

    async def _exchange(self, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        """Raises ApiError before the answer begins, ClientGoneError when the client went away."""
        incoming = self.begin(headers, current_task())
        _continue_trace(headers)
        try:
            await read(receive, incoming)
            async with _Attended(receive):
                made = await self.work(incoming.take(), text_of(headers.get(b"x-request-id")))
                prepared = unpacked(made)
                incoming.release()
                prepared.session = prepared.session or text_of(headers.get(b"x-session-id"))
                if prepared.streams:
                    await self._stream(prepared, send)
                else:
                    await self._whole(prepared, send)
        finally:
            incoming.leave()

    async def _whole(self, prepared: Prepared, send: Send) -> None:
        answered = await responses(self._desk, self._route, prepared)
        if tokens_of(answered) <= _BRIEF_TOKENS:
            body = self._face.finish(prepared, answered)
        else:
            body = await self._long_work.do(self._finishing, packed(Finished.of(prepared, answered)), None)
        try:
            await respond(send, *self.answered(body))
        except asyncio.CancelledError:
            if self._admission.cutting:  # the client does not take it
                raise ClientGoneError from None
            raise

    async def _stream(self, prepared: Prepared, send: Send) -> None:
        writer = self._face.writer(prepared)
        async with aclosing(events(writer, self._route, prepared)) as pieces:
            piece = await anext(pieces)
            head: RawHeaders = [_EVENT_STREAM]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            try:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = b""
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    piece = b""
            except asyncio.CancelledError:
                error = self._admission.cancelled()
                piece += writer.failure(error)
                with suppress(asyncio.CancelledError):  # a client that takes nothing learns nothing
                    await send({"type": "http.response.body", "body": piece, BROKEN_OFF: error.status})
                return
        await send({"type": "http.response.body", "body": b""})


def _continue_trace(headers: dict[bytes, bytes]) -> None:
    """Engines learn of the trace that the client began, where the server adds no span of its own."""
    record = telemetry.current()
    if record is not None and not record.trace:
        given = {name.decode(): text_of(headers[name]) or "" for name in _TRACE if name in headers}
        record.trace = {name: text for name, text in given.items() if text.isascii() and text.isprintable()}


class _Attended:
    """Ends what is done inside when the client goes away: ClientGoneError comes out of it then."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._watch: asyncio.Future[Any] = asyncio.ensure_future(self._receive())
        self._watch.add_done_callback(self._leave)
        return self

    def _leave(self, watch: asyncio.Future[Any]) -> None:
        self._gone = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.remove_done_callback(self._leave)
        self._watch.cancel()
        if not self._gone:
            return
        if not isinstance(error, asyncio.CancelledError):  # it was over at the same time
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        self._task.uncancel()
        raise ClientGoneError from None
