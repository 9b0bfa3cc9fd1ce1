"""What chat and completion requests have in common: the sampling fields and the rules on them (contract B.1,
B.2, D.1)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from renderd.wire.decode import convert, rule_error, validation_error
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.prefix import PrefixFields
from renderd.wire.structured import (
    ResponseFormat,
    StructuredOutputs,
    check_constraint,
    constraint_of,
    is_structural_tag,
)

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Raw = Mapping[str, Any]
_T = TypeVar("_T")


class RepetitionDetection(msgspec.Struct):
    """When to stop an answer that repeats itself; sizes in tokens, 0 = off."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0


class SamplingFields(PrefixFields, msgspec.Struct, kw_only=True):
    """Fields of both APIs that end up in sampling_params or other keys of the GenerateRequest (contract
    B.1)."""

    model: str | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    watermarking: bool | None = None
    length_penalty: float = 1.0
    logit_bias: dict[str, float] | None = None
    seed: Int64 | None = None
    stop: str | list[str] | None = []
    stop_token_ids: list[int] | None = []
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool = True
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    stream_interval: Positive | None = None
    truncate_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] | None = None
    truncation_side: Literal["left", "right"] | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] = []
    use_beam_search: bool = False
    thinking_token_budget: int | None = None
    routed_experts_prompt_start: Natural = 0
    repetition_detection: RepetitionDetection | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: StructuredOutputs | None = None
    vllm_xargs: dict[str, Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    cache_salt: str | None = None
    priority: Int64 = 0
    request_id: str | msgspec.UnsetType = msgspec.UNSET
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    return_token_offsets: bool | None = False
    return_weight_versions: bool = False
    mm_payload: Literal["tensors", "none"] = "tensors"
    user: str | None = None
    session_id: str | None = None

    @property
    def stop_strings(self) -> list[str]:
        """`stop` as a list."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


Checks = tuple[tuple[Callable[[Raw], None], tuple[str, ...]], ...]
"""Rules on a request as JSON has it, each with the fields without which there is nothing to find fault with.
"""


def run_checks(checks: Checks, raw: Raw) -> None:
    """Raises the ApiError of the first rule that is broken."""
    for check, fields in checks:
        for field in fields:
            if field in raw:
                check(raw)
                break


def check_structured_outputs(raw: Raw, param: str | None) -> None:
    """Rule 7 of contract B.2; the completion API names the parameter, the chat API does not."""
    constraint = raw.get("structured_outputs")
    if isinstance(constraint, dict) and constraints_set(constraint) > 1:
        raise rule_error(
            "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').",
            param,
        )


def constraints_set(structured_outputs: Raw) -> int:
    """How many of the constraints that cannot be combined with one another are set."""
    return sum(structured_outputs.get(key) is not None for key in ("json", "regex", "choice"))


def check_structural_tag(raw: Raw) -> None:
    """Rule 9 of contract B.2."""
    constraint = raw.get("structured_outputs")
    tag = constraint.get("structural_tag") if isinstance(constraint, dict) else None
    if tag is not None and not is_structural_tag(tag):
        raise rule_error("Invalid structured_outputs structural_tag specification.", "structured_outputs")


def check_logprob_counts(raw: Raw, field: str) -> None:
    """Rules 11 to 13 of contract B.2 for `prompt_logprobs` and the API's own count `field`."""
    counts = [(name, raw[name]) for name in ("prompt_logprobs", field) if raw.get(name) is not None]
    for name, value in counts:
        if not isinstance(value, int | float):
            raise rule_error(f"`{name}` must be an integer.", name, value=value)
    for name, value in counts:
        if name == "prompt_logprobs" and raw.get("stream") and (value > 0 or value == -1):
            raise rule_error("`prompt_logprobs` are not available when `stream=True`.", name)
        if value < 0 and value != -1:
            raise rule_error(f"`{name}` must be a positive value or -1.", name, value=value)


def check_stream_options(raw: Raw) -> None:
    """Rule 15 of contract B.2."""
    if raw.get("stream_options") and not raw.get("stream"):
        raise rule_error("Stream options can only be defined when `stream=True`.", "stream_options")


def check_response_format(raw: Raw) -> None:
    """Rules 16 and 17 of contract B.2."""
    form = raw.get("response_format")
    if not isinstance(form, dict):
        return
    if form.get("type") == "json_schema" and form.get("json_schema") is None:
        raise rule_error(
            "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
            "response_format",
        )
    if form.get("type") == "structural_tag" and not is_structural_tag(form):
        raise rule_error("Invalid response_format structural_tag specification.", "response_format")


def check_cache_salt(raw: Raw) -> None:
    """Rules 18 and 19 of contract B.2."""
    salt = raw.get("cache_salt")
    if salt is None:
        return
    if not isinstance(salt, str) or not salt:
        raise rule_error("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
    if len(salt) > 128 or any(c in salt for c in "@/\\\0"):
        raise rule_error(
            "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', "
            "or NUL.",
            "cache_salt",
        )


def check_thinking_budget(raw: Raw) -> None:
    """The one number that is not coerced (contract B.1)."""
    budget = raw.get("thinking_token_budget")
    if budget is not None and (type(budget) is not int or budget < -1):
        raise rule_error(
            "`thinking_token_budget` must be a non-negative integer or -1 for unlimited.",
            "thinking_token_budget",
            value=budget,
        )


def check_nested(raw: Raw) -> None:
    """What the objects in a request say of themselves; it comes before any schema error of the request."""
    constraint, detection = raw.get("structured_outputs"), raw.get("repetition_detection")
    with contextlib.suppress(_SchemaError):
        if isinstance(constraint, dict):
            check_constraint(constraint_of(_nested(constraint, StructuredOutputs)))
    with contextlib.suppress(_SchemaError):
        if isinstance(detection, dict):
            _check_repetition(_nested(detection, RepetitionDetection))


class _SchemaError(Exception):
    """Said later, with its place."""


def _nested(raw: dict[str, Any], kind: type[_T]) -> _T:
    try:
        return convert(raw, kind)
    except ApiError:
        raise _SchemaError from None


def check_fields(request: SamplingFields, raw: Raw, loc: str) -> None:
    """Limits of single fields that the types do not say; a breach is a schema error at `loc`."""
    stop_limit(request.stop, loc)
    if request.response_format is not None:
        convert(request.response_format, ResponseFormat, f"{loc}.response_format")
    if request.vllm_xargs:
        request.vllm_xargs = extra_args(request.vllm_xargs, loc)
    if request.stream_options is not None:
        request.stream_options = _with_defaults(request.stream_options, loc)


def stop_limit(stop: str | list[str] | None, loc: str) -> None:
    """Raises ApiError 400 for too many stop strings."""
    if isinstance(stop, str | None) or not stop:
        return
    limit = int(os.environ.get("VLLM_MAX_STOP_STRINGS", "4"))
    if len(stop) > limit:
        raise validation_error(f"{loc}.stop", f"List should have at most {limit} items")


def extra_args(raw: dict[str, Any], loc: str) -> dict[str, Any]:
    """`vllm_xargs` in one spelling. Raises ApiError 400 for values that are none."""
    return {name: _extra_arg(value, f"{loc}.vllm_xargs.{name}") for name, value in raw.items()}


def _extra_arg(value: Any, loc: str) -> Any:
    """A string, a number or a list of them; booleans count as numbers."""
    if isinstance(value, list):
        return [
            _extra_arg(item, loc) if not isinstance(item, list) else _extra_arg(None, loc) for item in value
        ]
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str | int | float):
        raise validation_error(loc, "Input should be a string, a number or a list of them")
    return value


def _check_repetition(detection: RepetitionDetection) -> None:
    largest, smallest = detection.max_pattern_size, detection.min_pattern_size
    if largest < 0 or smallest < 0 or smallest > largest:
        raise bad_request(
            "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. Set "
            "both to 0 to disable repetitive pattern detection."
        )
    if largest > 0 and detection.min_count < 2:
        raise bad_request(
            "min_count must be >= 2 to detect repetitive patterns in engine output. If you do not wish to "
            "detect repetitive patterns, set max_pattern_size to 0."
        )


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


def _with_defaults(raw: dict[str, Any], loc: str) -> dict[str, Any]:
    """Stream options in full; unknown keys survive behind the known ones (contract A.3, B.5)."""
    known = convert(raw, _StreamOptions, f"{loc}.stream_options")
    return {
        "include_usage": known.include_usage,
        "continuous_usage_stats": known.continuous_usage_stats,
        **{key: value for key, value in raw.items() if key not in _StreamOptions.__struct_fields__},
    }
