"""What a Response repeats of its request, and what its calls are called there (contract D.4)."""

from __future__ import annotations

from typing import Any

import msgspec

from renderd.derender.context import Context
from renderd.derender.setup import Setup
from renderd.wire.response_answers import Echo
from renderd.wire.responses import ResponsesRequest, TextFormat, flat_name

_FUNCTION: dict[str, Any] = dict.fromkeys(
    ("parameters", "strict", "allowed_callers", "async", "defer_loading", "description", "output_schema")
)
_CUSTOM: dict[str, Any] = dict.fromkeys(
    ("allowed_callers", "async", "defer_loading", "description", "format")
)


class Told(msgspec.Struct, array_like=True, frozen=True):
    """What the route remembers of a request.

    Attributes:
        customs: names of custom tools.
        namespaces: namespace and name inside it of functions, by flat name.
        echo: an Echo, encoded: it is wanted at the first event and the last.
    """

    customs: list[str]
    namespaces: dict[str, tuple[str, str]]
    echo: bytes


_ENCODER = msgspec.msgpack.Encoder()
_TOLD = msgspec.msgpack.Decoder(Told)
_ECHO = msgspec.msgpack.Decoder(Echo)


def tell(setup: Setup, context: Context, request: ResponsesRequest, prompt_tokens: int) -> Context:
    """The context of a request with what a Response needs of it."""
    customs = [tool["name"] for tool in request.tools if tool["type"] == "custom"]
    namespaces = {
        flat_name(inner["name"], tool["name"]): (tool["name"], inner["name"])
        for tool in request.tools
        if tool["type"] == "namespace"
        for inner in tool["tools"]
        if inner["type"] == "function"
    }
    told = Told(customs, namespaces, _ENCODER.encode(_echo(setup, request, prompt_tokens)))
    return msgspec.structs.replace(context, told=_ENCODER.encode(told), with_logprobs=request.with_logprobs)


def told_by(context: Context) -> Told:
    """What `tell` put into a context. Raises ValueError if it is not that."""
    try:
        return _TOLD.decode(context.told) if context.told else Told([], {}, b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("parser_state is malformed") from None


def echo_of(told: Told, model: str) -> Echo:
    """What to repeat; of a call without a request the defaults. Raises ValueError if it is not that."""
    if not told.echo:
        return Echo(model=model)
    try:
        return _ECHO.decode(told.echo)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("parser_state is malformed") from None


def _echo(setup: Setup, request: ResponsesRequest, prompt_tokens: int) -> Echo:
    defaults = setup.model.generation_defaults

    def sampled(name: str, neutral: float) -> float:
        own = getattr(request, name)
        return float(own if own is not None else defaults.get(name, neutral))

    temperature = sampled("temperature", 1.0)
    return Echo(
        instructions=request.instructions,
        metadata=request.metadata,
        model=setup.model_name(request.model),
        parallel_tool_calls=request.parallel_tool_calls is not False,
        temperature=max(temperature, 0.01) if temperature > 0 else 0.0,
        tool_choice=request.tool_choice if request.tools else "none",
        tools=[_tool(tool) for tool in request.tools],
        top_p=sampled("top_p", 1.0) if temperature > 0 else 1.0,
        background=bool(request.background),
        max_output_tokens=_max_tokens(setup, request, prompt_tokens),
        max_tool_calls=request.max_tool_calls,
        prompt_cache_options=_cache_options(request),
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_retention=request.prompt_cache_retention,
        reasoning=msgspec.structs.asdict(request.reasoning) if request.reasoning else None,
        safety_identifier=request.safety_identifier,
        service_tier=request.service_tier,
        text=_text(request),
        top_logprobs=request.top_logprobs if request.with_logprobs else None,
        truncation=request.truncation or "disabled",
        user=request.user,
        presence_penalty=sampled("presence_penalty", 0.0),
        frequency_penalty=sampled("frequency_penalty", 0.0),
    )


def _max_tokens(setup: Setup, request: ResponsesRequest, prompt_tokens: int) -> int:
    """The limit that render wrote for the engine (contract B.4.2)."""
    model, wanted = setup.model, request.max_output_tokens
    if wanted is None:
        wanted = model.generation_defaults.get("max_tokens")
    limits = (max(model.max_model_len - prompt_tokens, 0), wanted, model.output_cap)
    return int(min(limit for limit in limits if limit is not None))


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Known tools with all their fields; others as they were sent."""
    if tool["type"] == "namespace":
        return {**tool, "tools": [_tool(inner) for inner in tool["tools"]]}
    fields = {"function": _FUNCTION, "custom": _CUSTOM}.get(tool["type"], {})
    return {"name": tool["name"], "type": tool["type"], **fields, **tool} if fields else tool


def _cache_options(request: ResponsesRequest) -> dict[str, Any] | None:
    if request.prompt_cache_options is None:
        return None
    given = msgspec.to_builtins(request.prompt_cache_options)
    return {"mode": "implicit", "ttl": "30m", "comparison_response_id": None, **given}


def _text(request: ResponsesRequest) -> dict[str, Any] | None:
    if request.text is None:
        return None
    form = request.text.format
    return {"format": form and _format(form), "verbosity": request.text.verbosity}


def _format(form: TextFormat) -> dict[str, Any]:
    return msgspec.structs.asdict(form) if form.type == "json_schema" else {"type": form.type}
