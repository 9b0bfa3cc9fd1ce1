"""A gateway in this process before engines that say what was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any, Self, cast

import msgspec

from golden.models import model_path
from renderd.conformance.cases import Golden, Recording, sse_events
from renderd.conformance.main import GOLDEN
from renderd.derender import Derenderer
from renderd.gateway.exchange import events, responses
from renderd.gateway.face import Face
from renderd.gateway.gateway import Gateway, gateway_of
from renderd.gateway.prepared import packed, unpacked
from renderd.gateway.route import Generation, StageTimes, Whole
from renderd.render import Renderer
from renderd.server.flags import parse
from renderd.server.startup import load
from renderd.wire.generate import GenerateChunk, GenerateRequest, GenerateResponse

Json = dict[str, Any]

golden = Golden(GOLDEN)


@cache
def gateway(server: str) -> Gateway:
    """The gateway of a golden configuration."""
    table = golden.servers[server]
    services, _ = load(parse([str(model_path(table["model"])), *table["flags"]])[0])
    renderer, derenderer = cast(Renderer, services.renderer), cast(Derenderer, services.derenderer)
    return gateway_of(renderer.server, derenderer.setup, "renderd-test")


class Said:
    """A Generation of given events. `pending`: all of them are there already."""

    def __init__(
        self, said: Sequence[GenerateChunk], pending: bool, failure: Exception | None = None
    ) -> None:
        self.engine = "fake"
        self.times = StageTimes()
        self.pending = pending
        self.closed_after: int | None = None
        self.taken = 0
        self._said = list(said)
        self._failure = failure

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerateChunk:
        if self.taken == len(self._said):
            if self._failure is not None:
                raise self._failure
            raise StopAsyncIteration
        self.taken += 1
        self.pending = self.pending and self.taken < len(self._said)
        return self._said[self.taken - 1]

    async def aclose(self) -> None:
        if self.closed_after is None:
            self.closed_after = self.taken


class FakeRoute:
    """Engines that answer what they are given, one prompt after the other."""

    def __init__(
        self,
        streams: Sequence[Sequence[GenerateChunk]] = (),
        wholes: Sequence[GenerateResponse] = (),
        failure: Exception | None = None,
        pending: bool = False,
    ) -> None:
        self.asked: list[GenerateRequest] = []
        self.generations: list[Said] = []
        self._streams = list(streams)
        self._wholes = list(wholes)
        self._failure = failure
        self._pending = pending

    async def stream(self, request: GenerateRequest, session: str | None = None) -> Generation:
        self.asked.append(request)
        if not self._streams and self._failure is not None:
            raise self._failure
        said = Said(self._streams[len(self.generations)], self._pending, self._failure)
        self.generations.append(said)
        return said

    async def whole(self, request: GenerateRequest, session: str | None = None) -> Whole:
        self.asked.append(request)
        if not self._wholes and self._failure is not None:
            raise self._failure
        return Whole(self._wholes[len(self.asked) - 1], "fake", StageTimes())


def recorded_route(recording: Recording, pending: bool = False) -> FakeRoute:
    """Engines that answer what was recorded of them."""
    several = isinstance(recording.generate, list)
    sse = recording.generate_sse if several else [recording.generate_sse]
    streams = [msgspec.convert(sse_events(text), list[GenerateChunk]) for text in cast(list[str], sse)]
    wholes = recording.generate if several else [recording.generate]
    return FakeRoute(streams, msgspec.convert(wholes, list[GenerateResponse]), pending=pending)


def face(server: str, path: str) -> Face:
    """An API of a golden configuration."""
    return gateway(server).faces[path]


def whole(server: str, path: str, request: Json, route: FakeRoute) -> Json:
    """The answer to a request. Raises ApiError."""
    api = face(server, path)
    prepared = unpacked(packed(api.prepare(msgspec.json.encode(request), None)))
    got = asyncio.run(responses(gateway(server).desk, route, prepared))
    answer: Json = msgspec.json.decode(api.finish(prepared, got))
    return answer


def streamed(server: str, path: str, request: Json, route: FakeRoute) -> list[bytes]:
    """The pieces of the event stream that answers a request. Raises ApiError."""
    api = face(server, path)
    prepared = unpacked(packed(api.prepare(msgspec.json.encode(request), None)))

    async def pieces() -> list[bytes]:
        return [piece async for piece in events(api.writer(prepared), route, prepared)]

    return asyncio.run(pieces())


def chunks(pieces: Sequence[bytes]) -> list[Json]:
    """The events of a stream that ends as it should."""
    text = b"".join(pieces).decode()
    assert text.endswith("data: [DONE]\n\n")
    return sse_events(text)
