"""Prefill and decode on different engines (contract K.2), and everything that fails between them."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from renderd.engine.client import Timeouts
from renderd.gateway.route import EngineFailure
from tests.gateway.scripted import NOBODY, TOKENS, Scripted, request, routed, scripted, tokens

PROMPT = list(range(1, 50))


@pytest.mark.parametrize("streams", [False, True])
def test_hand_over(streams: bool) -> None:
    async def talk() -> None:
        with scripted(2, has_kv=True) as (prefill, decode):
            async with routed([decode], [prefill]) as (route, notes):
                body = request(PROMPT, min_tokens=2, logprobs=3, n=2, stop_token_ids=[900])
                if streams:
                    generation = await route.stream(body)
                    found = await tokens(generation)
                    times = generation.times
                else:
                    whole = await route.whole(body)
                    found = [token for one in whole.response.choices for token in one.token_ids or ()]
                    times = whole.times
                assert sorted(found) == sorted(TOKENS * 2)
                assert times.prefill is not None
                assert notes.kv == {"handed_over": 1}
                assert (prefill.requests, decode.requests, decode.engine.counts["loaded"]) == (1, 1, 1)
                assert body.kv_transfer_params is None  # what was given is not written to
                assert body.request_id == "chatcmpl-1"
                assert "prefill" in [stage for _, stage in notes.stages]

    asyncio.run(talk())


def _answers(
    engines: list[Scripted | str],
    prefill: list[Scripted | str],
    kv: dict[str, int],
    body: Any = None,
    **options: Any,
) -> None:
    async def talk() -> None:
        async with routed(engines, prefill, timeouts=Timeouts(2, 1.0, 5.0), **options) as (route, notes):
            assert await tokens(await route.stream(body or request(PROMPT))) == TOKENS
            assert notes.kv == kv

    asyncio.run(talk())


def test_prefill_without_a_connector() -> None:
    with scripted(2) as (prefill, decode):
        _answers([decode], [prefill], {"no_parameters": 1})


@pytest.mark.parametrize("fault", ["refuse", "drop", "error", "stall"])
def test_prefill_fails(fault: Literal["refuse", "drop", "error", "stall"]) -> None:
    with scripted(2, has_kv=True) as (prefill, decode):
        prefill.fail(fault)
        _answers([decode], [prefill], {"prefill_failed": 1})
        assert decode.engine.counts["loaded"] == 0


def test_no_prefill_engine() -> None:
    with scripted() as (decode,):
        _answers([decode], [NOBODY], {"prefill_failed": 1})


def test_prefill_refuses_what_decode_refuses() -> None:
    async def talk() -> None:
        with scripted(2, has_kv=True) as (prefill, decode):
            async with routed([decode], [prefill]) as (route, notes):
                with pytest.raises(EngineFailure, match="temperature"):
                    await route.whole(request(PROMPT, temperature=-1))
                assert notes.outcomes == {"refused": 2}

    asyncio.run(talk())


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_kv_that_cannot_be_loaded(policy: Literal["fail", "recompute"], streams: bool) -> None:
    async def talk() -> None:
        with scripted(2, has_kv=True) as (prefill, decode), scripted(has_kv=True) as (other,):
            async with routed([decode, other], [prefill], kv_failure=policy) as (route, notes):
                # Prefill is asked for another prompt than decode: its blocks are not those of this one.
                hand_over = route._hand_over
                route._hand_over = lambda body, times: hand_over(request([7] * 40), times)  # type: ignore[method-assign, assignment]
                ask = route.stream if streams else route.whole
                if policy == "fail":
                    with pytest.raises(EngineFailure, match="Internal server error") as caught:
                        await ask(request(PROMPT))
                    assert caught.value.status == 500
                    assert notes.kv == {"handed_over": 1, "load_failed": 1}
                    assert decode.requests + other.requests == 1
                    return
                if streams:
                    assert await tokens(await route.stream(request(PROMPT))) == TOKENS
                else:
                    assert (await route.whole(request(PROMPT))).response.choices[0].token_ids == TOKENS
                assert notes.kv == {"handed_over": 1, "load_failed": 1, "recomputed": 1}
                assert sorted([decode.requests, other.requests]) == [0, 2]  # the same engine once more

    asyncio.run(talk())


def test_decode_refuses_and_another_loads() -> None:
    with scripted(3, has_kv=True) as (prefill, first, second):
        first.fail("refuse")
        for _ in range(2):
            _answers([first, second], [prefill], {"handed_over": 1})
        assert second.engine.counts["loaded"] == 2


def test_who_hands_over_by_himself() -> None:
    with scripted(2, has_kv=True) as (prefill, decode):
        body = request(PROMPT)
        body.kv_transfer_params = {"do_remote_prefill": False}
        _answers([decode], [prefill], {}, body)
        assert prefill.requests == 0


def test_logprobs_of_the_prompt_come_from_who_computes_it() -> None:
    with scripted(2, has_kv=True) as (prefill, decode):
        _answers([decode], [prefill], {}, request(PROMPT, prompt_logprobs=1))
        assert prefill.requests == 0


def test_cancelling_during_prefill_aborts_it() -> None:
    async def talk() -> None:
        with scripted(2, has_kv=True) as (prefill, decode):
            async with routed([decode], [prefill]) as (route, _):
                task = asyncio.ensure_future(route.stream(request(PROMPT, extra_args={"force_delay": 1.0})))
                await asyncio.sleep(0.2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert decode.requests == 0

    asyncio.run(talk())


def test_sessions_are_those_of_decode_and_prefill_is_shared_out() -> None:
    async def talk() -> None:
        with scripted(2, has_kv=True) as prefill, scripted(3, has_kv=True) as decode:
            async with routed(decode, prefill) as (route, _):
                for _ in range(6):
                    await route.whole(request(PROMPT), "conversation")
                assert sorted(one.requests for one in decode) == [0, 0, 6]
                assert [one.requests for one in prefill] == [3, 3]

    asyncio.run(talk())
