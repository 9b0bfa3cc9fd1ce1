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

T = TypeVar("T")

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
        request = _read(decode_chat, body)
        if isinstance(request, DerenderChatRequest):
            return _answer(self._batch.chat, request)
        return _answer(self._stream.chat, request)

    def completion(self, body: bytes) -> bytes:
        """`/v1/completions/derender`, batch or stream as the body's `stream` says. Raises ApiError."""
        request = _read(decode_completion, body)
        if isinstance(request, DerenderCompletionRequest):
            return _answer(self._batch.completion, request)
        return _answer(self._stream.completion, request)

    def messages(self, body: bytes) -> bytes:
        """`/v1/messages/derender`, batch or stream as the body's `stream` says. Raises ApiError."""
        request = _read(decode_messages, body)
        if isinstance(request, DerenderMessagesRequest):
            return _answer(self._messages.batch, request)
        return _answer(self._messages.stream, request)

    def responses(self, body: bytes) -> bytes:
        """`/v1/responses/derender`, batch or stream as the body's `stream` says. Raises ApiError."""
        request = _read(decode_responses, body)
        if isinstance(request, DerenderResponsesRequest):
            return _answer(self._responses.batch, request)
        return _answer(self._responses.stream, request)


def _read(decode: Callable[[bytes], T], body: bytes) -> T:
    began = telemetry.clock()
    try:
        return decode(body)
    finally:
        telemetry.spent("decode", began)


def _answer(derender: Callable[[T], msgspec.Struct], request: T) -> bytes:
    try:
        answer = derender(request)
        began = telemetry.clock()
        body = _ENCODER.encode(answer)
        telemetry.spent("encode", began)
        return body
    except UnicodeEncodeError:  # lone surrogates, which JSON may escape and UTF-8 cannot say
        raise bad_request("The body holds text that is not valid Unicode.") from None
    except OverflowError:
        raise bad_request("The body holds an integer of more than 64 bits.") from None
