"""`/v1/chat/completions` requests (contract B.1, B.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from renderd.wire.decode import convert, rule_error
from renderd.wire.messages import (
    check_call_iterables,
    check_iterables,
    is_plain,
    read_calls,
    read_messages,
)
from renderd.wire.sampling import (
    Checks,
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
    constraints_set,
    run_checks,
)

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ToolChoiceKind = Literal["none", "auto", "required", "named"]


class Function(msgspec.Struct, kw_only=True):
    """What a tool does; `parameters` is a JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class Tool(msgspec.Struct, kw_only=True):
    """A tool that the model may call."""

    function: Function
    type: Literal["function"] = "function"
    defer_loading: bool | None = None


class ToolDicts(list[dict[str, Any]]):
    """What `tool_dicts` makes of tools that several requests have. `written`: JSON texts of the tools and of
    their parts, by the identity of the part and the indent."""

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        super().__init__(tools)
        self.written: dict[int, dict[int | None, str]] = {}
        for tool in tools:
            for part in (tool, tool["function"], tool["function"]["parameters"]):
                self.written[id(part)] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # identities mean nothing elsewhere


class Tools(list[Tool]):
    """Tools that were read once, for several requests. `dicts`: see `tool_dicts`."""

    def __init__(self, tools: list[Tool]) -> None:
        super().__init__(tools)
        self.dicts = ToolDicts([tool_dict(tool) for tool in tools])


class NamedFunction(msgspec.Struct):
    """Name of the tool that must be called."""

    name: str


class NamedToolChoice(msgspec.Struct, kw_only=True):
    """tool_choice that names one tool."""

    function: NamedFunction
    type: Literal["function"] = "function"


class ChatCompletionRequest(SamplingFields, kw_only=True):
    """A chat request after defaulting: `tool_choice` is "auto" where tools came without a choice.
    `messages` are dicts as `read_messages` leaves them."""

    messages: list[dict[str, Any]]
    n: int | None = 1
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedToolChoice | None = "none"
    parallel_tool_calls: bool | None = True
    reasoning_effort: ReasoningEffort | None = None
    include_reasoning: bool = True
    echo: bool = False
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    documents: list[dict[str, str]] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None
    return_mm_kwargs: bool | None = None
    return_prompt_text: bool | None = None


def decode_chat_request(raw: dict[str, Any], loc: str = "body") -> ChatCompletionRequest:
    """The request in a JSON object, checked rule by rule and then field by field, as vLLM does.

    Raises ApiError 400.
    """
    run_checks(_CHECKS, raw)
    messages = read_messages(raw["messages"], f"{loc}.messages") if "messages" in raw else []
    fields: Mapping[str, Any] = {**raw, "messages": []} if "messages" in raw else raw
    if raw.get("tools") and "tool_choice" not in raw:
        fields = {**fields, "tool_choice": "auto"}
    request = convert(fields, ChatCompletionRequest, loc)
    check_fields(request, raw, loc)
    request.messages = read_calls(messages, f"{loc}.messages")
    return request


def read_chat_messages(raw: list[Any]) -> list[dict[str, Any]]:
    """The messages of a request as `decode_chat_request` reads them. Raises ApiError 400, not with the place
    of what is wrong."""
    if all(map(is_plain, raw)):
        return raw
    check_call_iterables(raw)
    return read_calls(read_messages(raw, ""), "")


def tool_choice_kind(request: ChatCompletionRequest) -> ToolChoiceKind | None:
    """The kind of the request's tool choice; None for an explicit null."""
    choice = request.tool_choice
    return "named" if isinstance(choice, NamedToolChoice) else choice


def named_function(request: ChatCompletionRequest) -> str | None:
    """The function that the tool choice names."""
    choice = request.tool_choice
    return choice.function.name if isinstance(choice, NamedToolChoice) else None


def tool_choice_dict(request: ChatCompletionRequest) -> str | dict[str, Any] | None:
    """The tool choice as parse_context has it (contract B.5)."""
    choice = request.tool_choice
    if isinstance(choice, NamedToolChoice):
        return {"function": {"name": choice.function.name}, "type": "function"}
    return choice


def tool_dicts(request: ChatCompletionRequest) -> list[dict[str, Any]] | None:
    """The tools as templates and parsers see them (contract C.4): null descriptions and parameters stay,
    null strict
    and defer_loading go."""
    tools = request.tools
    if isinstance(tools, Tools):
        return tools.dicts
    return None if tools is None else [tool_dict(tool) for tool in tools]


def tool_dict(tool: Tool) -> dict[str, Any]:
    """One tool as templates and parsers see it."""
    function = tool.function
    body: dict[str, Any] = {
        "name": function.name,
        "description": function.description,
        "parameters": function.parameters,
    }
    deferred = tool.defer_loading if function.defer_loading is None else function.defer_loading
    if function.strict is not None:
        body["strict"] = function.strict
    if deferred is not None:
        body["defer_loading"] = deferred
    result: dict[str, Any] = {"type": tool.type, "function": body}
    if tool.defer_loading is not None:
        result["defer_loading"] = tool.defer_loading
    return result


_USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'


def _check_messages(raw: Raw) -> None:
    if "messages" in raw:
        check_iterables(raw["messages"])


def _check_calls(raw: Raw) -> None:
    check_call_iterables(raw.get("messages"))


def _check_generation_prompt(raw: Raw) -> None:
    if raw.get("continue_final_message") and raw.get("add_generation_prompt"):
        raise rule_error("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")


def _check_tools(raw: Raw) -> None:
    if raw.get("tools") == []:
        raise rule_error(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field "
            "entirely.",
            "tools",
        )


def _check_tool_choice(raw: Raw) -> None:
    choice = raw.get("tool_choice")
    if choice is None or choice == "none":
        return
    tools = raw.get("tools")
    if tools is None:
        raise rule_error("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if not isinstance(choice, dict):
        if choice not in ("auto", "required"):
            raise rule_error(
                f"Invalid value for `tool_choice`: {choice}! Only named tools, "
                '"none", "auto" or "required" are supported.',
                "tool_choice",
            )
        return
    function = choice.get("function")
    if not isinstance(function, dict):
        raise rule_error(
            f"Invalid value for `function`: `{function}` in `tool_choice`! {_USAGE}", "tool_choice.function"
        )
    if "name" not in function:
        raise rule_error(
            f"Expected field `name` in `function` in `tool_choice`! {_USAGE}", "tool_choice.function.name"
        )
    name = function["name"]
    if not isinstance(name, str) or not name:
        raise rule_error(
            f"Invalid `name` in `function`: `{name}` in `tool_choice`! {_USAGE}", "tool_choice.function.name"
        )
    if isinstance(tools, list) and name not in [_tool_name(tool) for tool in tools]:
        raise rule_error(
            "The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice"
        )


def _tool_name(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None


def _check_structured_outputs(raw: Raw) -> None:
    check_structured_outputs(raw, None)
    constraint = raw.get("structured_outputs")
    if (
        isinstance(constraint, dict)
        and constraints_set(constraint)
        and isinstance(raw.get("tool_choice"), dict)
    ):
        raise rule_error("You can only either use constraints for structured outputs or tools, not both.")


def _check_logprob_token_ids(raw: Raw) -> None:
    if not raw.get("logprob_token_ids"):
        return
    if raw.get("use_beam_search"):
        raise rule_error("`logprob_token_ids` is not supported with beam search.", "logprob_token_ids")
    if not raw.get("logprobs"):
        raise rule_error(
            "when using `logprob_token_ids`, `logprobs` must be set to true.", "logprob_token_ids"
        )


def _check_top_logprobs(raw: Raw) -> None:
    check_logprob_counts(raw, "top_logprobs")
    count = raw.get("top_logprobs")
    if count is not None and (count > 0 or count == -1) and not raw.get("logprobs"):
        raise rule_error("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")


_CHECKS: Checks = (
    (_check_messages, ("messages",)),
    (_check_generation_prompt, ("continue_final_message",)),
    (_check_tools, ("tools",)),
    (_check_tool_choice, ("tool_choice",)),
    (_check_structured_outputs, ("structured_outputs",)),
    (check_structural_tag, ("structured_outputs",)),
    (_check_logprob_token_ids, ("logprob_token_ids",)),
    (_check_top_logprobs, ("prompt_logprobs", "top_logprobs")),
    (check_stream_options, ("stream_options",)),
    (check_response_format, ("response_format",)),
    (_check_calls, ("messages",)),
    (check_cache_salt, ("cache_salt",)),
    (check_thinking_budget, ("thinking_token_budget",)),
    (check_nested, ("structured_outputs", "repetition_detection")),
)
"""Rules between fields in the order in which vLLM runs them; the first that fails answers (contract B.2)."""
