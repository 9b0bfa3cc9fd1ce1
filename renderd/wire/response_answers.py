"""Answers of the Responses API (contract D.4): the Response object, its items, and the events of a stream.

Every key is always written, in the order of the fields; the type of an item comes first.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from renderd.wire.state import DerenderStreamState

Status = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]


class ReasoningText(msgspec.Struct, kw_only=True):
    """The text of a reasoning item."""

    text: str
    type: Literal["reasoning_text"] = "reasoning_text"


class CandidateLogprob(msgspec.Struct):
    """A candidate token."""

    token: str
    bytes: list[int]
    logprob: float


class OutputLogprob(msgspec.Struct):
    """A token of the text, with its candidates."""

    token: str
    bytes: list[int]
    logprob: float
    top_logprobs: list[CandidateLogprob]


class OutputText(msgspec.Struct, kw_only=True):
    """The text of a message. `logprobs`: one entry a token, null unless asked for."""

    annotations: list[Any] = []
    text: str
    type: Literal["output_text"] = "output_text"
    logprobs: list[OutputLogprob] | None = None


class ReasoningItem(msgspec.Struct, kw_only=True, tag_field="type", tag="reasoning"):
    """What the model thought. `content` is null while nothing was said."""

    id: str
    summary: list[Any] = []
    content: list[ReasoningText] | None
    encrypted_content: None = None
    status: Status


class MessageItem(msgspec.Struct, kw_only=True, tag_field="type", tag="message"):
    """Text for the user."""

    id: str
    content: list[OutputText]
    role: Literal["assistant"] = "assistant"
    status: Status
    phase: None = None


class FunctionCallItem(
    msgspec.Struct, kw_only=True, tag_field="type", tag="function_call", rename={"async_": "async"}
):
    """A call of a function. `arguments` is a JSON text as the model wrote it, unterminated if it was cut."""

    arguments: str
    call_id: str
    name: str
    id: str
    async_: None = None
    caller: None = None
    namespace: str | None = None
    status: Status


class CustomCallItem(
    msgspec.Struct, kw_only=True, tag_field="type", tag="custom_tool_call", rename={"async_": "async"}
):
    """A call of a custom tool, with the text for it."""

    call_id: str
    input: str
    name: str
    id: str
    async_: None = None
    caller: None = None
    namespace: None = None


OutputItem = ReasoningItem | MessageItem | FunctionCallItem | CustomCallItem


class InputTokensDetails(msgspec.Struct):
    """Nothing is known here of the engine's cache."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0
    input_tokens_per_turn: list[int] = []
    cached_tokens_per_turn: list[int] = []


class OutputTokensDetails(msgspec.Struct):
    """How many of the output tokens are reasoning."""

    reasoning_tokens: int = 0
    tool_output_tokens: int = 0
    output_tokens_per_turn: list[int] = []
    tool_output_tokens_per_turn: list[int] = []


class ResponseUsage(msgspec.Struct):
    """Token counts."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(msgspec.Struct):
    """Why an answer is incomplete."""

    reason: Literal["max_output_tokens"]


class ResponseError(msgspec.Struct):
    """Why an answer failed."""

    code: Literal["server_error"]
    message: str


class Echo(msgspec.Struct, kw_only=True):
    """What a Response repeats of its request, with defaults filled in."""

    instructions: str | None = None
    metadata: dict[str, str] | None = None
    model: str
    parallel_tool_calls: bool = True
    temperature: float = 1.0
    tool_choice: Any = "none"
    tools: list[dict[str, Any]] = []
    top_p: float = 1.0
    background: bool = False
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    reasoning: dict[str, Any] | None = None
    safety_identifier: str | None = None
    service_tier: str = "auto"
    text: dict[str, Any] | None = None
    top_logprobs: int | None = None
    truncation: str = "disabled"
    user: str | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0


class Response(msgspec.Struct, kw_only=True):
    """An answer, finished or not. `created_at` is a Unix time in seconds; `error` is written only of one
    that failed."""

    id: str
    created_at: int
    error: ResponseError | UnsetType = UNSET
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    metadata: dict[str, str] | None
    model: str
    object: Literal["response"] = "response"
    output: list[OutputItem]
    parallel_tool_calls: bool
    temperature: float
    tool_choice: Any
    tools: list[dict[str, Any]]
    top_p: float
    background: bool
    max_output_tokens: int | None
    max_tool_calls: int | None
    previous_response_id: None = None
    prompt: None = None
    prompt_cache_options: dict[str, Any] | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    reasoning: dict[str, Any] | None
    safety_identifier: str | None
    service_tier: str
    status: ResponseStatus
    text: dict[str, Any] | None
    top_logprobs: int | None
    truncation: str
    usage: ResponseUsage | None
    user: str | None
    presence_penalty: float
    frequency_penalty: float
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    input_messages: None = None
    output_messages: None = None


class ResponsesStreamAnswer(msgspec.Struct):
    """Answer to a streaming responses derender call: the events to pass on, in their order, and the state to
    bring next time. An event is sent as `event: TYPE` and `data: EVENT`."""

    events: list[dict[str, Any]]
    stream_state: DerenderStreamState
