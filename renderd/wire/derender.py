"""Bodies of the derender routes (contract E.1). Fields typed `Raw` are decoded only when needed.

A body that is written as its type says is decoded in one go; any other is read leniently, field by field.
"""

from __future__ import annotations

import json
from functools import cache
from math import isfinite
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import NODEFAULT, Meta, Raw
from msgspec.structs import FieldInfo, fields

from renderd.wire.decode import convert, parse_json, parse_object, validation_error
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import GenerateChunk, GenerateResponse
from renderd.wire.state import DerenderStreamState

T = TypeVar("T", bound=msgspec.Struct)

PromptIds = list[Annotated[int, Meta(ge=0)]]


class FinishedMessage(msgspec.Struct):
    """What the bodies of finished messages have, besides their request."""

    generate_response: GenerateResponse
    stream: bool = False
    model: str | None = None
    prompt_tokens: int | None = None
    prompt_token_ids: PromptIds | None = None


class StreamedEvent(msgspec.Struct):
    """What the bodies of one event of a stream have, besides their request. The state is the one that the
    last call returned, null at first."""

    generate_chunk: GenerateChunk
    stream: bool
    model: str | None = None
    stream_state: DerenderStreamState | None = None
    prompt_tokens: int | None = None
    prompt_token_ids: Raw = msgspec.field(default_factory=Raw)


M = TypeVar("M", bound=FinishedMessage)
E = TypeVar("E", bound=StreamedEvent)
F = TypeVar("F", bound="FinishedMessage | DerenderCompletionRequest")


class DerenderChatRequest(FinishedMessage):
    """A finished chat answer to derender. `chat_request` is the chat request as the client sent it."""

    chat_request: Raw = msgspec.field(default_factory=Raw)


class DerenderChatStreamRequest(StreamedEvent):
    """One event of a streamed chat answer."""

    chat_request: Raw = msgspec.field(default_factory=Raw)


class DerenderCompletionRequest(msgspec.Struct):
    """Finished completion answers to derender, one a prompt; the lists run in parallel to them."""

    generate_responses: list[GenerateResponse]
    stream: bool = False
    model: str | None = None
    prompt_tokens: list[int] | None = None
    prompt_token_ids: list[PromptIds | None] | None = None
    completion_request: Raw = msgspec.field(default_factory=Raw)


class DerenderCompletionStreamRequest(StreamedEvent):
    """One event of a streamed completion."""

    completion_request: Raw = msgspec.field(default_factory=Raw)


class DerenderMessagesRequest(FinishedMessage):
    """A finished message to derender. `messages_request` is the messages request as the client sent it."""

    messages_request: Raw = msgspec.field(default_factory=Raw)


class DerenderMessagesStreamRequest(StreamedEvent):
    """One event of a streamed message."""

    messages_request: Raw = msgspec.field(default_factory=Raw)


class DerenderResponsesRequest(FinishedMessage):
    """A finished response to derender. `responses_request` is the request as the client sent it."""

    responses_request: Raw = msgspec.field(default_factory=Raw)


class DerenderResponsesStreamRequest(StreamedEvent):
    """One event of a streamed response."""

    responses_request: Raw = msgspec.field(default_factory=Raw)


def decode_chat(body: bytes) -> DerenderChatRequest | DerenderChatStreamRequest:
    """The body of `/v1/chat/completions/derender`. Raises ApiError 400."""
    return _decode_message(body, DerenderChatRequest, DerenderChatStreamRequest)


def decode_messages(body: bytes) -> DerenderMessagesRequest | DerenderMessagesStreamRequest:
    """The body of `/v1/messages/derender`. Raises ApiError 400."""
    return _decode_message(body, DerenderMessagesRequest, DerenderMessagesStreamRequest)


def decode_responses(body: bytes) -> DerenderResponsesRequest | DerenderResponsesStreamRequest:
    """The body of `/v1/responses/derender`. Raises ApiError 400."""
    return _decode_message(body, DerenderResponsesRequest, DerenderResponsesStreamRequest)


def _decode_message(body: bytes, finished: type[M], streamed: type[E]) -> M | E:
    request = _read(body, finished, streamed)
    if isinstance(request, FinishedMessage):
        _check_ids(request.generate_response, f"body.{finished.__name__}.generate_response")
    else:
        _check_history(request.stream_state, finished)
    return request


def decode_completion(body: bytes) -> DerenderCompletionRequest | DerenderCompletionStreamRequest:
    """The body of `/v1/completions/derender`. Raises ApiError 400."""
    request = _read(body, DerenderCompletionRequest, DerenderCompletionStreamRequest)
    if isinstance(request, DerenderCompletionStreamRequest):
        _check_history(request.stream_state, DerenderCompletionRequest)
        return request
    count = len(request.generate_responses)
    for name in ("prompt_tokens", "prompt_token_ids"):
        given = getattr(request, name)
        if given is not None and len(given) != count:
            message = f"{name} length ({len(given)}) must equal generate_responses length ({count})"
            raise validation_error("body", message)
    for at, response in enumerate(request.generate_responses):
        _check_ids(response, f"body.DerenderCompletionRequest.generate_responses.{at}")
    return request


def is_null(value: Raw) -> bool:
    """Whether a `Raw` field was not sent, or null."""
    return bytes(memoryview(value)[:5]) in (b"", b"null")


def decode_field(value: Raw, type: Any, loc: str) -> Any:
    """What a `Raw` field holds, as `type`. Raises ApiError 400 below the dotted place `loc`."""
    try:
        return _decoder(type).decode(value)
    except _NOT_STRICT:
        return convert(parse_json(bytes(value)), type, loc)


_NOT_STRICT = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_fields = cache(fields)
_decoder = cache(msgspec.json.Decoder)


def _read(body: bytes, finished: type[F], streamed: type[E]) -> F | E:
    """A body as the one of two types that its `stream` says."""
    kinds: tuple[Any, ...] = (streamed, finished)
    for kind in kinds:
        try:
            if not body.isascii():
                body.decode()  # msgspec does not look at what it skips
            request: F | E = _decoder(kind).decode(body)
        except _NOT_STRICT:
            continue
        if request.stream is (kind is streamed):
            return request
    values = parse_object(body)
    named = _stream_field(finished)
    if not convert(values.get("stream", False), bool, named):
        return _bind(values, finished)
    try:
        return _bind(values, streamed)
    except ApiError as error:
        error.param = error.param and named
        raise


def _stream_field(finished: type[msgspec.Struct]) -> str:
    """What errors of streamed events name: the batch type's, which vLLM tries first (contract A.3)."""
    return f"body.{finished.__name__}.stream"


def _check_history(state: DerenderStreamState | None, finished: type[msgspec.Struct]) -> None:
    if state is None or not (state.output_token_ids or state.output_chunk_lens):
        return
    count, length = sum(state.output_chunk_lens), len(state.output_token_ids)
    if count != length:
        raise validation_error(
            _stream_field(finished),
            "stream_state: output_chunk_lens must sum to len(output_token_ids) "
            f"(got sum={count}, len(output_token_ids)={length})",
        )


def _bind(values: dict[str, Any], type: type[T]) -> T:
    loc = f"body.{type.__name__}"
    found: dict[str, Any] = {}
    for field in _fields(type):
        if field.name in values:
            found[field.name] = _field(values[field.name], field, f"{loc}.{field.name}")
        elif field.required:
            raise validation_error(f"{loc}.{field.name}", "Field required")
    return type(**found)


def _field(value: Any, field: FieldInfo, loc: str) -> Any:
    if field.type is Raw:
        try:
            return Raw(json.dumps(value).encode())
        except (ValueError, RecursionError):
            raise validation_error(loc, "Input cannot be read") from None
    if value is None and field.default is None:
        return None
    if value is None and field.default is not NODEFAULT:
        raise validation_error(loc, "Input should not be null")
    found = convert(value, field.type, loc)
    if field.name in _OF_ENGINES and not _finite(found):
        raise bad_request("Out of range float values are not JSON compliant")
    return found


_OF_ENGINES = ("generate_response", "generate_responses", "generate_chunk")
"""Fields whose values are handed on."""


def _finite(value: Any) -> bool:
    """Whether all numbers can be written as JSON, which has no NaN and no infinity."""
    left = [msgspec.to_builtins(value)]
    while left:
        one = left.pop()
        if isinstance(one, float) and not isfinite(one):
            return False
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return True


def _check_ids(response: GenerateResponse, loc: str) -> None:
    for at, choice in enumerate(response.choices):
        if choice.token_ids and min(choice.token_ids) < 0:
            place = f"{loc}.choices.{at}.token_ids"
            raise validation_error(place, "token_ids must not contain negative values")
