"""What an engine says of one request, checked where it is decoded: what passes here can be written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from renderd.engine.client import EngineFailure, EventStream
from renderd.wire.generate import (
    GenerateChoice,
    GenerateChunk,
    GenerateChunkChoice,
    GenerateRequest,
    GenerateResponse,
    GenerateUsage,
)

T = TypeVar("T")

_Id = Annotated[int, Meta(ge=0, lt=1 << 32)]
_Count = Annotated[int, Meta(ge=0, lt=1 << 32)]


class _Candidate(msgspec.Struct):
    """What is known of a token of a prompt."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: _Count | None = None
    created_cache_tokens: _Count | None = None


_RESPONSES = msgspec.json.Decoder(GenerateResponse)
_CHUNKS = msgspec.json.Decoder(GenerateChunk)


class Reader:
    """Reads the answer to one request. Raises EngineFailure, 502, for what is none."""

    def __init__(self, request: GenerateRequest) -> None:
        self._prompt_tokens = len(request.token_ids)
        self._count: int = request.sampling_params.get("n") or 1
        self._running = set(range(self._count))

    def response(self, data: bytes) -> GenerateResponse:
        """A whole answer, which has each of the choices once."""
        response = _decoded(_RESPONSES, data)
        indexes = [choice.index for choice in response.choices]
        if sorted(indexes) != list(range(self._count)):
            raise _malformed(f"it has the choices {indexes[:10]}, and {self._count} were asked for")
        self._check(response.choices, response.usage)
        if (logprobs := response.prompt_logprobs) is not None:
            _convert(logprobs, list[dict[_Id, _Candidate] | None])
            if len(logprobs) != self._prompt_tokens:
                raise _malformed(f"prompt_logprobs of {len(logprobs)} tokens, not of {self._prompt_tokens}")
        return response

    async def next(self, stream: EventStream) -> GenerateChunk:
        """The next event of a stream. Raises StopAsyncIteration at its end, which is that of all choices."""
        try:
            data = await stream.__anext__()
        except StopAsyncIteration:
            if self._running:
                cause = f"[DONE] came before the end of choice {min(self._running)}"
                raise _failure("The engine broke off its answer.", cause) from None
            raise
        chunk = _decoded(_CHUNKS, data)
        self._check(chunk.choices, chunk.usage)
        for choice in chunk.choices:
            if choice.finish_reason is not None:
                self._running.discard(choice.index)
        return chunk

    def _check(
        self, choices: Iterable[GenerateChoice | GenerateChunkChoice], usage: GenerateUsage | None
    ) -> None:
        for choice in choices:
            if not 0 <= choice.index < self._count:
                raise _malformed(f"choice {choice.index} of {self._count}")
            ids = choice.token_ids
            if ids and not 0 <= min(ids) <= max(ids) < 1 << 32:
                raise _malformed("a token id that no tokenizer has")
        if usage is not None and usage.prompt_tokens_details is not None:
            _convert(usage.prompt_tokens_details, _PromptDetails)


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except Exception as error:  # also RecursionError: whatever it is, the data is to blame
        raise _malformed(str(error) or type(error).__name__) from error


def _convert(value: Any, type: Any) -> None:
    try:
        msgspec.convert(value, type, str_keys=True)
    except Exception as error:
        raise _malformed(str(error)) from error


def _malformed(cause: str) -> EngineFailure:
    return _failure("The engine's answer is malformed.", cause)


def _failure(message: str, cause: str) -> EngineFailure:
    """`cause`: for the log."""
    failure = EngineFailure(502, "BadGatewayError", message)
    failure.add_note(cause)
    return failure
