"""`/v1/messages` requests (contract D.3)."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import msgspec
import pydantic_core

from renderd.wire.decode import convert, validation_error
from renderd.wire.prefix import PrefixFields

_Budget: Any = Annotated[int, msgspec.Meta(ge=1024)]
Effort = Literal["low", "medium", "high", "xhigh", "max"]


class Tool(msgspec.Struct, kw_only=True):
    """A tool that the model may call; `input_schema` is a JSON schema."""

    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    defer_loading: bool | None = None


class ToolReference(msgspec.Struct, tag_field="type", tag="tool_reference"):
    """A tool of the request by its name."""

    name: str


class ToolDefinition(msgspec.Struct, tag_field="type", tag="tool_definition"):
    """A whole tool."""

    definition: Tool


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
    tool: ToolReference | ToolDefinition | None = None

    @property
    def changes_tools(self) -> bool:
        """Whether it adds or removes a tool."""
        return self.type in ("tool_addition", "tool_removal")


class Message(msgspec.Struct, kw_only=True):
    """One message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[ContentBlock]


class ToolChoice(msgspec.Struct, kw_only=True):
    """How the model uses the tools; `name` belongs to type "tool"."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class OutputFormat(msgspec.Struct, kw_only=True):
    """The JSON schema that the answer's text has to fit; none or an empty one leaves it free."""

    type: Literal["json_schema"] = "json_schema"
    schema: dict[str, Any] | None = None


class OutputConfig(msgspec.Struct, kw_only=True):
    """How much effort goes into the answer, and its form."""

    effort: Effort | None = None
    format: OutputFormat | None = None


class Thinking(msgspec.Struct, kw_only=True):
    """Whether the model thinks and, where that is enabled, for how many tokens."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Any = None


class MessagesRequest(PrefixFields, msgspec.Struct, kw_only=True):
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
    cache_salt: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    watermarking: bool | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    vllm_xargs: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class CountTokensRequest(msgspec.Struct, kw_only=True):
    """A request for the number of tokens that a message's prompt has: what of it makes the prompt."""

    model: str
    messages: list[Message]
    output_config: OutputConfig | None = None
    thinking: Thinking | None = None
    system: str | list[ContentBlock] | None = None
    tool_choice: ToolChoice | None = None
    tools: list[Tool] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


def message_to_count(raw: dict[str, Any]) -> dict[str, Any]:
    """The messages request of which the prompt is to be counted. It may answer without end."""
    fields = {name: raw[name] for name in CountTokensRequest.__struct_fields__ if name in raw}
    return fields | {"max_tokens": 2**63 - 1}


def decode_messages_request(raw: dict[str, Any], loc: str = "body") -> MessagesRequest:
    """The request in a JSON object. Raises ApiError 400 below the dotted place `loc`."""
    request = convert(raw, MessagesRequest, loc)
    if isinstance(request.system, list):
        _check_blocks(request.system, f"{loc}.system", f"{loc}.system", allowed=False)
    for index, message in enumerate(request.messages):
        if isinstance(message.content, list):
            place = f"{loc}.messages.{index}"
            _check_blocks(message.content, f"{place}.content", place, allowed=message.role == "system")
    if not request.model:
        raise validation_error(f"{loc}.model", "Model is required")
    if request.max_tokens <= 0:
        raise validation_error(f"{loc}.max_tokens", "max_tokens must be positive")
    limit = int(os.environ.get("VLLM_MAX_STOP_STRINGS", "4"))
    if len(request.stop_sequences or ()) > limit:
        raise validation_error(f"{loc}.stop_sequences", f"List should have at most {limit} items")
    choice = request.tool_choice
    if choice is not None and choice.type == "tool" and not choice.name:
        raise validation_error(f"{loc}.tool_choice", "tool_choice.name is required when type is 'tool'")
    if request.thinking is not None and request.thinking.type == "enabled":
        _check_budget(request, request.thinking, loc)
    return request


def _check_blocks(blocks: list[ContentBlock], loc: str, holder: str, allowed: bool) -> None:
    """Changes of the tools name a tool, and stand in system messages among the others alone."""
    for index, block in enumerate(blocks):
        if block.changes_tools and block.tool is None:
            raise validation_error(f"{loc}.{index}", f"tool is required for {block.type} blocks")
        if block.type == "tool_removal" and isinstance(block.tool, ToolDefinition):
            raise validation_error(f"{loc}.{index}", "tool_removal only accepts a tool_reference")
    for block in blocks:
        if block.changes_tools and not allowed:
            raise validation_error(
                holder, f'{block.type} blocks are only allowed in messages with role "system"'
            )


def _check_budget(request: MessagesRequest, thinking: Thinking, loc: str) -> None:
    budget = convert(thinking.budget_tokens, _Budget, f"{loc}.thinking.enabled.budget_tokens")
    # To prefill alone, one token is asked for; the limit belongs to the request that decodes.
    elsewhere = (request.kv_transfer_params or {}).get("do_remote_decode")
    if budget >= request.max_tokens and not elsewhere:
        raise validation_error(loc, "thinking.budget_tokens must be less than max_tokens")
    thinking.budget_tokens = budget


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
