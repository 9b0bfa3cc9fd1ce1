"""Completion request -> GenerateRequests, one a prompt (contract D.1)."""

from __future__ import annotations

from collections.abc import Iterator

from renderd import telemetry
from renderd.model import Model
from renderd.render.chat import Prompt, truncation_of
from renderd.render.constraint import requested_constraint
from renderd.render.ids import base_id
from renderd.render.prefix import check_single, prefix_of
from renderd.render.prompt import Truncation, tokenize_ids, tokenize_text
from renderd.render.sampling import Resolved, check_requested_tokens, resolve_max_tokens, sampling_params
from renderd.wire.completion import CompletionRequest
from renderd.wire.decode import rule_error
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import GenerateRequest


def render_completion(
    model: Model, request: CompletionRequest, header_id: str | None
) -> Iterator[GenerateRequest]:
    """What an engine needs to answer the request, prompt by prompt: one at a time, for each has all that
    they have in common. Raises ApiError 400 or 404."""
    model.check_name(request.model)
    if request.use_beam_search:
        raise bad_request("Beam search is not supported by the render endpoint")
    _check_suffix(request)
    _check_embeds(request)
    requested_tokens = request.max_tokens
    check_requested_tokens(model, "max_tokens", requested_tokens, request.truncate_prompt_tokens)
    if not request.prompts:
        raise _no_prompt()
    if len(request.prompts) > 1:
        check_single(request)
    truncation = truncation_of(
        model, request.truncate_prompt_tokens, request.truncation_side, requested_tokens
    )
    prompts = [_tokenize(model, request, prompt, truncation) for prompt in request.prompts]
    base = "cmpl-" + base_id(header_id, request.request_id)
    single = len(prompts) == 1
    for index, prompt in enumerate(prompts):
        yield _generate_request(model, request, prompt, base if single else f"{base}-{index}")


def _tokenize(
    model: Model, request: CompletionRequest, prompt: str | list[int], truncation: Truncation
) -> Prompt:
    if isinstance(prompt, list):
        return Prompt(tokenize_ids(model, prompt, truncation))
    with_offsets = bool(request.return_token_offsets)
    ids, offsets = tokenize_text(model, prompt, request.add_special_tokens, truncation, with_offsets)
    return Prompt(ids, offsets, prompt)


def _generate_request(
    model: Model, request: CompletionRequest, prompt: Prompt, request_id: str
) -> GenerateRequest:
    if not prompt.ids:
        raise bad_request("No token_ids rendered")
    telemetry.rendered(len(prompt.ids))
    requested = request.max_tokens
    if requested == 0 and request.echo:
        requested = 1  # the engine cannot generate nothing; echo is about the prompt
    prompt_logprobs = request.prompt_logprobs
    if prompt_logprobs is None and request.echo:
        prompt_logprobs = request.logprobs
    resolved = Resolved(
        n=request.n,
        max_tokens=resolve_max_tokens(model, len(prompt.ids), requested, request.truncate_prompt_tokens),
        logprobs=None if request.logprob_token_ids else request.logprobs,
        prompt_logprobs=prompt_logprobs,
        skip_special_tokens=request.skip_special_tokens,
        spaces_between_special_tokens=request.spaces_between_special_tokens,
        constraint=requested_constraint(request),
    )
    return GenerateRequest(
        request_id=request_id,
        token_ids=prompt.ids,
        token_offsets=prompt.offsets,
        features=None,
        content_parts=None,
        sampling_params=sampling_params(request, model.generation_defaults, resolved),
        model=request.model,
        reasoning_ended=None,
        reasoning_parser_kwargs=None,
        return_token_ids=request.return_token_ids,
        output_mode="tokens",
        parse_context=None,
        stream=bool(request.stream),
        stream_options=request.stream_options if request.stream else None,
        cache_salt=request.cache_salt,
        priority=request.priority,
        kv_transfer_params=request.kv_transfer_params or None,
        ec_transfer_params=request.ec_transfer_params or None,
        prompt_text=prompt.shown(model, request.return_prompt_text),
        prefix=prefix_of(request, prompt.ids),
    )


def _check_suffix(request: CompletionRequest) -> None:
    """Fill-in-the-middle needs a model that renders it; none is served here. Raises ApiError 400."""
    if request.suffix is None:
        return
    if request.echo:
        problem = "Echo is unsupported with suffix."
    elif request.prompt_embeds is not None:
        problem = "suffix is not supported with prompt_embeds"
    elif request.truncate_prompt_tokens is not None:
        problem = "suffix is not supported with truncate_prompt_tokens"
    elif not request.prompts:
        raise _no_prompt()
    elif any(isinstance(prompt, list) for prompt in request.prompts):
        problem = "suffix requires text prompt input for FIM completion rendering"
    else:
        problem = "suffix is only supported for models with FIM completion rendering"
    raise bad_request(problem, "suffix")


def _no_prompt() -> ApiError:
    return rule_error("You must pass at least one prompt", "prompt")


def _check_embeds(request: CompletionRequest) -> None:
    """Prompt embeddings are no token ids; vLLM too takes them only with a flag. Raises ApiError 400."""
    if request.prompt_embeds is None or request.prompt_embeds == []:
        return
    if request.echo:
        raise bad_request("Echo is unsupported with prompt embeds.")
    if request.prompt_logprobs is not None:
        raise bad_request("prompt_logprobs is not compatible with prompt embeds.")
    raise rule_error("You must set `--enable-prompt-embeds` to input `prompt_embeds`.", "prompt_embeds")
