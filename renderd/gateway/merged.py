"""The generations of several prompts as one: their events as they come, choices numbered through."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Self

from renderd.gateway.route import Route, StageTimes
from renderd.wire.generate import GenerateChunk, GenerateRequest

_WAITING = 16
"""Events that wait to be written; more are not read from the engines."""


class Merged:
    """See Generation. `count`: choices of each prompt."""

    def __init__(
        self, route: Route, requests: Sequence[GenerateRequest], session: str | None, count: int
    ) -> None:
        self.engine = ""
        self.times = StageTimes()
        self._route = route
        self._requests = requests
        self._session = session
        self._count = count
        self._queue: asyncio.Queue[GenerateChunk | BaseException | None] = asyncio.Queue(_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._running = len(requests)
        self._first: GenerateChunk | None = None

    @property
    def pending(self) -> bool:
        return self._first is not None or not self._queue.empty()

    async def begin(self) -> Self:
        """Returns when the first event of any has come. Raises EngineFailure."""
        self._tasks = [
            asyncio.create_task(self._pump(request, at * self._count))
            for at, request in enumerate(self._requests)
        ]
        try:
            self._first = await anext(self)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def _pump(self, request: GenerateRequest, offset: int) -> None:
        try:
            async with aclosing(await self._route.stream(request, self._session)) as generation:
                async for event in generation:
                    for choice in event.choices:
                        choice.index += offset
                    await self._queue.put(event)
        except Exception as error:
            await self._queue.put(error)
        else:
            await self._queue.put(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerateChunk:
        first, self._first = self._first, None
        if first is not None:
            return first
        while self._running:
            event = await self._queue.get()
            if isinstance(event, BaseException):
                raise event
            if event is not None:
                return event
            self._running -= 1
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End what still runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
