"""`/v1/responses` requests (contract D.4)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from renderd.wire.chat import (
    ChatCompletionRequest,
    Function,
    NamedFunction,
    NamedToolChoice,
    ReasoningEffort,
    Tool,
)
from renderd.wire.decode import convert, rule_error, validation_error
from renderd.wire.response_items import (
    has_namespace_keys,
    is_namespace,
    read_choice,
    read_input,
    read_tools,
)
from renderd.wire.sampling import (
    Int64,
    Raw,
    check_cache_salt,
    check_nested,
    check_structural_tag,
    extra_args,
    stop_limit,
)
from renderd.wire.structured import StructuredOutputs

Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Include = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
]
LOGPROBS: Include = "message.output_text.logprobs"


class Reasoning(msgspec.Struct, kw_only=True):
    """How much to think; only `effort` has an effect."""

    context: Literal["auto", "current_turn", "all_turns"] | None = None
    effort: ReasoningEffort | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    mode: str | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class TextFormat(msgspec.Struct, kw_only=True):
    """The form of the answer's text; a JSON schema has a name."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class TextConfig(msgspec.Struct, kw_only=True):
    """What is wanted of the answer's text; `verbosity` has no effect."""

    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class PromptCacheOptions(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Of OpenAI's prompt cache; without effect."""

    mode: Literal["implicit", "explicit"] | msgspec.UnsetType = msgspec.UNSET
    ttl: Literal["30m"] | msgspec.UnsetType = msgspec.UNSET
    comparison_response_id: str | msgspec.UnsetType | None = msgspec.UNSET
    prewarm: bool | msgspec.UnsetType | None = msgspec.UNSET


class ResponsesRequest(msgspec.Struct, kw_only=True):
    """A Responses request. `input` is a text or a list of items, checked but as sent; `tools` likewise."""

    input: str | list[dict[str, Any]]
    model: str | None = None
    instructions: str | None = None
    background: bool | None = False
    include: list[Include] | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    logit_bias: dict[str, float] | None = None
    parallel_tool_calls: bool | None = True
    previous_response_id: str | None = None
    prompt: dict[str, Any] | None = None
    reasoning: Reasoning | None = None
    include_reasoning: bool = True
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] = "auto"
    store: bool | None = True
    stream: bool | None = False
    temperature: float | None = None
    text: TextConfig | None = None
    tool_choice: Any = "auto"
    tools: list[dict[str, Any]] = []
    top_logprobs: int | None = 0
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    truncation: Literal["auto", "disabled"] | None = "disabled"
    user: str | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: PromptCacheOptions | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    safety_identifier: str | None = None
    watermarking: bool | None = None
    request_id: str | msgspec.UnsetType = msgspec.UNSET
    session_id: str | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None
    priority: Int64 = 0
    mm_payload: Literal["tensors", "none"] = "tensors"
    return_mm_kwargs: bool | None = None
    cache_salt: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)] | None = None
    enable_response_messages: bool = False
    previous_input_messages: list[dict[str, Any]] | None = None
    structured_outputs: StructuredOutputs | None = None
    repetition_penalty: float | None = None
    seed: Int64 | None = None
    stop: str | list[str] | None = []
    stop_token_ids: list[int] | None = []
    ignore_eos: bool = False
    vllm_xargs: dict[str, Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def with_logprobs(self) -> bool:
        """Log probabilities are part of the answer."""
        return self.include is not None and LOGPROBS in self.include


def decode_responses_request(raw: dict[str, Any], loc: str = "body") -> ResponsesRequest:
    """The request in a JSON object, checked rule by rule and then field by field, as vLLM does.

    Raises ApiError 400.
    """
    for check in _CHECKS:
        check(raw)
    if "input" not in raw:
        raise validation_error(f"{loc}.input", "Field required")
    fields = dict(raw)
    for name, read in (("input", read_input), ("tool_choice", read_choice), ("tools", read_tools)):
        if name in raw:
            fields[name] = read(raw[name], f"{loc}.{name}")
    if raw.get("prompt_cache_retention") == "in-memory":
        fields["prompt_cache_retention"] = "in_memory"
    _check_format(raw.get("text"), f"{loc}.text.format")
    request = convert(fields, ResponsesRequest, loc)
    stop_limit(request.stop, loc)
    if request.vllm_xargs:
        request.vllm_xargs = extra_args(request.vllm_xargs, loc)
    return request


def _check_format(text: Any, loc: str) -> None:
    """Raises ApiError 400 at the first of the forms that vLLM tries."""
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict) or form.get("type") in ("text", "json_object"):
        return
    if form.get("type") != "json_schema" or "name" not in form or "schema" not in form:
        raise validation_error(f"{loc}.ResponseFormatText.type", "Input should be 'text'")


def check_constraints(request: ResponsesRequest) -> None:
    """Raises ApiError 400 for two forms of the answer's text."""
    form = request.text.format if request.text else None
    if form is not None and request.structured_outputs is not None:
        raise rule_error("Cannot specify both structured_outputs and text.format", "structured_outputs")


def as_chat(request: ResponsesRequest, messages: list[dict[str, Any]] | None = None) -> ChatCompletionRequest:
    """The chat request that asks for the same answer. `messages`: the input, as render converts it."""
    tools = function_tools(request.tools)
    return ChatCompletionRequest(
        messages=messages or [],
        model=request.model,
        frequency_penalty=request.frequency_penalty,
        presence_penalty=request.presence_penalty,
        repetition_penalty=request.repetition_penalty,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        min_p=request.min_p,
        watermarking=request.watermarking,
        logit_bias=request.logit_bias,
        seed=request.seed,
        stop=request.stop,
        stop_token_ids=request.stop_token_ids,
        include_stop_str_in_output=request.include_stop_str_in_output,
        ignore_eos=request.ignore_eos,
        skip_special_tokens=request.skip_special_tokens,
        spaces_between_special_tokens=request.spaces_between_special_tokens,
        stream=request.stream,
        truncate_prompt_tokens=-1 if request.truncation == "auto" else None,
        response_format=_response_format(request.text),
        structured_outputs=None if request.text and request.text.format else request.structured_outputs,
        vllm_xargs=request.vllm_xargs,
        kv_transfer_params=request.kv_transfer_params,
        ec_transfer_params=request.ec_transfer_params,
        cache_salt=request.cache_salt,
        priority=request.priority,
        logprobs=request.with_logprobs,
        top_logprobs=request.top_logprobs,
        max_completion_tokens=request.max_output_tokens,
        tools=tools if request.tools else None,  # hosted tools alone are an empty list to a template
        tool_choice=_tool_choice(request, tools),
        parallel_tool_calls=request.parallel_tool_calls,
        reasoning_effort=request.reasoning.effort if request.reasoning else None,
        include_reasoning=request.include_reasoning,
        chat_template_kwargs=request.chat_template_kwargs,
        media_io_kwargs=request.media_io_kwargs,
        mm_processor_kwargs=request.mm_processor_kwargs,
    )


def flat_name(name: str, namespace: str | None) -> str:
    """What the model calls a function of a namespace."""
    return name if namespace is None else f"{namespace}__{name}"


def function_tools(tools: list[dict[str, Any]]) -> list[Tool]:
    """Those that the model can call: functions, also in namespaces, and custom tools; hosted ones are not."""
    found: list[Tool] = []
    for tool in tools:
        if tool["type"] == "function":
            found.append(_function(tool, None))
        elif tool["type"] == "custom":
            found.append(_custom(tool))
        elif tool["type"] == "namespace":
            found += [
                _function(inner, tool["name"]) for inner in tool["tools"] if inner["type"] == "function"
            ]
    return found


def _function(tool: dict[str, Any], namespace: str | None) -> Tool:
    function = Function(
        name=flat_name(tool["name"], namespace),
        description=tool.get("description"),
        parameters=tool.get("parameters"),
        strict=tool.get("strict"),
        defer_loading=tool.get("defer_loading"),
    )
    return Tool(function=function)


_PAYLOAD = "The freeform text payload for this tool."


def _custom(tool: dict[str, Any]) -> Tool:
    """A tool that takes any text, as a function of one string."""
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": _PAYLOAD}},
        "required": ["input"],
        "additionalProperties": False,
    }
    function = Function(name=tool["name"], description=tool.get("description"), parameters=parameters)
    return Tool(function=function)


def _tool_choice(
    request: ResponsesRequest, tools: list[Tool]
) -> Literal["none", "auto", "required"] | NamedToolChoice:
    choice = request.tool_choice
    if not tools:
        return "none"
    if isinstance(choice, str):
        return choice  # type: ignore[return-value]  # one of three, see read_choice
    if choice["type"] not in ("function", "custom"):
        return "auto"
    name, (_, inside) = choice["name"], _names(request.tools, choice["type"])
    if all(tool.function.name != name for tool in tools):
        name = dict(inside).get(name, name)
    return NamedToolChoice(function=NamedFunction(name))


def _response_format(text: TextConfig | None) -> dict[str, Any] | None:
    form = text.format if text else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": form.name, "schema": form.schema}}


def _check_background(raw: Raw) -> None:
    if raw.get("background") and not raw.get("store", True):
        raise rule_error("background can only be used when `store` is true", "background")


def _check_prompt(raw: Raw) -> None:
    if raw.get("prompt") is not None:
        raise rule_error("prompt template is not supported", "prompt")


def _check_custom_tools(raw: Raw) -> None:
    tools = raw.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        form = tool.get("format") if isinstance(tool, dict) else None
        if isinstance(form, dict) and tool.get("type") == "custom" and form.get("type") == "grammar":
            raise rule_error(
                "Custom tools with a grammar format are not supported; only free-form text custom tools are "
                "accepted.",
                "tools",
            )


def _all_tools(tools: Any) -> list[dict[str, Any]]:
    found = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return found + [inner for tool in found for inner in _all_tools(tool.get("tools"))]


def _check_tool_choice(raw: Raw) -> None:
    choice, tools = raw.get("tool_choice"), raw.get("tools")
    whole = is_namespace if choice == "required" else has_namespace_keys
    if isinstance(tools, list) and not all(
        whole(tool) for tool in tools if isinstance(tool, dict) and tool.get("type") == "namespace"
    ):
        return  # said later, with its place
    if choice == "required":
        if not tools:
            raise rule_error(
                "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice"
            )
    elif isinstance(choice, dict) and choice.get("type") in ("function", "custom"):
        name = choice.get("name")
        flat, inside = _names(tools, choice["type"])
        if isinstance(name, str) and name in flat:
            return
        found = [full for short, full in inside if short == name]
        if not found:
            raise rule_error("Tool choice 'function' not found in 'tools' parameter.", "tool_choice")
        if len(found) > 1:
            raise rule_error(
                f"Tool choice '{name}' is ambiguous: it is defined in more than one namespace "
                f"({', '.join(found)}). Select it by its full '<namespace>__<name>' name.",
                "tool_choice",
            )


def _names(tools: Any, kind: str) -> tuple[set[str], list[tuple[str, str]]]:
    """What tools of a kind may be called: flat names, and pairs of short and flat name in namespaces."""
    flat: set[str] = set()
    inside: list[tuple[str, str]] = []
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            continue
        if tool.get("type") == kind:
            flat.add(tool["name"])
        elif tool.get("type") == "namespace":
            found = [one.get("name") for one in _all_tools(tool.get("tools")) if one.get("type") == kind]
            inside += [(name, flat_name(name, tool["name"])) for name in found if isinstance(name, str)]
    return flat | {full for _, full in inside}, inside


_CHECKS = (
    _check_tool_choice,
    _check_custom_tools,
    _check_prompt,
    _check_background,
    check_cache_salt,
    check_structural_tag,
    check_nested,
)
"""Rules between fields, the first that fails answers."""
