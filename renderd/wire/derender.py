"""Bodies of the derender routes (contract E.1). Fields typed `Raw` are decoded only when needed."""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import NODEFAULT, Meta, Raw
from msgspec.structs import FieldInfo, fields

from renderd.wire.decode import convert, parse_json, parse_object, validation_error
from renderd.wire.errors import ApiError
from renderd.wire.generate import GenerateChunk, GenerateResponse
from renderd.wire.state import DerenderStreamState

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

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
    stream: bool = True
    model: str | None = None
    stream_state: DerenderStreamState | None = None
    prompt_tokens: int | None = None
    prompt_token_ids: Raw | None = None


M = TypeVar("M", bound=FinishedMessage)
E = TypeVar("E", bound=StreamedEvent)


class DerenderChatRequest(FinishedMessage):
    """A finished chat answer to derender. `chat_request` is the chat request as the client sent it."""

    chat_request: Raw | None = None


class DerenderChatStreamRequest(StreamedEvent):
    """One event of a streamed chat answer."""

    chat_request: Raw | None = None


class DerenderCompletionRequest(msgspec.Struct):
    """Finished completion answers to derender, one a prompt; the lists run in parallel to them."""

    generate_responses: list[GenerateResponse]
    stream: bool = False
    model: str | None = None
    prompt_tokens: list[int] | None = None
    prompt_token_ids: list[PromptIds | None] | None = None
    completion_request: Raw | None = None


class DerenderCompletionStreamRequest(StreamedEvent):
    """One event of a streamed completion."""

    completion_request: Raw | None = None


class DerenderMessagesRequest(FinishedMessage):
    """A finished message to derender. `messages_request` is the messages request as the client sent it."""

    messages_request: Raw | None = None


class DerenderMessagesStreamRequest(StreamedEvent):
    """One event of a streamed message."""

    messages_request: Raw | None = None


class DerenderResponsesRequest(FinishedMessage):
    """A finished response to derender. `responses_request` is the request as the client sent it."""

    responses_request: Raw | None = None


class DerenderResponsesStreamRequest(StreamedEvent):
    """One event of a streamed response."""

    responses_request: Raw | None = None


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
    values = _split(body)
    if _streams(values, finished):
        return _bind_stream(values, streamed, finished)
    request = _bind(values, finished)
    _check_ids(request.generate_response, f"body.{finished.__name__}.generate_response")
    return request


def decode_completion(body: bytes) -> DerenderCompletionRequest | DerenderCompletionStreamRequest:
    """The body of `/v1/completions/derender`. Raises ApiError 400."""
    values = _split(body)
    if _streams(values, DerenderCompletionRequest):
        return _bind_stream(values, DerenderCompletionStreamRequest, DerenderCompletionRequest)
    request = _bind(values, DerenderCompletionRequest)
    count = len(request.generate_responses)
    for name in ("prompt_tokens", "prompt_token_ids"):
        given = getattr(request, name)
        if given is not None and len(given) != count:
            message = f"{name} length ({len(given)}) must equal generate_responses length ({count})"
            raise validation_error("body", message)
    for at, response in enumerate(request.generate_responses):
        _check_ids(response, f"body.DerenderCompletionRequest.generate_responses.{at}")
    return request


def decode_field(value: Raw, type: Any, loc: str) -> Any:
    """What a `Raw` field holds, as `type`. Raises ApiError 400 below the dotted place `loc`."""
    return _convert(value, type, loc)


_MAP = msgspec.json.Decoder(dict[str, Raw])
_NULL = b"null"
_fields = cache(fields)
_decoder = cache(msgspec.json.Decoder)


def _split(body: bytes) -> dict[str, Any]:
    """The fields of a body, undecoded where JSON is strict, as Python values where it is not."""
    try:
        return dict(_MAP.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return parse_object(body)


def _streams(values: dict[str, Any], batch: type[msgspec.Struct]) -> bool:
    """Which of the two bodies it is. The batch member is the one that vLLM names in errors (contract A.3)."""
    value = values.get("stream", False)
    return bool(_convert(value, bool, f"body.{batch.__name__}.stream"))


def _bind_stream(values: dict[str, Any], type: type[S], batch: type[msgspec.Struct]) -> S:
    try:
        return _bind(values, type)
    except ApiError as error:
        # vLLM tries the batch body first, so that the first error it finds in a streaming one is always this.
        error.param = f"body.{batch.__name__}.stream"
        raise


def _bind(values: dict[str, Any], type: type[S]) -> S:
    loc = f"body.{type.__name__}"
    found: dict[str, Any] = {}
    for field in _fields(type):
        if field.name in values:
            found[field.name] = _field(values[field.name], field, f"{loc}.{field.name}")
        elif field.required:
            raise validation_error(f"{loc}.{field.name}", "Field required")
    return type(**found)


def _field(value: Any, field: FieldInfo, loc: str) -> Any:
    null = value is None or (isinstance(value, Raw) and memoryview(value) == _NULL)
    if null and field.default is None:
        return None
    if field.type == Raw | None:
        return value if isinstance(value, Raw) else Raw(json.dumps(value).encode())
    if null and field.default is not NODEFAULT:
        raise validation_error(loc, "Input should not be null")
    return _convert(value, field.type, loc)


def _convert(value: Any, type: Any, loc: str) -> Any:
    """`value`, JSON text or Python value, as `type`; what strict decoding refuses is read again leniently."""
    if isinstance(value, Raw):
        try:
            return _decoder(type).decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            value = parse_json(bytes(value))
    return convert(value, type, loc)


def _check_ids(response: GenerateResponse, loc: str) -> None:
    for at, choice in enumerate(response.choices):
        if choice.token_ids and min(choice.token_ids) < 0:
            place = f"{loc}.choices.{at}.token_ids"
            raise validation_error(place, "token_ids must not contain negative values")
