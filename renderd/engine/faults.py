"""How the scripted engine fails on demand, so that what stands in front of engines can be tried.

A fault is `{"kind": KIND, "after": EVENTS}` or, because a chat's `vllm_xargs` hold no objects, a text: "KIND"
or "KIND:EVENTS". It stands in `force_fault` of a request's `sampling_params.extra_args`, or holds for all
requests of an engine (POST /script).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Literal

import msgspec
from fastapi.responses import StreamingResponse
from starlette.types import Send

from renderd.engine.generation import Generation
from renderd.wire.errors import ApiError, bad_request


class Fault(msgspec.Struct):
    """What goes wrong after so many events; of a whole answer, at once.

    `refuse`: 503. `drop`: the connection is closed. `error`: an error instead of an event. `stall`: nothing
    more is said.
    """

    kind: Literal["refuse", "drop", "error", "stall"]
    after: int = 0


class Dropped(Exception):
    """The connection is to be closed."""


def fault_of(value: Any) -> Fault | None:
    """What a client wrote. Raises ApiError 400."""
    if value is None or isinstance(value, Fault):
        return value
    if isinstance(value, str):
        kind, _, after = value.partition(":")
        value = {"kind": kind, "after": after or 0}
    try:
        return msgspec.convert(value, Fault, strict=False)
    except msgspec.ValidationError as error:
        raise bad_request(f"force_fault cannot be used: {error}", "force_fault") from None


def internal_error() -> ApiError:
    """What an engine says of whatever went wrong in it, KV that cannot be loaded too (contract G.2)."""
    return ApiError(500, "InternalServerError", "Internal server error")


def overloaded() -> ApiError:
    """A refusal."""
    return ApiError(503, "ServiceUnavailableError", "The engine was told to refuse.", retry_after=1)


async def strike(fault: Fault, generation: Generation) -> None:
    """Let it happen. Raises Dropped, or ApiError; or returns when the request is aborted."""
    if fault.kind == "drop":
        raise Dropped
    if fault.kind != "stall":
        raise overloaded() if fault.kind == "refuse" else internal_error()
    while not generation.is_aborted:
        await asyncio.sleep(0.05)


async def spoiled(
    events: AsyncGenerator[bytes, None], fault: Fault, generation: Generation
) -> AsyncGenerator[bytes, None]:
    """The events until it happens."""
    left = fault.after
    async with aclosing(events):
        async for event in events:
            if not left:
                await strike(fault, generation)
            left -= 1
            yield event


class Droppable(StreamingResponse):
    """An event stream that ends where Dropped is raised: the server then closes the connection."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream")

    async def stream_response(self, send: Send) -> None:
        with suppress(Dropped):
            await super().stream_response(send)
