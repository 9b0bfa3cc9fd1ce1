"""The requests that derender bodies carry along, decoded with all their rules (contract E.1)."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from renderd.wire.chat import ChatCompletionRequest, decode_chat_request
from renderd.wire.completion import CompletionRequest, decode_completion_request
from renderd.wire.decode import expect_object
from renderd.wire.derender import decode_field, is_null


def read_chat_request(value: Raw, loc: str) -> ChatCompletionRequest | None:
    """The embedded chat request, None if there is none. Raises ApiError 400 below the dotted place `loc`."""
    return None if is_null(value) else decode_chat_request(read_object(value, loc), loc)


def read_completion_request(value: Raw, loc: str) -> CompletionRequest | None:
    """The embedded completion request, None if there is none. Raises ApiError 400 below `loc`."""
    return None if is_null(value) else decode_completion_request(read_object(value, loc), loc)


def read_object(value: Raw, loc: str) -> dict[str, Any]:
    """The embedded object. Raises ApiError 400 below `loc`."""
    return expect_object(decode_field(value, Any, loc), loc)
