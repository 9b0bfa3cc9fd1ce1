"""Answers of the derender routes (contract E.6). Every key is always written, in the order of the fields, but
for those of the news of a call."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from renderd.wire.generate import GenerateUsage
from renderd.wire.state import DerenderStreamState


class CandidateLogprob(msgspec.Struct):
    """A candidate token as text. `bytes` are its UTF-8 bytes, null for an id outside the vocabulary."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatTokenLogprob(msgspec.Struct):
    """A sampled token as text, with its candidates."""

    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[CandidateLogprob]


class ChatLogprobs(msgspec.Struct):
    """One entry a sampled token."""

    content: list[ChatTokenLogprob] | None


class CompletionLogprobs(msgspec.Struct):
    """Four lists in parallel, one element a sampled token, of an echo also one a token of the prompt; offsets
    count characters. Nothing is known of how likely the first token of a prompt is."""

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class FunctionCall(msgspec.Struct):
    """`arguments` is a JSON text as the model wrote it, unterminated if the output was cut."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct):
    """A call of a function."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class ChatMessage(msgspec.Struct, kw_only=True):
    """The answer's message. `tool_calls` is written only when there are any."""

    role: str = "assistant"
    content: str | None = None
    refusal: None = None
    annotations: None = None
    audio: None = None
    function_call: None = None
    tool_calls: list[ToolCall] | UnsetType = UNSET
    reasoning: str | None = None


class ChatChoice(msgspec.Struct, kw_only=True):
    """One choice of a chat answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: str
    stop_reason: int | str | None
    token_ids: list[int] | None
    routed_experts: Any = None
    weight_versions: list[dict[str, Any]] | None = None


class ChatCompletion(msgspec.Struct, kw_only=True):
    """A finished chat answer. `created` is a Unix time in seconds."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    service_tier: None = None
    system_fingerprint: str | None = None
    usage: GenerateUsage
    prompt_logprobs: list[Any] | None
    prompt_token_ids: list[int] | None
    prompt_text: str | None = None
    kv_transfer_params: dict[str, Any] | None
    ec_transfer_params: dict[str, Any] | None = None
    metrics: dict[str, Any] | None


class CompletionChoice(msgspec.Struct, kw_only=True):
    """One choice of a completion answer."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    token_ids: list[int] | None
    prompt_logprobs: list[Any] | None = None
    prompt_token_ids: list[int] | None
    routed_experts: Any = None
    weight_versions: list[dict[str, Any]] | None = None


class Completion(msgspec.Struct, kw_only=True):
    """A finished completion answer. `created` is a Unix time in seconds."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    service_tier: None = None
    system_fingerprint: str | None = None
    usage: GenerateUsage
    kv_transfer_params: dict[str, Any] | None
    ec_transfer_params: dict[str, Any] | None = None
    metrics: dict[str, Any] | None


class FunctionDelta(msgspec.Struct, omit_defaults=True):
    """News of a call: its name at its start, then pieces of its arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """News of the call with this index. `id` and `type` come at its start only.

    What is not said is absent, not null: clients put a call together key by key, and OpenAI's own takes a
    null for a value.
    """

    id: str | None = None
    type: Literal["function"] | None = None
    index: int
    function: FunctionDelta


class Delta(msgspec.Struct, kw_only=True):
    """News of a message. `tool_calls` is written only when there are any."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChatChunkChoice(msgspec.Struct, kw_only=True):
    """News of one choice of a chat answer."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    token_ids: list[int] | None
    weight_versions: None = None


class ChatChunk(msgspec.Struct, kw_only=True):
    """One chunk of a chat answer. `created` is a Unix time in seconds, the same over a stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: GenerateUsage | None
    system_fingerprint: None = None
    prompt_token_ids: list[int] | None
    prompt_text: None = None
    metrics: dict[str, Any] | None
    kv_transfer_params: None = None


class CompletionChunkChoice(msgspec.Struct, kw_only=True):
    """News of one choice of a completion."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    prompt_token_ids: list[int] | None
    token_ids: list[int] | None
    weight_versions: None = None


class CompletionChunk(msgspec.Struct, kw_only=True):
    """One chunk of a completion. `created` is a Unix time in seconds, the same over a stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChunkChoice]
    usage: GenerateUsage | None
    system_fingerprint: None = None
    metrics: dict[str, Any] | None
    kv_transfer_params: None = None


class ChatStreamAnswer(msgspec.Struct):
    """Answer to a streaming chat derender call: the chunk to pass on and the state to bring next time."""

    chunk: ChatChunk
    stream_state: DerenderStreamState


class CompletionStreamAnswer(msgspec.Struct):
    """Answer to a streaming completion derender call."""

    chunk: CompletionChunk
    stream_state: DerenderStreamState
