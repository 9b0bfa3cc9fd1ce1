"""One request's way through engines: from a GenerateRequest to the events or the answer of an engine.

Prefill, where there are engines for it (contract K.2), then decode. Before the first token another engine may
get the request; afterwards what is lost is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeVar

import msgspec

from renderd import telemetry
from renderd.engine.client import EngineFailure, EventStream, Timeouts
from renderd.gateway.engines import Engine, Engines
from renderd.gateway.reading import Reader
from renderd.render.renderer import encode
from renderd.wire.generate import GenerateChunk, GenerateRequest, GenerateResponse, random_id

__all__ = ["EngineFailure", "EngineRoute", "Generation", "Route", "RouteOptions", "StageTimes", "Whole"]

logger = logging.getLogger("renderd.gateway")

T = TypeVar("T")

RETRY_AFTER = 1
"""Seconds after which an engine may be healthy again."""

Outcome = Literal["answered", "refused", "failed", "lost", "aborted"]
"""How a request to an engine ended: answered to the end; refused with 4xx; failed before its first token;
lost after it; aborted because nobody wanted more of it."""

KvEvent = Literal["handed_over", "prefill_failed", "no_parameters", "load_failed", "recomputed"]
"""What happened between prefill and decode: the parameters came; prefill failed; it answered without any;
decode could not load what they name; decode computed the prompt itself because of that."""


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


class Observer(Protocol):
    """Who counts. `engine`: the label of one."""

    def on_end(self, engine: str, outcome: Outcome) -> None: ...
    def on_stage(self, engine: str, stage: str, seconds: float) -> None: ...
    def on_kv(self, event: KvEvent) -> None: ...


class Generation(Protocol):
    """The events of one request that streams, in order, without [DONE]. The first has come already.

    Iterating raises EngineFailure with `begun` when the engine reports an error or is lost. `aclose` has to
    be called in any case: before the end, it aborts the request on the engine and closes the connection. Use
    `contextlib.aclosing`. Nothing is read from the engine while nobody iterates, but for some 100 KB.
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

    Both raise EngineFailure, `begun` False; it is 503 with `retry_after` when no engine is healthy. When the
    awaiting task is cancelled the request is aborted on the engine. `stream` of the request is overwritten;
    stop strings and whatever else engines do not do have to be taken out before. Engines get its `request_id`
    with a random ending, so that nobody aborts another's request.
    """

    async def stream(self, request: GenerateRequest, session: str | None = None) -> Generation:
        """Returns when the first event has come: until then another engine may get the request."""

    async def whole(self, request: GenerateRequest, session: str | None = None) -> Whole:
        """The whole answer."""


@dataclass(frozen=True)
class RouteOptions:
    """What flags say. `retries`: engines that may get a request after the first. `api_key`: of all."""

    engine_urls: list[str]
    prefill_urls: list[str]
    retries: int
    timeouts: Timeouts
    kv_failure: Literal["fail", "recompute"] = "fail"
    api_key: str | None = field(default=None, repr=False)


class EngineRoute:
    """A Route over the engines of the options. Make it before the process is forked, `start` it on the event
    loop that uses it, and `close` it there."""

    def __init__(self, options: RouteOptions, observer: Observer) -> None:
        self.engines = Engines(options.engine_urls, options.timeouts, options.api_key)
        self.prefill = Engines(options.prefill_urls, options.timeouts, options.api_key)
        self._options = options
        self._observer = observer

    def start(self) -> None:
        """Begin to watch the engines' health."""
        self.engines.start()
        self.prefill.start()

    async def close(self) -> None:
        """Let go of the engines."""
        await self.engines.close()
        await self.prefill.close()

    async def stream(self, request: GenerateRequest, session: str | None = None) -> Generation:
        return await self._run(msgspec.structs.replace(request, stream=True), session, self._begin)

    async def whole(self, request: GenerateRequest, session: str | None = None) -> Whole:
        request = msgspec.structs.replace(request, stream=False, stream_options=None)
        return await self._run(request, session, self._answer)

    async def _run(
        self,
        request: GenerateRequest,
        session: str | None,
        send: Callable[[Engine, GenerateRequest, StageTimes], Awaitable[T]],
    ) -> T:
        """Prefill, then decode, on the engines that it takes."""
        began = telemetry.clock()
        times = StageTimes()
        request.request_id += f"-{random_id()[:8]}"
        offered = await self._hand_over(request, times)
        if offered is not None:
            request.kv_transfer_params = offered
        tried: list[Engine] = []
        engine = self._choose(session)
        while True:
            times.queue = telemetry.clock() - began - (times.prefill or 0.0)
            try:
                return await send(engine, request, times)
            except EngineFailure as failure:
                if failure.status < 500:
                    raise
                if offered is not None and failure.status == 500:  # an engine says no more than that
                    logger.warning("engine %s did not load the KV of a prefill: %s", engine.url, failure)
                    self._observer.on_kv("load_failed")
                    if self._options.kv_failure == "fail":
                        raise
                    self._observer.on_kv("recomputed")
                    request.kv_transfer_params = offered = None
                    continue
                engine.failed(failure)
                tried.append(engine)
                another = self.engines.choose(session, tried)
                if another is None or len(tried) > self._options.retries:
                    raise
                engine = another

    def _choose(self, session: str | None) -> Engine:
        engine = self.engines.choose(session)
        if engine is None:
            text = "No engine is healthy."
            raise EngineFailure(503, "ServiceUnavailableError", text, retry_after=RETRY_AFTER)
        return engine

    async def _hand_over(self, request: GenerateRequest, times: StageTimes) -> dict[str, Any] | None:
        """What decode has to know to load the KV of the prompt; None where it computes the prompt itself."""
        if request.kv_transfer_params is not None:  # the client does it by itself
            return None
        if request.sampling_params.get("prompt_logprobs") is not None:  # they come from computing the prompt
            return None
        engine = self.prefill.choose()
        if engine is None:
            if self.prefill.all:
                self._observer.on_kv("prefill_failed")
            return None
        began = telemetry.clock()
        try:
            answer = await self._whole(engine, _for_prefill(request), self._options.timeouts.first_token)
        except EngineFailure as failure:
            if failure.status >= 500:
                engine.failed(failure)
            self._observer.on_kv("prefill_failed")
            return None
        finally:
            times.prefill = telemetry.clock() - began
        _over(self._observer, engine, "prefill", times.prefill)
        self._observer.on_kv("no_parameters" if answer.kv_transfer_params is None else "handed_over")
        return answer.kv_transfer_params

    async def _answer(self, engine: Engine, request: GenerateRequest, times: StageTimes) -> Whole:
        began = telemetry.clock()
        response = await self._whole(engine, request, None)
        times.decode = telemetry.clock() - began
        _over(self._observer, engine, "queue", times.queue or 0.0, began)
        _over(self._observer, engine, "decode", times.decode)
        return Whole(response, engine.url, times)

    async def _whole(self, engine: Engine, request: GenerateRequest, limit: float | None) -> GenerateResponse:
        body = encode(request)
        visit = _Visit(engine, self._observer)
        try:
            data = await engine.client.generate(body, request.request_id, limit)
            response = Reader(request).response(data)
        except EngineFailure as failure:
            visit.failed(failure)
            raise
        except BaseException:
            visit.end("aborted")
            raise
        visit.answered()
        visit.end("answered")
        return response

    async def _begin(self, engine: Engine, request: GenerateRequest, times: StageTimes) -> Generation:
        body = encode(request)
        visit = _Visit(engine, self._observer)
        reader = Reader(request)
        began = telemetry.clock()
        try:
            stream = await engine.client.stream(body, request.request_id)
            first = await _first(reader, stream)
        except EngineFailure as failure:
            visit.failed(failure)
            raise
        except BaseException:
            visit.end("aborted")
            raise
        visit.answered()
        times.first_token = telemetry.clock() - began
        _over(self._observer, engine, "queue", times.queue or 0.0, began)
        _over(self._observer, engine, "first_token", times.first_token)
        return _Streaming(first, reader, stream, visit, times)


async def _first(reader: Reader, stream: EventStream) -> GenerateChunk:
    """The first event, which is here. If it is none, another engine may have one."""
    try:
        return await reader.next(stream)
    except BaseException:
        stream.close()
        raise


_OF_DECODE = (
    "logprobs",
    "logprob_token_ids",
    "min_tokens",
    "stop_token_ids",
    "bad_words",
    "structured_outputs",
)


def _for_prefill(request: GenerateRequest) -> GenerateRequest:
    """What has the prompt computed and kept for another engine. The sampled token is of no use to anybody.

    It has to end by its length: of an answer that stops an engine keeps nothing.
    """
    params = {key: value for key, value in request.sampling_params.items() if key not in _OF_DECODE}
    return msgspec.structs.replace(
        request,
        sampling_params=params | {"max_tokens": 1, "n": 1, "ignore_eos": True},
        stream=False,
        stream_options=None,
        return_token_ids=None,
        kv_transfer_params={"do_remote_decode": True},
    )


def _over(observer: Observer, engine: Engine, stage: str, seconds: float, ended: float | None = None) -> None:
    """A stage took so many seconds, until `ended` or now."""
    ended = telemetry.clock() if ended is None else ended
    observer.on_stage(engine.label, stage, seconds)
    telemetry.visited(stage, engine.label, ended - seconds, ended)


class _Visit:
    """One request at one engine: in flight until it ends, which it does once."""

    def __init__(self, engine: Engine, observer: Observer) -> None:
        self.engine = engine
        self.observer = observer
        self.ended = False
        engine.in_flight += 1

    def answered(self) -> None:
        self.engine.succeeded()

    def failed(self, failure: EngineFailure) -> None:
        if failure.begun:
            self.engine.failed(failure)
            self.end("lost")
        else:
            self.end("refused" if failure.status < 500 else "failed")

    def end(self, outcome: Outcome) -> None:
        if not self.ended:
            self.ended = True
            self.engine.in_flight -= 1
            self.observer.on_end(self.engine.label, outcome)


class _Streaming:
    """The Generation of one visit."""

    def __init__(
        self, first: GenerateChunk, reader: Reader, stream: EventStream, visit: _Visit, times: StageTimes
    ) -> None:
        self.engine = visit.engine.url
        self.times = times
        self._first: GenerateChunk | None = first
        self._reader = reader
        self._stream = stream
        self._visit = visit
        self._began = telemetry.clock()

    @property
    def pending(self) -> bool:
        return self._first is not None or self._stream.pending

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerateChunk:
        first, self._first = self._first, None
        if first is not None:
            return first
        try:
            return await self._reader.next(self._stream)
        except StopAsyncIteration:
            self._end("answered")
            raise
        except EngineFailure as failure:
            failure.begun = True
            self._stream.close()
            self._visit.failed(failure)
            raise

    async def aclose(self) -> None:
        self._stream.close()
        self._end("aborted")

    def _end(self, outcome: Outcome) -> None:
        if not self._visit.ended:
            self.times.decode = telemetry.clock() - self._began
            _over(self._visit.observer, self._visit.engine, "decode", self.times.decode)
            self._visit.end(outcome)
