"""Scripted engines on ports of their own, and a route to them that leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import uvicorn

from renderd.demo import model_dir
from renderd.engine.app import ScriptedEngine, create_app
from renderd.engine.client import Timeouts
from renderd.gateway.engines import Engine
from renderd.gateway.route import EngineRoute, Generation, KvEvent, Outcome, RouteOptions
from renderd.model import Model, ModelConfig, load_model
from renderd.wire.generate import GenerateRequest

TOKENS = [10, 11, 12, 13, 14]
NOBODY = "http://127.0.0.1:9"
"""Nobody listens there."""


@cache
def model() -> Model:
    return load_model(ModelConfig(model=str(model_dir()), served_model_name=["demo"]))


@dataclass
class Scripted:
    """An engine that runs in a thread."""

    engine: ScriptedEngine
    url: str

    def fail(self, kind: Literal["refuse", "drop", "error", "stall"] | None, after: int = 0) -> None:
        from renderd.engine.faults import Fault

        self.engine.fault = None if kind is None else Fault(kind, after)

    @property
    def requests(self) -> int:
        return self.engine.counts["requests"]


@contextmanager
def scripted(count: int = 1, has_kv: bool = False) -> Iterator[list[Scripted]]:
    """So many engines."""
    with ExitStack() as stack:
        engines = [ScriptedEngine(model(), has_kv=has_kv) for _ in range(count)]
        yield [stack.enter_context(serving(engine)) for engine in engines]


@contextmanager
def serving(engine: ScriptedEngine) -> Iterator[Scripted]:
    """An engine that answers."""
    with serving_app(create_app(engine)) as url:
        yield Scripted(engine, url)


@contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """The URL of an ASGI application."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


class Notes:
    """An Observer that remembers."""

    def __init__(self) -> None:
        self.ends: Counter[tuple[str, Outcome]] = Counter()
        self.stages: list[tuple[str, str]] = []
        self.kv: Counter[KvEvent] = Counter()

    def on_end(self, engine: str, outcome: Outcome) -> None:
        self.ends[engine, outcome] += 1

    def on_stage(self, engine: str, stage: str, seconds: float) -> None:
        assert seconds >= 0
        self.stages.append((engine, stage))

    def on_kv(self, event: KvEvent) -> None:
        self.kv[event] += 1

    @property
    def outcomes(self) -> dict[str, int]:
        """Of all engines together."""
        found: Counter[str] = Counter()
        for (_, outcome), count in self.ends.items():
            found[outcome] += count
        return dict(found)


@asynccontextmanager
async def routed(
    engines: Sequence[Scripted | str],
    prefill: Sequence[Scripted | str] = (),
    *,
    retries: int = 2,
    kv_failure: Literal["fail", "recompute"] = "fail",
    timeouts: Timeouts | None = None,
    watched: bool = False,
) -> AsyncIterator[tuple[EngineRoute, Notes]]:
    """A route. When the block ends, nothing is in flight, no connection in use, and nothing runs."""
    urls = [[one if isinstance(one, str) else one.url for one in kind] for kind in (engines, prefill)]
    options = RouteOptions(urls[0], urls[1], retries, timeouts or Timeouts(2.0, 10.0, 10.0), kv_failure)
    notes = Notes()
    route = EngineRoute(options, notes)
    if watched:
        route.start()
    try:
        yield route, notes
        await until(
            lambda: not any(one.engine.running for one in (*engines, *prefill) if isinstance(one, Scripted))
        )
        known = [*route.engines.all, *route.prefill.all]
        assert [one.in_flight for one in known] == [0] * len(known)
        await until(lambda: not any(in_use(one) for one in known))
    finally:
        await route.close()


def in_use(engine: Engine) -> int:
    """Connections that belong to a request."""
    made = engine.client._made
    return 0 if made is None or made.connector is None else len(made.connector._acquired)


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def request(token_ids: Sequence[int] = (1, 2, 3), **sampling: Any) -> GenerateRequest:
    """What render might have made."""
    extra = {"force_token_ids": TOKENS} | sampling.pop("extra_args", {})
    return GenerateRequest(
        request_id="chatcmpl-1",
        token_ids=list(token_ids),
        token_offsets=None,
        features=None,
        content_parts=None,
        sampling_params={"max_tokens": 5, "extra_args": extra} | sampling,
        model="demo",
        reasoning_ended=None,
        reasoning_parser_kwargs=None,
        return_token_ids=None,
        output_mode="tokens",
        parse_context=None,
        stream=False,
        stream_options=None,
        cache_salt=None,
        priority=0,
        kv_transfer_params=None,
        ec_transfer_params=None,
    )


async def tokens(generation: Generation) -> list[int]:
    """All that it says."""
    async with closing(generation):
        return [token async for chunk in generation for one in chunk.choices for token in one.token_ids or ()]


def closing(generation: Generation) -> AbstractAsyncContextManager[Generation]:
    return aclosing(generation)
