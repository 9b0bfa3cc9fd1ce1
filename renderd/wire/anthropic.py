"""`/v1/messages` requests (contract D.3)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pydantic_core

from renderd.wire.decode import convert

Effort = Literal["low", "medium", "high", "xhigh", "max"]


class ContentBlock(msgspec.Struct, kw_only=True):
    """A content block of any type. Which of the fields mean something, the type says."""

    type: Literal[
        "text",
        "image",
        "tool_use",
        "tool_result",
        "tool_reference",
        "thinking",
        "redacted_thinking",
        "tool_addition",
        "tool_removal",
    ]
    text: str | None = None
    source: dict[str, Any] | None = None
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    content: str | list[dict[str, Any]] | None = None
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    tool_name: str | None = None


class Message(msgspec.Struct, kw_only=True):
    """One message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[ContentBlock]


class Tool(msgspec.Struct, kw_only=True):
    """A tool that the model may call; `input_schema` is a JSON schema."""

    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    defer_loading: bool | None = None


class ToolChoice(msgspec.Struct, kw_only=True):
    """How the model uses the tools; `name` belongs to type "tool"."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class OutputFormat(msgspec.Struct, kw_only=True):
    """The JSON schema that the answer's text has to fit."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct, kw_only=True):
    """How much effort goes into the answer, and its form."""

    effort: Effort | None = None
    format: OutputFormat | None = None


class Thinking(msgspec.Struct, kw_only=True):
    """Whether the model thinks, and for how many tokens."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None


class MessagesRequest(msgspec.Struct, kw_only=True):
    """A request for a message. The fields from `mm_payload` on are vLLM's own."""

    model: str
    messages: list[Message]
    max_tokens: int
    metadata: dict[str, Any] | None = None
    output_config: OutputConfig | None = None
    thinking: Thinking | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = False
    system: str | list[ContentBlock] | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    tool_choice: ToolChoice | None = None
    tools: list[Tool] | None = None
    mm_payload: Literal["tensors", "none"] = "tensors"
    return_mm_kwargs: bool | None = None
    cache_salt: str | None = None
    watermarking: bool | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    vllm_xargs: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


def decode_messages_request(raw: dict[str, Any], loc: str = "body") -> MessagesRequest:
    """The request in a JSON object. Raises ApiError 400 below the dotted place `loc`."""
    return convert(raw, MessagesRequest, loc)


BROKEN_INPUT = "INVALID_JSON"
"""The key in an `input` for arguments that are no object, as Anthropic's documentation proposes."""


def tool_input(arguments: str) -> dict[str, Any]:
    """The `input` of a call. Of arguments that were cut as much as is complete, as Anthropic's client reads
    them; what is no JSON object stands under BROKEN_INPUT."""
    if not arguments.strip():
        return {}
    try:
        value = pydantic_core.from_json(arguments, allow_partial=True)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {BROKEN_INPUT: arguments}
