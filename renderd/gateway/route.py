"""One request's way through engines: from a GenerateRequest to the events or the answer of an engine."""

from __future__ import annotations

import time
from typing import Protocol, Self

import msgspec

from renderd.engine.client import EngineClient, EngineError
from renderd.wire.errors import ApiError
from renderd.wire.generate import GenerateChunk, GenerateRequest, GenerateResponse


class EngineFailure(ApiError):
    """An engine refused or was lost. `status`, `type`, `message`, `param` and `retry_after` are what the
    client is to be told; a refusal of the engine (4xx) is passed on as the engine said it.

    `begun`: whether an event of the answer had come, so that the client has part of an answer.
    """

    def __init__(
        self,
        status: int,
        type: str,
        message: str,
        param: str | None = None,
        retry_after: int | None = None,
        *,
        begun: bool = False,
    ) -> None:
        super().__init__(status, type, message, param, retry_after)
        self.begun = begun


class StageTimes(msgspec.Struct):
    """Seconds that the stages of one request took; None for those that did not happen, or not yet.

    `queue`: until it was sent to the engine that answered, without prefill: failed attempts. `prefill`: what
    the prefill engine took. `first_token`: from the sending to the first event. `decode`: from there to the
    last, and for a whole answer all of it.
    """

    queue: float | None = None
    prefill: float | None = None
    first_token: float | None = None
    decode: float | None = None


class Generation(Protocol):
    """The events of one request that streams, in order, without [DONE]. The first has come already.

    Iterating raises EngineFailure with `begun` when the engine reports an error or is lost. `aclose` has to
    be called in any case: before the end, it aborts the request on the engine and closes the connection. Use
    `contextlib.aclosing`. Nothing is read from the engine while nobody iterates, but for a buffer of some KB.
    The `request_id` of events is the engine's own; it is not the one of the request.
    """

    @property
    def engine(self) -> str:
        """URL of the engine that answers."""

    @property
    def times(self) -> StageTimes:
        """What is known of it by now."""

    @property
    def pending(self) -> bool:
        """Whether the next event, or the end, is here already: getting it will not wait. Who writes to a
        client may put it into the same write."""

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> GenerateChunk: ...
    async def aclose(self) -> None: ...


class Whole(msgspec.Struct):
    """An answer that came at once."""

    response: GenerateResponse
    engine: str
    times: StageTimes


class Route(Protocol):
    """Where requests go. `session`: requests of one session go to the same engine, None for anywhere.

    Both raise EngineFailure, `begun` False, with ApiError's 503 and `retry_after` when no engine is healthy.
    When the awaiting task is cancelled the request is aborted on the engine. `stream` of the request is
    overwritten; stop strings and whatever else engines do not do have to be taken out before. Its
    `request_id` should be unique; engines get it with a random ending.
    """

    async def stream(self, request: GenerateRequest, session: str | None = None) -> Generation:
        """Returns when the first event has come: until then another engine may get the request."""

    async def whole(self, request: GenerateRequest, session: str | None = None) -> Whole:
        """The whole answer."""


class SingleRoute:
    """A Route to one engine without anything."""

    def __init__(self, client: EngineClient, url: str) -> None:
        self._client = client
        self._url = url

    async def stream(self, request: GenerateRequest, session: str | None = None) -> Generation:
        generation = _Single(self._client, self._url, request)
        try:
            await generation.begin()
        except BaseException:
            await generation.aclose()
            raise
        return generation

    async def whole(self, request: GenerateRequest, session: str | None = None) -> Whole:
        body = msgspec.json.encode(msgspec.structs.replace(request, stream=False, stream_options=None))
        start = time.monotonic()
        try:
            answer = msgspec.json.decode(await self._client.generate(body), type=GenerateResponse)
        except EngineError as error:
            raise _failure(error, False) from error
        return Whole(answer, self._url, StageTimes(queue=0.0, decode=time.monotonic() - start))


class _Single:
    def __init__(self, client: EngineClient, url: str, request: GenerateRequest) -> None:
        self.engine = url
        self.times = StageTimes(queue=0.0)
        self.pending = False
        self._client = client
        self._body = msgspec.json.encode(msgspec.structs.replace(request, stream=True))
        self._events = client.stream(self._body)
        self._first: GenerateChunk | None = None
        self._id = f"generate-tokens-{request.request_id}"
        self._ended = False

    async def begin(self) -> None:
        start = time.monotonic()
        self._first = await self._next(False)
        self.times.first_token = time.monotonic() - start
        self.pending = True

    async def _next(self, begun: bool) -> GenerateChunk:
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            self._ended = True
            raise
        except EngineError as error:
            self._ended = True
            raise _failure(error, begun) from error
        return msgspec.json.decode(event, type=GenerateChunk)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerateChunk:
        first, self._first, self.pending = self._first, None, False
        return first if first is not None else await self._next(True)

    async def aclose(self) -> None:
        if not self._ended:
            self._ended = True
            await self._client.abort([self._id])
        await self._events.aclose()  # type: ignore[attr-defined]


def _failure(error: EngineError, begun: bool) -> EngineFailure:
    return EngineFailure(error.status or 502, "BadGatewayError", str(error), begun=begun)
