"""Which engine a request goes to: health, sessions, who is busy."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderd.engine.client import Timeouts
from renderd.gateway import engines as module
from renderd.gateway.engines import Engines
from renderd.gateway.route import EngineFailure
from tests.gateway.scripted import NOBODY, TOKENS, request, routed, scripted, tokens, until

URLS = [f"http://engine-{number}:8000" for number in range(8)]
SESSIONS = [f"conversation-{number}" for number in range(1000)]


def chosen(engines: Engines, session: str) -> str:
    engine = engines.choose(session)
    assert engine is not None
    return engine.url


def test_sessions_are_spread() -> None:
    engines = Engines(URLS, Timeouts())
    counts = [sum(chosen(engines, session) == url for session in SESSIONS) for url in URLS]
    assert min(counts) > 80
    assert max(counts) < 180


@given(st.sets(st.sampled_from(URLS), min_size=1, max_size=7), st.text(max_size=20))
def test_only_sessions_of_engines_that_go_move(gone: set[str], session: str) -> None:
    engines = Engines(URLS, Timeouts())
    before = chosen(engines, session)
    for engine in engines.all:
        engine.alive = engine.url not in gone
    if len(gone) < len(URLS):
        after = chosen(engines, session)
        assert after not in gone
        assert before in gone or after == before
        # An engine that was never there decides as one that is gone does.
        assert chosen(Engines([url for url in URLS if url not in gone], Timeouts()), session) == after
    for engine in engines.all:
        engine.alive = True
    assert chosen(engines, session) == before


@given(st.permutations(URLS))
def test_the_order_of_urls_decides_nothing(urls: list[str]) -> None:
    engines, others = Engines(URLS, Timeouts()), Engines([url + "/" for url in urls], Timeouts())
    assert all(chosen(engines, session) == chosen(others, session) for session in SESSIONS[:20])


def test_the_least_busy_comes_first_and_then_who_waited_longest() -> None:
    engines = Engines(URLS[:3], Timeouts())
    order = [engines.choose() for _ in range(6)]
    assert set(order[:3]) == set(engines.all)
    assert order[3:] == order[:3]
    engines.all[0].in_flight = engines.all[2].in_flight = 1
    assert {engines.choose() for _ in range(3)} == {engines.all[1]}


def test_who_failed_pauses_the_longer_the_more_often() -> None:
    engines = Engines(URLS[:2], Timeouts())
    bad, good = engines.all
    last = 0.0
    for _ in range(10):
        bad.failed(Exception("no"))
        pause = bad.paused_until - time.monotonic()
        assert last - 0.1 <= pause <= 8
        last = pause
    assert {engines.choose() for _ in range(3)} == {good}
    assert engines.choose(tried=[good]) is bad  # where no other is left
    bad.succeeded()
    assert {engines.choose() for _ in range(2)} == {good, bad}


def test_health_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)

    async def talk() -> None:
        with scripted(2) as engines:
            async with routed(engines, watched=True) as (route, _):
                first, second = route.engines.all
                engines[0].engine.is_healthy = False
                await until(lambda: not first.alive)
                for _ in range(4):
                    await route.whole(request(), "any session")
                assert engines[0].requests == 0
                engines[1].engine.is_healthy = False
                await until(lambda: not second.alive)
                with pytest.raises(EngineFailure) as caught:
                    await route.stream(request())
                error = caught.value
                assert (error.status, error.type, error.retry_after) == (503, "ServiceUnavailableError", 1)
                engines[0].engine.is_healthy = True
                await until(lambda: first.alive)
                assert await tokens(await route.stream(request())) == TOKENS
                assert engines[0].requests == 1

    asyncio.run(talk())


def test_whole_answers_of_an_engine_that_is_gone_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)

    async def talk() -> None:
        with scripted(2) as engines:
            async with routed(engines, watched=True, timeouts=Timeouts(1, 1, 0.5)) as (route, notes):
                route.engines.all[1].turn = 9.0
                engines[0].fail("stall")
                asked = asyncio.ensure_future(route.whole(request()))
                await asyncio.sleep(1.0)
                assert not asked.done()  # it is healthy, so it may take its time
                engines[0].engine.is_healthy = False
                assert (await asked).engine == engines[1].url
                assert notes.outcomes == {"failed": 1, "answered": 1}
                engines[0].fail(None)

    asyncio.run(talk())


def test_the_log_says_why_and_not_too_often(caplog: pytest.LogCaptureFixture) -> None:
    async def talk() -> None:
        async with routed([NOBODY], watched=True) as (route, _):
            engine = route.engines.all[0]
            await until(lambda: not engine.alive)
            for _ in range(5):
                engine.failed(Exception("no"))

    asyncio.run(talk())
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith(f"engine {NOBODY} is not healthy: Cannot connect") for line in said)
    assert said.count(f"engine {NOBODY}: no") == 1


def test_a_failure_has_health_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 60.0)

    async def talk() -> None:
        with scripted() as engines:
            async with routed([NOBODY, *engines], watched=True) as (route, _):
                nobody, somebody = route.engines.all
                await until(lambda: not nobody.alive)
                somebody.alive = False
                somebody.failed(Exception("no"))
                await until(lambda: somebody.alive)
                assert somebody.paused_until == 0

    asyncio.run(talk())
