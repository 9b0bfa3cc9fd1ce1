"""Bytes in, bytes out: the derender routes of every API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from parsers import Family
from renderd import telemetry
from renderd.derender.batch import BatchDerenderer
from renderd.derender.messages import MessagesDerenderer, Reader, unread
from renderd.derender.responses import ResponsesDerenderer
from renderd.derender.setup import DerenderOptions, Setup
from renderd.derender.stream import StreamDerenderer
from renderd.model import Model
from renderd.wire.derender import (
    DerenderChatRequest,
    DerenderCompletionRequest,
    DerenderMessagesRequest,
    DerenderResponsesRequest,
    decode_chat,
    decode_completion,
    decode_messages,
    decode_responses,
)
from renderd.wire.errors import bad_request

F = TypeVar("F", bound=msgspec.Struct)
E = TypeVar("E", bound=msgspec.Struct)

_ENCODER = msgspec.json.Encoder()


class Derenderer:
    """Turns a tokens-only engine's answers into OpenAI answers. Safe to call from several threads.

    `family` is None when no parser is configured. `clock` gives Unix time in seconds. `read_messages` reads
    requests of the messages API; without it there are none.
    """

    def __init__(
        self,
        model: Model,
        family: Family | None,
        options: DerenderOptions,
        clock: Callable[[], float] = time.time,
        read_messages: Reader | None = None,
    ) -> None:
        setup = self.setup = Setup(model, family, options, clock)
        self._batch = BatchDerenderer(setup)
        self._stream = StreamDerenderer(setup)
        self._responses = ResponsesDerenderer(setup, self._batch, self._stream)
        self._messages = MessagesDerenderer(self._batch, self._stream, read_messages or unread)

    def chat(self, body: bytes) -> bytes:
        """`/v1/chat/completions/derender`, batch or stream as the body's `stream` says. Raises ApiError."""
        return _answer(body, decode_chat, DerenderChatRequest, self._batch.chat, self._stream.chat)

    def completion(self, body: bytes) -> bytes:
        """`/v1/completions/derender`, batch or stream as the body's `stream` says. Raises ApiError."""
        return _answer(
            body,
            decode_completion,
            DerenderCompletionRequest,
            self._batch.completion,
            self._stream.completion,
        )

    def messages(self, body: bytes) -> bytes:
        """`/v1/messages/derender`, batch or stream as the body's `stream` says. Raises ApiError."""
        return _answer(
            body, decode_messages, DerenderMessagesRequest, self._messages.batch, self._messages.stream
        )

    def responses(self, body: bytes) -> bytes:
        """`/v1/responses/derender`, batch or stream as the body's `stream` says. Raises ApiError."""
        return _answer(
            body, decode_responses, DerenderResponsesRequest, self._responses.batch, self._responses.stream
        )


def _answer(
    body: bytes,
    decode: Callable[[bytes], F | E],
    finished: type[F],
    batch: Callable[[F], msgspec.Struct],
    stream: Callable[[E], msgspec.Struct],
) -> bytes:
    """The answer to a body, which `decode` reads as one of a `finished` answer or of an event."""
    began = telemetry.clock()
    try:
        request = decode(body)
    finally:
        telemetry.spent("decode", began)
    try:
        answer = batch(request) if isinstance(request, finished) else stream(request)  # type: ignore[arg-type]
        began = telemetry.clock()
        body = _ENCODER.encode(answer)
        telemetry.spent("encode", began)
        return body
    except UnicodeEncodeError:  # lone surrogates, which JSON may escape and UTF-8 cannot say
        raise bad_request("The body holds text that is not valid Unicode.") from None
    except OverflowError:
        raise bad_request("The body holds an integer of more than 64 bits.") from None
