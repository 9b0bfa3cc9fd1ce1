"""What the scripted engine is asked: the body of `/inference/v1/generate`, checked (contract G.1)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, structs

from renderd.wire.decode import convert, parse_object, rule_error, validation_error
from renderd.wire.errors import ApiError, bad_request, schema_error
from renderd.wire.ranges import check_ranges

MAX_CHOICES = 16
"""Choices of one request: the engine plays one that batches so many sequences."""

MAX_LOGPROBS = 20
"""Candidates a token, vLLM's default."""


class SamplingParams(msgspec.Struct):
    """Sampling parameters that change or spoil an answer that is scripted; any other key is ignored.

    `max_tokens` absent or null means as many as fit the context. `extra_args` carries the script.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | UnsetType | None = UNSET
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    output_kind: Literal[0, 1, 2] = 0
    stream_interval: int | None = None
    structured_outputs: dict[str, Any] | None = None
    extra_args: dict[str, Any] | None = None


class StreamOptions(msgspec.Struct):
    """Which events carry usage. `continuous_usage_stats` counts only beside `include_usage`."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class ReasoningParserKwargs(msgspec.Struct, forbid_unknown_fields=True):
    """Checked and not used: the engine of a real server starts its grammar by them."""

    chat_template_kwargs: dict[str, Any] | None = None


class EngineRequest(msgspec.Struct):
    """A GenerateRequest as the engine reads it; keys that it does not use are ignored."""

    token_ids: list[int]
    sampling_params: Any
    request_id: str | UnsetType = UNSET
    model: str | None = None
    reasoning_parser_kwargs: ReasoningParserKwargs | None = None
    return_token_ids: bool | None = None
    output_mode: Literal["tokens", "text", "derender"] = "tokens"
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None
    priority: int = 0
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None


def decode_request(body: bytes) -> tuple[EngineRequest, SamplingParams]:
    """A body and its sampling parameters. Raises ApiError 400 of type "Bad Request"."""
    request = convert(parse_object(body), EngineRequest)
    place = "body.sampling_params"
    try:
        params = convert(request.sampling_params, SamplingParams, place)
    except ApiError as error:  # vLLM names the object, not the key in it
        raise schema_error(error.message, place) from None
    if not request.token_ids:
        raise validation_error("body.token_ids", "List should have at least 1 item after validation, not 0")
    if min(request.token_ids) < 0:
        raise validation_error("body.token_ids", "Value error, token_ids must not contain negative values")
    if request.output_mode != "tokens" and not params.detokenize:
        mode = request.output_mode
        text = f"Value error, output_mode='{mode}' requires sampling_params.detokenize to be true"
        raise validation_error("body", text)
    return request, params


def check_params(params: SamplingParams, mode: str, vocabulary: int, grammars: bool = False) -> None:
    """Refuse what a tokens-only engine refuses: values out of range and whatever needs a tokenizer.

    `vocabulary` is the number of token ids; `grammars`: they are taken all the same. Raises ApiError 400 of
    type "BadRequestError".
    """
    numbers = {
        name: value for name, value in structs.asdict(params).items() if isinstance(value, int | float)
    }
    check_ranges(numbers)
    if params.temperature == 0 and params.n > 1:
        raise bad_request(f"n must be 1 when using greedy sampling, got {params.n}.")
    limit = 16 if params.max_tokens is UNSET else params.max_tokens  # the default that the schema shows
    if limit is not None and params.min_tokens > limit:
        raise bad_request(
            f"min_tokens must be less than or equal to max_tokens={limit}, got {params.min_tokens}."
        )
    if params.stop:
        if "" in params.stop and not isinstance(params.stop, str):
            raise bad_request("stop cannot contain an empty string.")
        raise bad_request(
            "stop strings are not supported on a --tokens-only server because detokenization is disabled. "
            "Check stop strings on the coordinator, or use stop_token_ids."
        )
    if mode != "tokens":
        raise bad_request(
            f"output_mode='{mode}' requires a tokenizer, but this server does not load one (--tokens-only or "
            "--skip-tokenizer-init). Send the request to a server that loads a tokenizer, or use "
            "output_mode='tokens'."
        )
    if params.structured_outputs is not None and not grammars:
        raise bad_request(
            "Structured outputs requires a tokenizer so it can't be used with 'skip_tokenizer_init'"
        )
    if params.n > MAX_CHOICES:
        raise bad_request(
            f"sampling_params.n must be at most the server's max_num_seqs ({MAX_CHOICES}), got {params.n}."
        )
    for kind, name in (("sample", "logprobs"), ("prompt", "prompt_logprobs")):
        count = getattr(params, name) or 0
        if (k := vocabulary if count == -1 else count) > MAX_LOGPROBS:
            message = f"Requested {kind} logprobs of {k}, which is greater than max allowed: {MAX_LOGPROBS}"
            raise rule_error(message, name, value=count)
    outside = [token for token in params.stop_token_ids or () if not 0 <= token < vocabulary]
    if outside:
        raise rule_error(
            f"token_id(s) {outside} in stop_token_ids contain out-of-vocab token ids. "
            f"Vocabulary size: {vocabulary}",
            "stop_token_ids",
            value=outside,
        )


def check_prompt(request: EngineRequest, max_model_len: int, vocabulary: int) -> None:
    """Refuse a prompt that leaves no room for an answer or names no token. Raises ApiError 400."""
    if request.cache_salt == "":
        raise rule_error("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
    length = len(request.token_ids)
    if length > max_model_len:
        raise bad_request(
            f"Input length ({length}) exceeds model's maximum context length ({max_model_len})."
        )
    if length == max_model_len:
        raise bad_request(
            f"The decoder prompt (length {length}) plus the number of requested output tokens (at least 1) "
            f"is longer than the maximum model length of {max_model_len}. Make sure that `max_model_len` is "
            "no smaller than the number of text tokens (prompt + requested output tokens)."
        )
    if (top := max(request.token_ids)) >= vocabulary:
        raise bad_request(f"Token id {top} is out of vocabulary")
