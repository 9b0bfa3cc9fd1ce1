"""The way of a request: failover, aborts, and what clients are told. No test leaves anything in flight."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from typing import Literal

import pytest

from renderd.demo import model_dir
from renderd.engine.client import Timeouts
from renderd.gateway.route import EngineFailure
from tests.gateway.scripted import NOBODY, TOKENS, closing, request, routed, scripted, tokens, until

Fault = Literal["refuse", "drop", "error", "stall"]
FAULTS: list[Fault] = ["refuse", "drop", "error", "stall"]


def quick(fault: Fault | None) -> Timeouts:
    """Short where the test waits for one."""
    return Timeouts(2.0, 0.3 if fault == "stall" else 10.0, 10.0)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_stream_and_a_whole_answer() -> None:
    async def talk() -> None:
        with scripted() as engines:
            async with routed(engines) as (route, notes):
                generation = await route.stream(request())
                assert generation.engine == engines[0].url
                assert await tokens(generation) == TOKENS
                times = generation.times
                assert None not in (times.queue, times.first_token, times.decode)
                assert times.prefill is None
                whole = await route.whole(request())
                assert whole.response.choices[0].token_ids == TOKENS
                assert whole.response.request_id.startswith("generate-tokens-chatcmpl-1-")
                assert notes.outcomes == {"answered": 2}
                stages = [stage for _, stage in notes.stages]
                assert stages == ["queue", "first_token", "decode", "queue", "decode"]

    asyncio.run(talk())


def test_connections_are_used_again() -> None:
    async def talk() -> None:
        with scripted() as engines:
            async with routed(engines) as (route, _):
                for _ in range(10):
                    await tokens(await route.stream(request()))
                made = route.engines.all[0].client._made
                assert made is not None and made.connector is not None
                await until(lambda: sum(map(len, made.connector._conns.values())) == 1)

    asyncio.run(talk())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("streams", [False, True])
def test_another_engine_gets_it_before_the_first_token(fault: Fault, streams: bool) -> None:
    if fault == "stall" and not streams:
        pytest.skip("a whole answer may take any time")

    async def talk() -> None:
        with scripted(2) as engines:
            async with routed(engines, timeouts=quick(fault)) as (route, notes):
                route.engines.all[1].turn = 9.0  # the first comes first
                engines[0].fail(fault)
                if streams:
                    generation = await route.stream(request())
                    assert await tokens(generation) == TOKENS
                    assert generation.engine == engines[1].url
                    assert (generation.times.queue or 0) >= (0.2 if fault == "stall" else 0)
                else:
                    assert (await route.whole(request())).engine == engines[1].url
                assert notes.outcomes == {"failed": 1, "answered": 1}
                # The first has just failed: as long as there is another, that one is asked.
                assert (await route.whole(request())).engine == engines[1].url
                assert engines[0].requests == 1

    asyncio.run(talk())


def test_an_engine_that_nobody_runs() -> None:
    async def talk() -> None:
        with scripted() as engines:
            async with routed([NOBODY, *engines]) as (route, notes):
                route.engines.all[1].turn = 9.0
                assert await tokens(await route.stream(request())) == TOKENS
                assert notes.outcomes == {"failed": 1, "answered": 1}

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("fault", "status"), [("refuse", 503), ("drop", 502), ("error", 500), ("stall", 504), (None, 503)]
)
def test_when_all_fail(fault: Fault | None, status: int) -> None:
    async def talk() -> None:
        with scripted(2) as engines:
            for engine in engines:
                engine.fail(fault)
            async with routed(engines if fault else [NOBODY], timeouts=quick(fault)) as (route, notes):
                for _ in range(2):  # they have all just failed; they are asked all the same
                    with pytest.raises(EngineFailure) as caught:
                        await route.stream(request())
                    assert (caught.value.status, caught.value.begun) == (status, False)
                    assert (caught.value.retry_after is not None) == (status == 503)
                assert notes.outcomes == {"failed": 4 if fault else 2}

    asyncio.run(talk())


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_retries(retries: int) -> None:
    async def talk() -> None:
        with scripted(4) as engines:
            for engine in engines:
                engine.fail("refuse")
            async with routed(engines, retries=retries) as (route, _):
                with pytest.raises(EngineFailure, match="told to refuse"):
                    await route.whole(request())
                assert sum(engine.requests for engine in engines) == 1 + retries
                assert max(engine.requests for engine in engines) == 1

    asyncio.run(talk())


@pytest.mark.parametrize("streams", [False, True])
def test_what_an_engine_refuses_is_refused(streams: bool) -> None:
    async def talk() -> None:
        with scripted(2) as engines:
            async with routed(engines) as (route, notes):
                with pytest.raises(EngineFailure) as caught:
                    await (route.stream if streams else route.whole)(request(temperature=-1))
                error = caught.value
                assert (error.status, error.type, error.param) == (400, "BadRequestError", "temperature")
                assert error.message.startswith("temperature must be non-negative, got -1.0.")
                assert notes.outcomes == {"refused": 1}
                assert all(engine.paused_until == 0 for engine in route.engines.all)

    asyncio.run(talk())


@pytest.mark.parametrize(("fault", "status"), [("drop", 502), ("error", 500), ("stall", 504)])
def test_what_is_lost_after_the_first_token_is_lost(fault: Fault, status: int) -> None:
    async def talk() -> None:
        with scripted(2) as engines:
            for engine in engines:
                engine.fail(fault, after=2)
            async with routed(engines, timeouts=Timeouts(2.0, 10.0, 0.3)) as (route, notes):
                generation = await route.stream(request())
                found = []
                async with closing(generation):
                    with pytest.raises(EngineFailure) as caught:
                        async for chunk in generation:
                            found += chunk.choices[0].token_ids or []
                assert found == TOKENS[:2]
                assert (caught.value.status, caught.value.begun) == (status, True)
                assert notes.outcomes == {"lost": 1}
                await asyncio.sleep(0.1)
                assert sum(engine.engine.counts["aborts"] for engine in engines) == (fault == "stall")

    asyncio.run(talk())


ENDLESS = {"max_tokens": 4000, "ignore_eos": True, "extra_args": {"force_delay": 0.01}}


@pytest.mark.parametrize("read", [0, 1, 3])
def test_closing_aborts(read: int) -> None:
    async def talk() -> None:
        with scripted() as engines:
            async with routed(engines) as (route, notes):
                generation = await route.stream(request(**ENDLESS))
                async with closing(generation):
                    for _ in range(read):
                        await anext(generation)
                await generation.aclose()  # once more does no harm
                await until(lambda: engines[0].engine.counts["aborts"] == 1)
                assert notes.outcomes == {"aborted": 1}

    asyncio.run(talk())


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("seconds", [0.0, 0.15])
def test_cancelling_before_the_first_token_aborts(streams: bool, seconds: float) -> None:
    async def talk() -> None:
        with scripted() as engines:
            async with routed(engines) as (route, notes):
                await route.engines.all[0].client.illness(1)
                slow = request(max_tokens=20, extra_args={"force_delay": 0.5})
                task = asyncio.ensure_future((route.stream if streams else route.whole)(slow))
                await asyncio.sleep(seconds)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                if seconds:
                    await until(lambda: engines[0].engine.counts["aborts"] == 1)
                    assert notes.outcomes == {"aborted": 1}

    asyncio.run(talk())


def test_cancelling_a_reader_aborts() -> None:
    async def talk() -> None:
        with scripted() as engines:
            async with routed(engines) as (route, notes):

                async def read() -> None:
                    await tokens(await route.stream(request(**ENDLESS)))

                task = asyncio.create_task(read())
                await asyncio.sleep(0.2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await until(lambda: engines[0].engine.counts["aborts"] == 1)
                assert notes.outcomes == {"aborted": 1}

    asyncio.run(talk())


def test_same_ids_of_two_clients_are_two_requests() -> None:
    async def talk() -> None:
        with scripted() as engines:
            async with routed(engines) as (route, _):
                first = await route.stream(
                    request(max_tokens=20, ignore_eos=True, extra_args={"force_delay": 0.02})
                )
                second = await route.stream(request(**ENDLESS))
                await second.aclose()
                await until(lambda: engines[0].engine.counts["aborts"] == 1)
                assert len(await tokens(first)) == 20

    asyncio.run(talk())


def test_a_reader_that_stops_holds_the_engine_up() -> None:
    """Back-pressure: what an engine says is not collected for a client that does not read."""

    async def talk() -> None:
        with scripted() as engines:
            async with routed(engines) as (route, _):
                many = request(max_tokens=7000, n=8, ignore_eos=True, logprobs=20)  # some 100 MB
                generation = await route.stream(many)
                async with closing(generation):
                    await anext(generation)
                    await asyncio.sleep(1.0)
                    stream = generation._stream  # type: ignore[attr-defined]
                    assert sum(map(len, stream._events)) < 300_000
                    assert stream._response.content.total_bytes < 1_000_000
                    assert engines[0].engine.running == 1

    asyncio.run(talk())


def test_an_engine_that_is_killed_in_mid_stream() -> None:
    async def talk() -> None:
        with scripted() as (other,):
            command = ["-m", "renderd", "engine", str(model_dir()), "--served-model-name", "demo", "--port"]
            port = free_port()
            process = await asyncio.create_subprocess_exec(sys.executable, *command, str(port))
            url = f"http://127.0.0.1:{port}"
            try:
                async with routed([url, other], watched=True) as (route, notes):
                    mine = route.engines.all[0]
                    await until(lambda: not mine.alive)  # it has not started yet
                    await until(lambda: mine.alive, 60)
                    mine.turn = 0.0
                    generation = await route.stream(request(**ENDLESS))
                    assert generation.engine == url
                    async with closing(generation):
                        for _ in range(3):
                            await anext(generation)
                        process.kill()
                        with pytest.raises(EngineFailure) as caught:
                            async for _ in generation:
                                pass
                    assert (caught.value.status, caught.value.begun) == (502, True)
                    assert (await route.whole(request())).engine == other.url
                    await until(lambda: not mine.alive)
                    assert notes.outcomes == {"lost": 1, "answered": 1}
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    asyncio.run(talk())


def test_many_at_once_and_all_at_once_gone() -> None:
    async def talk() -> None:
        with scripted(3) as engines:
            async with routed(engines) as (route, notes):

                async def ask(number: int) -> None:
                    faults = [None, "refuse", "drop", "error", {"kind": "drop", "after": 2}]
                    body = request(extra_args={"force_fault": faults[number % 5], "force_delay": 0.01})
                    generation = await route.stream(body)
                    async with closing(generation):
                        async for _ in generation:
                            if number % 3 == 0:
                                break

                found = await asyncio.gather(*map(ask, range(150)), return_exceptions=True)
                assert {type(one) for one in found} == {type(None), EngineFailure}
                assert sum(notes.outcomes.values()) >= 150
                assert {one.in_flight for one in route.engines.all} == {0}

    asyncio.run(talk())
    gc.collect()
