"""Answers of the messages API: whole messages, and the events of streamed ones (requests: contract D.3).

Every key but those of the cache is always written. `type` comes first in a block, a delta and an event.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from renderd.wire.errors import ApiError
from renderd.wire.state import DerenderStreamState

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    """Text for the user."""

    text: str


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking"):
    """Reasoning. Nothing can be checked by the signature: clients want one."""

    thinking: str
    signature: str


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A call of a tool."""

    id: str
    name: str
    input: dict[str, Any]


Block = TextBlock | ThinkingBlock | ToolUseBlock


class MessageUsage(msgspec.Struct):
    """Tokens of prompt and answer. Where the engine says what its cache had of the prompt, and what it put
    there, `input_tokens` is the rest."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | UnsetType = UNSET
    cache_read_input_tokens: int | UnsetType = UNSET


def message_usage(prompt_tokens: int, tokens: int, details: dict[str, Any] | None) -> MessageUsage:
    """The usage of a message. `details`: of the prompt's tokens, as the engine gives them."""
    told = {} if details is None else details
    made, read = told.get("created_cache_tokens"), told.get("cached_tokens")
    rest = max(prompt_tokens - (made or 0) - (read or 0), 0)
    return MessageUsage(rest, tokens, UNSET if made is None else made, UNSET if read is None else read)


class MessageAnswer(msgspec.Struct, kw_only=True):
    """A message; at the start of a stream one without content."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    content: list[Block]
    model: str
    stop_reason: StopReason | None
    stop_sequence: str | None
    stop_details: None = None
    usage: MessageUsage


class TextDelta(msgspec.Struct, tag_field="type", tag="text_delta"):
    """More of a text."""

    text: str


class ThinkingDelta(msgspec.Struct, tag_field="type", tag="thinking_delta"):
    """More of a reasoning."""

    thinking: str


class SignatureDelta(msgspec.Struct, tag_field="type", tag="signature_delta"):
    """The signature that ends a reasoning."""

    signature: str


class InputJsonDelta(msgspec.Struct, tag_field="type", tag="input_json_delta"):
    """More of the JSON text of a call's input."""

    partial_json: str


BlockDelta = TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta


class EndDelta(msgspec.Struct):
    """Why the message ended."""

    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: None = None


class MessageStart(msgspec.Struct, tag_field="type", tag="message_start"):
    """The first event."""

    message: MessageAnswer


class ContentBlockStart(msgspec.Struct, tag_field="type", tag="content_block_start"):
    """A block begins, still empty."""

    content_block: Block
    index: int


class ContentBlockDelta(msgspec.Struct, tag_field="type", tag="content_block_delta"):
    """More of the block that began last."""

    delta: BlockDelta
    index: int


class ContentBlockStop(msgspec.Struct, tag_field="type", tag="content_block_stop"):
    """The block is complete."""

    index: int


class MessageDelta(msgspec.Struct, tag_field="type", tag="message_delta"):
    """The content is complete."""

    delta: EndDelta
    usage: MessageUsage


class MessageStop(msgspec.Struct, tag_field="type", tag="message_stop"):
    """The last event."""


FailureType = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "timeout_error",
    "overloaded_error",
    "api_error",
]
_FAILURES: dict[int, FailureType] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class Failure(msgspec.Struct):
    """What went wrong."""

    type: FailureType
    message: str


class ErrorEvent(msgspec.Struct, tag_field="type", tag="error"):
    """The body of an error, and the last event of a message that failed: there is no stop reason for it."""

    error: Failure


def error_event(error: ApiError) -> ErrorEvent:
    """An error as Anthropic's API says it."""
    kind = _FAILURES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return ErrorEvent(Failure(kind, error.text))


MessageEvent = (
    MessageStart
    | ContentBlockStart
    | ContentBlockDelta
    | ContentBlockStop
    | MessageDelta
    | MessageStop
    | ErrorEvent
)


class MessagesStreamAnswer(msgspec.Struct):
    """Answer to a streaming messages derender call: the events to pass on, in order, each as `event: TYPE`
    and `data: JSON`, and the state to bring next time."""

    events: list[MessageEvent]
    stream_state: DerenderStreamState


class ContextManagement(msgspec.Struct):
    """What was left out of a prompt: nothing."""

    original_input_tokens: int


class TokenCount(msgspec.Struct):
    """Answer to a call that counts the tokens of a prompt."""

    input_tokens: int
    context_management: ContextManagement
