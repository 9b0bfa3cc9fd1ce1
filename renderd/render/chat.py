"""Chat request -> GenerateRequest (contract B and C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from parsers import Family, UnfitRequestError
from renderd import telemetry
from renderd.model import Model
from renderd.model.segments import TokenIds
from renderd.model.template_kwargs import effective_kwargs, mapped_effort
from renderd.render.constraint import requested_constraint, tool_constraint
from renderd.render.conversation import count_tool_calls, has_media
from renderd.render.ids import base_id
from renderd.render.options import RenderOptions
from renderd.render.prefix import prefix_of
from renderd.render.prompt import Offsets, Truncation, check_chars, tokenize_ids, tokenize_text
from renderd.render.sampling import Resolved, check_requested_tokens, resolve_max_tokens, sampling_params
from renderd.render.writer import Chat, Writer
from renderd.wire.chat import (
    ChatCompletionRequest,
    NamedToolChoice,
    Tool,
    tool_choice_dict,
    tool_choice_kind,
    tool_dicts,
)
from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request
from renderd.wire.frames import FramedRequest
from renderd.wire.generate import GenerateRequest, ParseContext
from renderd.wire.structured import Constraint


@dataclass(frozen=True)
class Server:
    """What rendering needs to know of the server."""

    model: Model
    family: Family | None
    options: RenderOptions
    marker_ids: dict[str, list[int]]
    writer: Writer


class Prompt(Struct, frozen=True):
    """Token ids and, if asked for, the characters that each covers. `text`: what was tokenized, None if the
    prompt came as ids."""

    ids: Sequence[int]
    offsets: Offsets | None = None
    text: str | None = None

    def shown(self, model: Model, wanted: bool | None) -> str | UnsetType:
        """The prompt's text for the answer, if it is wanted."""
        if not wanted:
            return UNSET
        if self.text is not None:
            return self.text
        return model.tokenizer.decode([i for i in self.ids if i <= model.tokenizer.max_id])


def render_chat(server: Server, request: ChatCompletionRequest, header_id: str | None) -> GenerateRequest:
    """What an engine needs to answer the request. Raises ApiError 400 or 404."""
    asked = _asked(request)
    if asked is None:
        server.model.check_name(request.model)
        if request.use_beam_search:
            raise bad_request("Beam search is not supported by the render endpoint")
        _check_tool_choice(request, server)
    field = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
    name = "chatcmpl-" + base_id(header_id, request.request_id)
    requested_tokens, sized = getattr(request, field), server.writer.templated
    if asked is None:
        check_message(server, request, requested_tokens, field, sized)
    return render_message(server, request, requested_tokens, name, sized)


def count_chat(server: Server, request: ChatCompletionRequest) -> int:
    """How many tokens the prompt has, whatever else the request asks for. Raises ApiError 400 or 404."""
    server.model.check_name(request.model)
    _check_tool_choice(request, server)
    sized, config = server.writer.templated, server.model.config
    check_message(server, request, None, "max_tokens", sized)
    kwargs = effective_kwargs(request, config.default_chat_template_kwargs, config.reasoning_effort_map)
    prompt = _render_prompt(server, request, tool_dicts(request), kwargs, None, sized)
    _check_name(request.tool_choice, request.tools)
    return len(prompt.ids)


def check_message(
    server: Server,
    request: ChatCompletionRequest,
    requested_tokens: int | None,
    field: str,
    sized: bool = True,
) -> None:
    """What is checked before a prompt is made: rights and, `sized`, sizes. `field`: what the API calls
    `requested_tokens`. Raises ApiError 400."""
    check_rights(
        server,
        request.chat_template,
        request.chat_template_kwargs,
        request.media_io_kwargs,
        request.mm_processor_kwargs,
    )
    if sized:
        check_requested_tokens(server.model, field, requested_tokens, request.truncate_prompt_tokens)


def render_message(
    server: Server,
    request: ChatCompletionRequest,
    requested_tokens: int | None,
    request_id: str,
    sized: bool,
    takes_ids: bool = True,
) -> GenerateRequest:
    """What an engine needs to answer a request of any API with messages, behind `check_message`. `sized`: the
    prompt is cut and measured, as the tokenizer does it. `takes_ids`: a prompt may come as ids. Raises
    ApiError 400."""
    model, family = server.model, server.family
    tools = tool_dicts(request)
    asked = _asked(request)
    kwargs = (
        effective_kwargs(
            request, model.config.default_chat_template_kwargs, model.config.reasoning_effort_map
        )
        if asked is None
        else asked.kwargs
    )
    kv_params = dict(request.kv_transfer_params or {})
    given = _given_ids(request, kv_params, model) if takes_ids else None
    prompt = (
        Prompt(given)
        if given is not None
        else _render_prompt(server, request, tools, kwargs, requested_tokens, sized)
    )
    if asked is None:
        _check_name(request.tool_choice, request.tools)
        adjusted = _for_parsers(server, request, tools, kwargs)
    else:
        adjusted = asked.adjusted
    if not prompt.ids:
        raise bad_request("No token_ids rendered")
    telemetry.rendered(len(prompt.ids))
    max_tokens = resolve_max_tokens(model, len(prompt.ids), requested_tokens, request.truncate_prompt_tokens)
    if asked is not None and max_tokens >= max(request.min_tokens, 1):
        params = {**asked.params, "max_tokens": max_tokens}
    else:
        params = _params(server, request, adjusted, max_tokens)
    if asked is None and isinstance(request, FramedRequest):
        request.found["asked"] = _Asked(kwargs, adjusted, params)
    has_reasoning = family is not None and family.has_reasoning
    return GenerateRequest(
        request_id=request_id,
        token_ids=prompt.ids,
        token_offsets=prompt.offsets,
        features=None,
        content_parts=None,
        sampling_params=params,
        model=request.model,
        reasoning_ended=_reasoning_ended(server, request, prompt.ids, kwargs),
        reasoning_parser_kwargs=(
            {"chat_template_kwargs": family.told_kwargs(kwargs)} if has_reasoning and family else None
        ),
        return_token_ids=request.return_token_ids,
        output_mode="tokens",
        parse_context=ParseContext(
            tools=tools,
            tool_choice=tool_choice_dict(request),
            parallel_tool_calls=request.parallel_tool_calls,
            include_reasoning=request.include_reasoning,
            chat_template_kwargs=kwargs if server.writer.templated else {},
            history_tool_call_cnt=count_tool_calls(request.messages),
        ),
        stream=bool(request.stream),
        stream_options=request.stream_options if request.stream else None,
        cache_salt=request.cache_salt,
        priority=request.priority,
        kv_transfer_params=kv_params or None,
        ec_transfer_params=request.ec_transfer_params or None,
        prompt_text=prompt.shown(model, request.return_prompt_text),
        prefix=prefix_of(request, prompt.ids),
    )


def _params(
    server: Server, request: ChatCompletionRequest, adjusted: _Adjusted, max_tokens: int
) -> dict[str, Any]:
    prompt_logprobs = request.prompt_logprobs
    if prompt_logprobs is None and request.echo:
        prompt_logprobs = request.top_logprobs or 0
    with_logprobs = bool(request.logprobs) and not request.logprob_token_ids
    resolved = Resolved(
        n=1 if request.n is None else request.n,
        max_tokens=max_tokens,
        logprobs=(request.top_logprobs or 0) if with_logprobs else None,
        prompt_logprobs=prompt_logprobs,
        skip_special_tokens=adjusted.skip_special_tokens,
        spaces_between_special_tokens=adjusted.spaces_between_special_tokens,
        constraint=adjusted.constraint,
    )
    return sampling_params(request, server.model.generation_defaults, resolved)


class _Adjusted(Struct, frozen=True):
    """What parsers have a say in."""

    skip_special_tokens: bool | None
    spaces_between_special_tokens: bool
    constraint: Constraint | None


class _Asked(Struct, frozen=True):
    """What a request asks for whatever its messages are, when all of it was checked. `params`: of sampling;
    their max_tokens are those of one prompt."""

    kwargs: dict[str, Any]
    adjusted: _Adjusted
    params: dict[str, Any]


def _asked(request: ChatCompletionRequest) -> _Asked | None:
    """What requests with the same frame were found to ask for."""
    return request.found.get("asked") if isinstance(request, FramedRequest) else None


def _for_parsers(
    server: Server,
    request: ChatCompletionRequest,
    tools: list[dict[str, Any]] | None,
    kwargs: Mapping[str, Any],
) -> _Adjusted:
    """The request's own values, but for what its parsers need (contract B.4.4)."""
    requested, family = requested_constraint(request), server.family
    skip, spaces = request.skip_special_tokens, request.spaces_between_special_tokens
    if family is None:
        return _Adjusted(skip, spaces, requested)
    try:
        family.check(kwargs)
    except UnfitRequestError as error:
        raise bad_request(str(error)) from None
    kind = tool_choice_kind(request)
    if family.skip_special_tokens(bool(tools), kind) is False:
        skip = False
    if family.spaces_between_special_tokens(bool(tools), kind) is False:
        spaces = False
    return _Adjusted(
        skip, spaces, tool_constraint(request, tools, family, server.options, requested) or requested
    )


def check_rights(
    server: Server, template: Any, kwargs: Any, media_io_kwargs: Any, mm_processor_kwargs: Any
) -> None:
    """Raises ApiError 400 if the request brings what this server takes from its own command line only."""
    if not server.writer.templated:
        return
    server.writer.check(template, kwargs)
    if server.options.trust_request_mm_kwargs:
        return
    for name, value, effect in (
        ("media_io_kwargs", media_io_kwargs, "media loading"),
        ("mm_processor_kwargs", mm_processor_kwargs, "preprocessing"),
    ):
        if value:
            raise rule_error(
                f"Per-request {name} are disabled by default because they can change multimodal {effect} "
                "resource usage. Start the server with --trust-request-mm-kwargs only when clients are "
                "trusted.",
                name,
            )


def write(server: Server, chat: Chat) -> str | Sequence[int]:
    """See Writer.write. Raises ApiError 400, too, for more text than may be tokenized."""
    if not server.writer.templated:  # it tokenizes as it writes
        check_chars(server.model, _characters(chat.messages) + _characters(chat.tools))
    began = telemetry.clock()
    try:
        return server.writer.write(chat)
    finally:
        telemetry.spent("template", began)


def _characters(value: Any) -> int:
    """Of all texts in a JSON value, which may be nested deeply."""
    count, left = 0, [value]
    while left:
        value = left.pop()
        if isinstance(value, str):
            count += len(value)
        elif isinstance(value, dict):
            left += value
            left += value.values()
        elif isinstance(value, list):
            left += value
    return count


def chat_text(server: Server, chat: Chat) -> str:
    """The prompt's text, to look at. Raises ApiError 400 for a chat that cannot be written."""
    written = write(server, chat)
    return written if isinstance(written, str) else server.model.tokenizer.decode(written)


def _render_prompt(
    server: Server,
    request: ChatCompletionRequest,
    tools: list[dict[str, Any]] | None,
    kwargs: dict[str, Any],
    requested_tokens: int | None,
    sized: bool,
) -> Prompt:
    if server.options.exclude_tools_when_tool_choice_none and request.tool_choice == "none":
        tools = None
    effort = mapped_effort(request, server.model.config.reasoning_effort_map)
    template = request.chat_template or kwargs.get("chat_template")
    written = write(server, Chat(request.messages, tools, effort, template, kwargs))
    truncation = truncation_of(
        server.model, request.truncate_prompt_tokens, request.truncation_side, requested_tokens
    )
    if not isinstance(written, str):
        return Prompt(tokenize_ids(server.model, written, truncation) if sized else written)
    with_offsets = bool(request.return_token_offsets)
    ids, offsets = tokenize_text(server.model, written, request.add_special_tokens, truncation, with_offsets)
    return Prompt(ids, offsets, written)


def truncation_of(model: Model, limit: int | None, side: Any, requested_tokens: int | None) -> Truncation:
    """The request's truncation; -1 stands for all but the one token that the answer needs (contract C.5)."""
    if limit == -1:
        limit = model.max_model_len - (0 if requested_tokens == 0 else 1)
    return Truncation(limit, side)


def _check_tool_choice(request: ChatCompletionRequest, server: Server) -> None:
    """Raises ApiError 400 for a tool choice that needs a tool parser where there is none (contract B.3)."""
    choice, family = request.tool_choice, server.family
    if request.tools is None or choice is None or choice == "none":
        return
    if not server.writer.needs_tool_parser or (family is not None and family.has_tools):
        return
    if choice == "auto":
        raise bad_request(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        )
    shown = f'function "{choice.function.name}"' if isinstance(choice, NamedToolChoice) else f'"{choice}"'
    raise bad_request(f"tool_choice={shown} requires --tool-call-parser to be set")


def _check_name(choice: Any, tools: list[Tool] | None) -> None:
    """Raises ApiError 400 for a choice that names no tool, which not every API has found out before."""
    name = choice.function.name if isinstance(choice, NamedToolChoice) else None
    if name is not None and tools and name not in [tool.function.name for tool in tools]:
        raise bad_request(f"The tool with name '{name}' is not found in the tools list.")


def _given_ids(request: ChatCompletionRequest, kv_params: dict[str, Any], model: Model) -> list[int] | None:
    """Prompt ids that came with the request; they replace templating and tokenization (contract C.6). Taken
    out of `kv_params`."""
    ids = kv_params.pop("prompt_token_ids", None)
    if ids is None or request.echo or has_media(request.messages):
        return None
    where = "kv_transfer_params.prompt_token_ids"
    if not isinstance(ids, list) or not ids or not all(type(i) is int and i >= 0 for i in ids):
        raise rule_error(
            "`kv_transfer_params['prompt_token_ids']` must be a non-empty list of non-negative integers.",
            where,
        )
    if max(ids) > model.max_token_id:
        raise rule_error(f"Token id {max(ids)} is out of vocabulary", where)
    return ids


def _reasoning_ended(
    server: Server, request: ChatCompletionRequest, ids: Sequence[int], kwargs: dict[str, Any]
) -> bool | None:
    """Whether the answer starts behind its reasoning (contract B.5)."""
    if not request.include_reasoning:
        return True
    if server.family is None:
        return None
    search = ids.search if isinstance(ids, TokenIds) else None
    return server.family.reasoning_ended(ids, server.marker_ids, kwargs, search)
