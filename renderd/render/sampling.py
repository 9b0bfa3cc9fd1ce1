"""sampling_params of a GenerateRequest (contract B.4): which values, which keys, in which order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from renderd.model import Model
from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request
from renderd.wire.ranges import check_ranges
from renderd.wire.sampling import SamplingFields
from renderd.wire.structured import Constraint

_NEUTRAL: Mapping[str, float] = {
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
}
"""Where neither the request nor the model says otherwise."""
_LEAST_TEMPERATURE = 0.01
_DELTA, _FINAL_ONLY = 1, 2


class Resolved(msgspec.Struct, frozen=True):
    """Sampling values that the APIs derive differently. `max_tokens` in tokens, at least 1."""

    n: int
    max_tokens: int
    logprobs: int | None
    prompt_logprobs: int | None
    skip_special_tokens: bool | None
    spaces_between_special_tokens: bool
    constraint: Constraint | None


def check_requested_tokens(model: Model, field: str, requested: int | None, truncate: int | None) -> None:
    """The size checks that come before templating (contract B.4.2 step 2, C.5 step 1). Raises ApiError
    400."""
    limit = model.max_model_len
    if requested is not None and requested > limit:
        raise rule_error(
            f"{field}={requested} cannot be greater than max_model_len={limit}. Please request fewer output "
            f"tokens.",
            field,
            value=requested,
        )
    if truncate is not None and truncate > limit:
        raise rule_error(
            f"truncate_prompt_tokens={truncate} cannot be greater than max_model_len = {limit}. Please "
            "request a smaller truncation size.",
            "truncate_prompt_tokens",
            value=truncate,
        )


def resolve_max_tokens(model: Model, prompt_len: int, requested: int | None, truncate: int | None) -> int:
    """How many tokens may be generated (contract B.4.2). Raises ApiError 400 for too long a
    prompt; the range is checked with those of the other values."""
    limit = model.max_model_len
    if truncate is not None:
        prompt_len = min(prompt_len, limit if truncate < 0 else truncate)
    if prompt_len > limit:
        raise bad_request(f"Input length ({prompt_len}) exceeds model's maximum context length ({limit}).")
    wanted = requested if requested is not None else model.generation_defaults.get("max_tokens")
    return int(min(x for x in (limit - prompt_len, wanted, model.output_cap) if x is not None))


def sampling_params(
    request: SamplingFields, defaults: Mapping[str, Any], resolved: Resolved
) -> dict[str, Any]:
    """sampling_params as vLLM writes them: defaults left out, but for max_tokens, which is always sent:
    engines take a request without it as unlimited. Raises ApiError 400 for a value out of range."""

    given: dict[str, Any] = {}
    for name in _NEUTRAL:
        value = getattr(request, name)
        if value is None:
            value = defaults.get(name)
        if value is not None:
            given[name] = value
    if 0 < given.get("temperature", 0) < _LEAST_TEMPERATURE:
        given["temperature"] = _LEAST_TEMPERATURE
    stop = request.stop_strings
    extra_args = request.vllm_xargs or None
    logit_bias = _logit_bias(request.logit_bias)
    if resolved.n != 1:
        check_ranges({"n": resolved.n})
        _check_most_choices(resolved.n)
    _check_extra_args(extra_args)
    check_ranges({**given, "max_tokens": resolved.max_tokens, "min_tokens": request.min_tokens})
    if request.min_tokens > resolved.max_tokens:
        raise bad_request(
            f"min_tokens must be less than or equal to max_tokens={resolved.max_tokens}, "
            f"got {request.min_tokens}."
        )
    logprobs = resolved.logprobs
    if logprobs is not None and logprobs < -1:
        raise rule_error(f"logprobs must be non-negative or -1, got {logprobs}.", "logprobs", value=logprobs)
    _check_texts(stop, request.bad_words)
    values = {**_NEUTRAL, **given}
    temperature = values["temperature"]
    if temperature == 0 and resolved.n > 1:
        raise bad_request(f"n must be 1 when using greedy sampling, got {resolved.n}.")

    params: dict[str, Any] = {}
    if resolved.n != 1:
        params["n"] = resolved.n
    params["presence_penalty"] = float(values["presence_penalty"])
    params["frequency_penalty"] = float(values["frequency_penalty"])
    params["repetition_penalty"] = float(values["repetition_penalty"])
    params["temperature"] = float(temperature)
    _put(params, "watermarking", request.watermarking, None)
    if temperature != 0:  # greedy decoding ignores all three
        params["top_p"] = float(values["top_p"])
        _put(params, "top_k", values["top_k"], 0)
        params["min_p"] = float(values["min_p"])
    _put(params, "seed", None if request.seed == -1 else request.seed, None)
    params["stop"] = stop
    params["stop_token_ids"] = list(dict.fromkeys(request.stop_token_ids or ()))
    _put(params, "ignore_eos", request.ignore_eos, False)
    params["max_tokens"] = resolved.max_tokens
    _put(params, "min_tokens", request.min_tokens, 0)
    _put(params, "logprobs", resolved.logprobs, None)
    _put(params, "prompt_logprobs", resolved.prompt_logprobs, None)
    _put(params, "logprob_token_ids", request.logprob_token_ids or None, None)
    skip = resolved.skip_special_tokens
    _put(
        params,
        "skip_special_tokens",
        defaults.get("skip_special_tokens", True) if skip is None else skip,
        True,
    )
    _put(params, "spaces_between_special_tokens", resolved.spaces_between_special_tokens, True)
    _put(params, "include_stop_str_in_output", request.include_stop_str_in_output, False)
    params["output_kind"] = _DELTA if request.stream else _FINAL_ONLY
    _put(params, "stream_interval", request.stream_interval, None)
    params["skip_clone"] = True
    if stop and not request.include_stop_str_in_output:
        _put(params, "output_text_buffer_length", max(map(len, stop)) - 1, 0)
    _put(params, "structured_outputs", resolved.constraint, None)
    _put(params, "logit_bias", logit_bias, None)
    _put(params, "allowed_token_ids", request.allowed_token_ids, None)
    _put(params, "extra_args", extra_args, None)
    params["bad_words"] = list(dict.fromkeys(request.bad_words))
    params["skip_reading_prefix_cache"] = resolved.prompt_logprobs is not None
    budget = request.thinking_token_budget
    _put(params, "thinking_token_budget", None if budget == -1 else budget, None)
    if request.repetition_detection is not None:
        params["repetition_detection"] = msgspec.structs.asdict(request.repetition_detection)
    _put(params, "routed_experts_prompt_start", request.routed_experts_prompt_start, 0)
    return params


def _put(params: dict[str, Any], key: str, value: Any, default: Any) -> None:
    if value is not default and value != default:
        params[key] = value


def _logit_bias(raw: Mapping[str, float] | None) -> dict[str, float] | None:
    """Biases by token id, clamped to [-100, 100]."""
    if raw is None:
        return None
    result: dict[str, float] = {}
    wrong: list[str] = []
    for key, bias in raw.items():
        try:
            result[str(int(key))] = min(100.0, max(-100.0, bias))
        except ValueError:
            wrong.append(key)
    if wrong:
        raise rule_error(
            f"logit_bias contains key(s) that cannot be converted to integer token IDs: {wrong}",
            "logit_bias",
            value=wrong,
        )
    return result


def _check_most_choices(n: int) -> None:
    most = int(os.environ.get("VLLM_MAX_N_SEQUENCES", "16384"))
    if n > most:
        raise bad_request(
            f"n must be at most {most}, got {n}. To increase this limit, set the VLLM_MAX_N_SEQUENCES "
            "environment variable."
        )


def _check_texts(stop: list[str], bad_words: list[str]) -> None:
    if "" in stop:
        raise bad_request("stop cannot contain an empty string.")
    if "" in bad_words:
        raise bad_request(f"bad_words cannot contain an empty string. Got bad_words={bad_words}")


def _check_extra_args(extra_args: Mapping[str, Any] | None) -> None:
    for value in (extra_args or {}).values():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, int) and not -(2**63) <= item <= 2**64 - 1:
                raise rule_error("extra_args integers must be between -2**63 and 2**64 - 1.", "extra_args")
