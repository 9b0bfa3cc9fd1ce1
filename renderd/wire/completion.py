"""`/v1/completions` requests (contract D.1)."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from renderd.wire.decode import convert, rule_error, validation_error
from renderd.wire.sampling import (
    Natural,
    Raw,
    SamplingFields,
    check_cache_salt,
    check_fields,
    check_logprob_counts,
    check_nested,
    check_response_format,
    check_stream_options,
    check_structural_tag,
    check_structured_outputs,
    check_thinking_budget,
)

DEFAULT_MAX_TOKENS = 16


class CompletionRequest(SamplingFields, kw_only=True):
    """A completion request. `prompt` is what was sent, `prompts` lists it one by one."""

    prompt: Any = None
    prompts: list[str | list[int]] = msgspec.field(default_factory=list)
    prompt_embeds: str | list[str] | None = None
    suffix: str | None = None
    n: int = 1
    logprobs: int | None = None
    max_tokens: int | None = DEFAULT_MAX_TOKENS
    echo: bool | None = False
    add_special_tokens: bool = True
    return_prompt_text: bool | None = None


def decode_completion_request(raw: dict[str, Any], loc: str = "body") -> CompletionRequest:
    """The request in a JSON object, checked rule by rule and then field by field, as vLLM does.

    Raises ApiError 400.
    """
    for check in _CHECKS:
        check(raw)
    prompts = _read_prompts(raw.get("prompt"), f"{loc}.prompt")
    request = convert({k: v for k, v in raw.items() if k != "prompts"}, CompletionRequest, loc)
    check_fields(request, raw, loc)
    if request.max_tokens is None:
        request.max_tokens = DEFAULT_MAX_TOKENS
    request.prompts = prompts
    return request


def _read_prompts(raw: Any, loc: str) -> list[str | list[int]]:
    """A text, a list of texts, one list of token ids (they may be digits), or a list of such lists."""
    if raw is None or raw == []:
        return []
    if isinstance(raw, str):
        return [raw]
    if not isinstance(raw, list):
        raise validation_error(loc, "Input should be a valid string or list")
    if all(isinstance(one, str) for one in raw):
        return raw
    if all(isinstance(one, list) for one in raw):
        return list(convert(raw, list[list[Natural]], loc))
    return [convert(raw, list[Natural], loc)]


def _check_structured_outputs(raw: Raw) -> None:
    check_structured_outputs(raw, "structured_outputs")


def _check_logprobs(raw: Raw) -> None:
    if raw.get("logprob_token_ids"):
        if raw.get("use_beam_search"):
            raise rule_error("`logprob_token_ids` is not supported with beam search.", "logprob_token_ids")
        if raw.get("logprobs") is None:
            raise rule_error("when using `logprob_token_ids`, `logprobs` must be set.", "logprob_token_ids")
        if raw.get("echo") and raw.get("max_tokens") == 0:
            raise rule_error(
                "`logprob_token_ids` is not supported when `echo=True` and `max_tokens=0` because no output "
                "tokens are generated.",
                "logprob_token_ids",
            )
    if raw.get("echo") and raw.get("logprobs") is not None and raw.get("use_beam_search"):
        raise rule_error(
            "`echo` with `logprobs` is not supported with beam search because beam search does not compute "
            "prompt logprobs.",
            "echo",
        )
    check_logprob_counts(raw, "logprobs")


def _check_prompt(raw: Raw) -> None:
    limit = int(os.environ.get("VLLM_MAX_COMPLETION_PROMPTS", "1024"))
    prompt, embeds = raw.get("prompt"), raw.get("prompt_embeds")
    if prompt in (None, "") and (embeds is None or embeds == []):
        raise rule_error("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if isinstance(prompt, list) and len(prompt) > limit and not isinstance(prompt[0], int | float):
        raise rule_error(
            f"prompt list length {len(prompt)} exceeds the maximum allowed count of {limit}. To increase "
            "this limit, set the VLLM_MAX_COMPLETION_PROMPTS environment variable.",
            "prompt",
        )


_CHECKS = (
    _check_prompt,
    check_stream_options,
    _check_logprobs,
    _check_structured_outputs,
    check_structural_tag,
    check_response_format,
    check_cache_salt,
    check_nested,
    check_thinking_budget,
)
"""Rules between fields; the first that fails answers (contract D.1)."""
