"""The engines that requests may go to: which of them answer, how busy they are, and whose turn it is."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import blake2b
from time import monotonic

from renderd.engine.client import EngineClient, Timeouts

logger = logging.getLogger("renderd.gateway")

CHECK_SECONDS = 1.0
"""Between two looks at an engine's /health."""
_ANSWER_SECONDS = 5.0
"""How long /health may take: an engine under load answers late and is healthy all the same."""
_LONGEST_PAUSE = 8.0
_TELL_SECONDS = 10.0
"""Between two lines of the log that say the same of an engine."""


class Engine:
    """One engine, as this process sees it.

    `label`: its URL without the scheme, for metrics. `in_flight`: requests of this process that it works on.
    `alive`: what its /health said last. `paused_until`: by `monotonic`; it has just failed a request, and is
    asked again only where no other can be.
    """

    def __init__(self, url: str, timeouts: Timeouts, api_key: str | None = None) -> None:
        self.client = EngineClient(url, timeouts, api_key)
        self.url = self.client.url
        self.label = self.url.split("://", 1)[-1]
        self.in_flight = 0
        self.alive = True
        self.paused_until = 0.0
        self.turn = 0.0
        self._failures = 0
        self._told = ("", 0.0)
        self._look = asyncio.Event()
        self._idle = timeouts.idle

    def succeeded(self) -> None:
        """It has begun to answer a request."""
        self._failures = 0
        self.paused_until = 0.0

    def failed(self, failure: Exception) -> None:
        """It could not answer a request, or not to the end: others go before, the longer the more often in
        a row. Its /health is looked at."""
        text, now = " ".join([str(failure), *getattr(failure, "__notes__", ())]), monotonic()
        if text != self._told[0] or now - self._told[1] > _TELL_SECONDS:
            self._told = text, now
            logger.warning("engine %s: %s", self.url, text)
        self.paused_until = now + min(CHECK_SECONDS * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)
        self._look.set()

    async def watch(self) -> None:
        """Look at its /health, for ever.

        Of an answer that does not stream nothing is seen until its end. It is given up when the engine has
        not been healthy for as long as a stream may say nothing.
        """
        last = monotonic()
        while True:
            illness = await self.client.illness(_ANSWER_SECONDS)
            alive = illness is None
            if alive:
                last = monotonic()
            elif self._idle is not None and monotonic() - last > self._idle:
                self.client.give_up()
            if alive != self.alive:
                self.alive = alive
                if not alive:
                    logger.error("engine %s is not healthy: %s", self.url, illness)
                else:  # it was started anew: what it failed before says nothing
                    logger.info("engine %s is healthy again", self.url)
                    self.succeeded()
            self._look.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._look.wait()


class Engines:
    """Engines of one kind. They are used and watched on one event loop."""

    def __init__(self, urls: Sequence[str], timeouts: Timeouts, api_key: str | None = None) -> None:
        self.all = [Engine(url, timeouts, api_key) for url in urls]
        self._turn = 1.0
        self._watching: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to watch them. Until then they count as healthy."""
        for engine in self.all:  # workers and replicas do not all begin with the first
            engine.turn = random.random()
        self._watching = [asyncio.get_running_loop().create_task(engine.watch()) for engine in self.all]

    async def close(self) -> None:
        """End watching and all connections."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for engine in self.all:
            await engine.client.close()

    def choose(self, session: str | None = None, tried: Collection[Engine] = ()) -> Engine | None:
        """The engine for a request, None when no healthy one is left but those `tried`.

        With a session it is the one with the highest hash of both (rendezvous hashing): the same for all
        processes without a word between them, and when engines come or go only sessions of theirs move.
        Else the least busy one, and of several the one whose last turn is the longest ago.
        """
        now = monotonic()
        left = [engine for engine in self.all if engine.alive and engine not in tried]
        left = [engine for engine in left if engine.paused_until <= now] or left
        if not left:
            return None
        if session is not None:
            key = session.encode(errors="surrogatepass")
            return max(left, key=lambda engine: _weight(engine, key))
        chosen = min(left, key=lambda engine: (engine.in_flight, engine.turn))
        self._turn += 1.0
        chosen.turn = self._turn
        return chosen


def _weight(engine: Engine, session: bytes) -> bytes:
    return blake2b(session, digest_size=8, key=blake2b(engine.url.encode(), digest_size=32).digest()).digest()
