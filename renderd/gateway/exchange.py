"""One request between its rendering and its answer: to an engine, and what comes back to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from renderd import telemetry
from renderd.derender.live import Live
from renderd.gateway.desk import Desk
from renderd.gateway.face import Writer
from renderd.gateway.merged import Merged
from renderd.gateway.prepared import Prepared
from renderd.gateway.route import Generation, Route, StageTimes
from renderd.wire.errors import ApiError, internal_error
from renderd.wire.generate import (
    ChoiceLogprobs,
    GenerateChoice,
    GenerateChunk,
    GenerateChunkChoice,
    GenerateResponse,
    TokenLogprob,
)

logger = logging.getLogger("renderd.gateway")

MAX_PIECES = 64
"""Chunks that are written at once at most, of those that an engine has sent already."""


async def responses(desk: Desk, route: Route, prepared: Prepared) -> list[GenerateResponse]:
    """What the engines answer, one whole answer a prompt. Raises EngineFailure."""
    ways = [_response(desk, route, prepared, at) for at in range(len(prepared.prompts))]
    if len(ways) == 1:
        return [await ways[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(way) for way in ways]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _response(desk: Desk, route: Route, prepared: Prepared, at: int) -> GenerateResponse:
    prompt = prepared.prompts[at]
    stops = bool(prepared.context.stop)
    if stops and prompt.generate.sampling_params.get("prompt_logprobs") is None:
        generation = await route.stream(prompt.request(False), prepared.session)
        response, times = await _collected(generation, desk.live(prepared, at)), generation.times
    else:  # no stream has log probabilities of the prompt
        answered = await route.whole(prompt.request(False), prepared.session)
        response, times = answered.response, answered.times
        if stops:
            response = _shortened(response, desk.live(prepared, at))
    if prepared.stage_times:
        response.metrics = {**(response.metrics or {}), **_stages(times)}
    return response


def _stages(times: StageTimes) -> dict[str, Any]:
    return {"stage_seconds": msgspec.structs.asdict(times)}


async def events(writer: Writer, route: Route, prepared: Prepared) -> AsyncGenerator[bytes, None]:
    """The event stream of a request, in pieces of one chunk or of several that were there already.

    Raises ApiError before the first piece, which comes when an engine has said something. Ending it early
    ends the request on the engine.
    """
    generation = await _begun(route, prepared)
    async with aclosing(generation):
        try:
            pieces = [writer.begin()]
            async for event in generation:
                if piece := writer.read(event):
                    pieces.append(piece)
                if writer.cut:
                    break
                if pieces and (not generation.pending or len(pieces) >= MAX_PIECES):
                    yield b"".join(pieces)
                    pieces.clear()
            if prepared.stage_times:
                times = GenerateChunk(request_id="", choices=[], metrics=_stages(generation.times))
                pieces.append(writer.read(times))
            pieces.append(writer.end())
        except ApiError as error:
            pieces.append(writer.failure(error))
        except Exception:
            logger.exception("an answer broke off: a defect of renderd")
            pieces.append(writer.failure(internal_error()))
        yield b"".join(pieces)


async def _begun(route: Route, prepared: Prepared) -> Generation:
    counted = prepared.include_usage
    requests = [prompt.request(counted) for prompt in prepared.prompts]
    if len(requests) == 1:
        return await route.stream(requests[0], prepared.session)
    return await Merged(route, requests, prepared.session, prepared.choices).begin()


async def _collected(generation: Generation, live: Live) -> GenerateResponse:
    """The whole answer of a stream, which ends with the text: at a stop string or at the engine's end."""
    gathered = _Gathered(live)
    async with aclosing(generation):
        async for event in generation:
            gathered.response.usage = event.usage or gathered.response.usage
            gathered.response.metrics = event.metrics or gathered.response.metrics
            for choice in event.choices:
                gathered.take(choice)
            if live.cut:
                break
    return gathered.response


def _shortened(response: GenerateResponse, live: Live) -> GenerateResponse:
    """An answer without what comes behind a stop string."""
    gathered = _Gathered(live)
    for choice in response.choices:
        entries = choice.logprobs.content if choice.logprobs else None
        ids = choice.token_ids or []
        for at, token_id in enumerate(ids):
            last = at + 1 == len(ids)
            gathered.take(
                GenerateChunkChoice(
                    choice.index,
                    choice.finish_reason if last else None,
                    choice.stop_reason if last else None,
                    [token_id],
                    logprobs=ChoiceLogprobs(entries[at : at + 1]) if entries else None,
                )
            )
    response.choices = gathered.response.choices
    return response


class _Gathered:
    """The choices of an answer, as far as they have come and count."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._ids: list[list[int]] = [[] for _ in live.choices]
        self._entries: list[list[TokenLogprob]] = [[] for _ in live.choices]
        choices = [GenerateChoice(index, None, token_ids=ids) for index, ids in enumerate(self._ids)]
        self.response = GenerateResponse(request_id="", choices=choices)

    def take(self, news: GenerateChunkChoice) -> None:
        at, choice = news.index, self.response.choices[news.index]
        if self._live.choices[at].ended:
            return
        stop = self._live.choices[at].read(news).stop_reason
        matched = isinstance(stop, str)
        choice.finish_reason = "stop" if matched else news.finish_reason
        choice.stop_reason = stop if matched else news.stop_reason
        choice.weight_versions = news.weight_versions
        self._ids[at] += news.token_ids or ()
        telemetry.derendered(-len(news.token_ids or ()))  # they count when the answer is made
        if news.logprobs is not None:
            self._entries[at] += news.logprobs.content or ()
            choice.logprobs = ChoiceLogprobs(self._entries[at])


def tokens_of(finished: Sequence[GenerateResponse]) -> int:
    """Of all answers."""
    return sum(len(choice.token_ids or ()) for response in finished for choice in response.choices)
