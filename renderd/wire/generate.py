"""`/inference/v1/generate` in tokens mode (contract B.5, G): what render answers and derender takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from renderd.wire.prefix import Prefix

_VARIANT = 1 << 63
"""The bits that are the same in the low half of every UUID: one, zero, 62 others."""


def random_id() -> str:
    """16 hexadecimal digits, as in the low half of a random UUID (contract B.5). No secret, so the operating
    system need not be asked; Python seeds anew in every process that is forked."""
    return f"{random.getrandbits(62) | _VARIANT:016x}"


class ParseContext(msgspec.Struct):
    """What an engine that parses its own output needs from the request (contract B.5)."""

    tools: list[dict[str, Any]] | None
    tool_choice: str | dict[str, Any] | None
    parallel_tool_calls: bool | None
    include_reasoning: bool
    chat_template_kwargs: dict[str, Any]
    history_tool_call_cnt: int


class GenerateRequest(msgspec.Struct):
    """What a tokens-only engine runs. All keys are always written, in this order.

    The last two are renderd's own and the exception: they are there if the request asked for them. Engines
    skip them. `prompt_text`, for `return_prompt_text`, is the text that was tokenized, before any truncation,
    so `token_offsets` count in it; a prompt that came as ids is decoded. `prefix` answers PrefixFields.
    """

    request_id: str
    token_ids: Sequence[int]
    token_offsets: list[tuple[int, int]] | None
    features: dict[str, Any] | None
    content_parts: list[Any] | None
    sampling_params: dict[str, Any]
    model: str | None
    reasoning_ended: bool | None
    reasoning_parser_kwargs: dict[str, Any] | None
    return_token_ids: bool | None
    output_mode: Literal["tokens"]
    parse_context: ParseContext | None
    stream: bool
    stream_options: dict[str, Any] | None
    cache_salt: str | None
    priority: int
    kv_transfer_params: dict[str, Any] | None
    ec_transfer_params: dict[str, Any] | None
    prompt_text: str | msgspec.UnsetType = msgspec.UNSET
    prefix: Prefix | msgspec.UnsetType = msgspec.UNSET


class TopLogprob(msgspec.Struct):
    """A candidate token. `rank` is absent where the engine did not rank it."""

    token_id: int
    logprob: float
    rank: int | None = None


class TokenLogprob(msgspec.Struct):
    """A sampled token with its candidates, the sampled one first."""

    token_id: int
    logprob: float
    rank: int | None = None
    top_logprobs: list[TopLogprob] = []


class ChoiceLogprobs(msgspec.Struct):
    """One entry a sampled token."""

    content: list[TokenLogprob] | None = None


class GenerateUsage(msgspec.Struct):
    """Token counts of a request."""

    prompt_tokens: int = 0
    total_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: dict[str, Any] | None = None
    completion_tokens_details: dict[str, Any] | None = None


class GenerateChoice(msgspec.Struct):
    """A finished choice. `finish_reason` absent means "stop"; an explicit null stays null (contract E.1)."""

    index: int
    finish_reason: str | None = "stop"
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    routed_experts: Any = None
    sampling_mask: Any = None
    weight_versions: list[dict[str, Any]] | None = None
    logprobs: ChoiceLogprobs | None = None


class GenerateResponse(msgspec.Struct, kw_only=True):
    """A finished answer of a tokens-only engine."""

    request_id: str = msgspec.field(default_factory=random_id)
    choices: list[GenerateChoice]
    model: str | None = None
    created: int | None = None
    usage: GenerateUsage | None = None
    prompt_logprobs: list[Any] | None = None
    prompt_token_id_logprobs: Any = None
    prompt_token_ids: list[int] | None = None
    mm_placeholders: Any = None
    metrics: dict[str, Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    output_mode: Literal["tokens"] = "tokens"


class GenerateChunkChoice(msgspec.Struct):
    """One choice's news in a streamed event."""

    index: int
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    routed_experts: Any = None
    sampling_mask: Any = None
    weight_versions: list[dict[str, Any]] | None = None
    logprobs: ChoiceLogprobs | None = None


class GenerateChunk(msgspec.Struct, kw_only=True):
    """One `data:` event of a tokens-only engine."""

    request_id: str = msgspec.field(default_factory=random_id)
    choices: list[GenerateChunkChoice]
    usage: GenerateUsage | None = None
    output_mode: Literal["tokens"] = "tokens"
    prompt_token_ids: list[int] | None = None
    mm_placeholders: Any = None
    metrics: dict[str, Any] | None = None
