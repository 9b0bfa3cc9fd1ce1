"""`/v1/messages` request -> the chat request that it amounts to (contract D.3)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from renderd.model.jinja import renders_bare
from renderd.model.template_kwargs import effective_kwargs, mapped_effort
from renderd.render.chat import Server, chat_text
from renderd.render.conversation import joined
from renderd.render.writer import Chat
from renderd.wire import anthropic, chat
from renderd.wire.anthropic import ContentBlock, MessagesRequest
from renderd.wire.errors import ApiError, bad_request

_BILLING = "x-anthropic-billing-header"
"""How a block of the system prompt begins that clients send for their own accounting."""
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


class MessagesReader:
    """Reads messages requests for one server. What its template can do is tried once, when it matters."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def read(self, raw: dict[str, Any], loc: str = "body") -> chat.ChatCompletionRequest:
        """The chat request that asks for the same answer. Raises ApiError 400."""
        request = anthropic.decode_messages_request(raw, loc)
        messages = [*_system(request.system), *(m for one in request.messages for m in _messages(one))]
        if not self._renders_later_system:
            messages = _merged(messages)
        converted = chat.decode_chat_request(self._fields(request, messages), loc)
        # The rules of the chat API for tools are not those of this one, so they come after its checks.
        tools = _tools(request)
        if tools is not None:
            converted.tools = [_tool(tool) for tool in tools]
        converted.tool_choice = _tool_choice(request.tool_choice, tools)
        choice = request.tool_choice
        if choice is not None and choice.disable_parallel_tool_use:
            converted.parallel_tool_calls = False
        converted.previous_token_ids = request.previous_token_ids
        converted.previous_prefix_hashes = request.previous_prefix_hashes
        converted.return_prefix_hashes = request.return_prefix_hashes
        return converted

    def read_to_count(self, raw: dict[str, Any]) -> chat.ChatCompletionRequest:
        """The same for a request of which the prompt is to be counted. Raises ApiError 400."""
        return self.read(anthropic.message_to_count(raw))

    def _fields(self, request: MessagesRequest, messages: list[dict[str, Any]]) -> dict[str, Any]:
        fields = {
            "model": request.model,
            "messages": messages,
            "max_tokens": request.max_tokens,
            "max_completion_tokens": request.max_tokens,
            "stop": request.stop_sequences,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "mm_payload": request.mm_payload,
            "return_mm_kwargs": request.return_mm_kwargs,
            "cache_salt": request.cache_salt,
            "watermarking": request.watermarking,
            "kv_transfer_params": request.kv_transfer_params,
            "ec_transfer_params": request.ec_transfer_params,
            "vllm_xargs": request.vllm_xargs,
            "chat_template_kwargs": request.chat_template_kwargs,
            "reasoning_effort": self._effort(request),
        }
        if request.stream:
            fields["stream"] = True
            fields["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if request.thinking is not None and request.thinking.type == "enabled":
            fields["thinking_token_budget"] = request.thinking.budget_tokens
        form = request.output_config.format if request.output_config else None
        if form is not None and form.schema:
            fields["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "response", "schema": form.schema},
            }
        return fields

    def _effort(self, request: MessagesRequest) -> str | None:
        if request.thinking is None or request.thinking.type != "disabled":
            return request.output_config.effort if request.output_config else None
        effort = self._server.options.anthropic_disabled_thinking_effort
        return self._disabled_effort if effort == "auto" else effort

    @cached_property
    def _disabled_effort(self) -> str:
        """ "none" where the template makes a difference between it and every other effort, else "low"."""
        try:
            without = self._probe("none")
            others = [self._probe(effort) for effort in _EFFORTS]
        except ApiError:
            return "low"
        return "low" if without in others else "none"

    def _probe(self, effort: str) -> str:
        messages = [{"role": "user", "content": "Hi"}]
        request = chat.decode_chat_request({"messages": messages, "reasoning_effort": effort})
        config = self._server.model.config
        kwargs = effective_kwargs(request, config.default_chat_template_kwargs, config.reasoning_effort_map)
        mapped = mapped_effort(request, config.reasoning_effort_map)
        return chat_text(self._server, Chat(request.messages, effort=mapped, kwargs=kwargs))

    @cached_property
    def _renders_later_system(self) -> bool:
        """Whether the template takes system messages behind the first message, as vLLM finds it out: no
        error is all that is wanted, and the template gets neither special tokens nor kwargs, and nothing of
        what Jinja itself does not have. A template that needs those counts as one that does not."""
        messages = [{"role": role, "content": role} for role in ("system", "user", "system", "user")]
        try:
            source = self._server.model.templates.choose(None, False)
        except ApiError:
            return False
        return renders_bare(source, {"messages": messages, "add_generation_prompt": True})


def _system(system: str | list[ContentBlock] | None) -> list[dict[str, Any]]:
    if isinstance(system, list):
        system = _system_text(system)
    return [{"role": "system", "content": system}] if system else []


def _system_text(blocks: Iterable[ContentBlock]) -> str:
    texts = (block.text or "" for block in blocks if block.type == "text")
    return "".join(text for text in texts if not text.startswith(_BILLING))


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All system messages as one in front."""
    system = "".join(message["content"] for message in messages if message["role"] == "system")
    rest = [message for message in messages if message["role"] != "system"]
    return [{"role": "system", "content": system}, *rest] if system else rest


def _messages(message: anthropic.Message) -> list[dict[str, Any]]:
    """What stands for one message: tool results are messages of their own, in front of it."""
    if message.role == "system":
        content = message.content
        return _system("" if isinstance(content, str) and content.startswith(_BILLING) else content)
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    parts: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for block in message.content:
        if block.type == "text" and block.text:
            parts.append({"type": "text", "text": block.text})
        elif block.type == "image" and block.source:
            parts.append(_image(block.source))
        elif block.type == "thinking" and block.thinking is not None:
            thoughts.append(block.thinking)
        elif block.type == "tool_use":
            calls.append(_call(block))
        elif block.type == "tool_result" and message.role == "user":
            results += _result(block)
        elif block.type == "tool_result":
            parts.append({"type": "text", "text": f"Tool result: {block.content or ''}"})
    answer: dict[str, Any] = {"role": message.role}
    if thoughts:
        answer["reasoning"] = "".join(thoughts)
    if calls:
        answer["tool_calls"] = calls
    if parts:
        single = len(parts) == 1 and parts[0]["type"] == "text"
        answer["content"] = parts[0]["text"] if single else parts
    return [*results, answer] if len(answer) > 1 or message.role == "assistant" else results


def _image(source: Any) -> dict[str, Any]:
    if not isinstance(source, dict):
        raise bad_request("The source of an image should be an object.")
    url = source.get("url", "")
    if source.get("type") == "base64":
        url = f"data:{source.get('media_type')};base64,{source.get('data')}"
    return {"type": "image_url", "image_url": {"url": url}}


def _call(block: ContentBlock) -> dict[str, Any]:
    return {
        "id": block.id or f"call_{int(time.time())}",
        "type": "function",
        "function": {"name": block.name or "", "arguments": json.dumps(block.input or {})},
    }


def _result_text(block: ContentBlock) -> str:
    content = block.content
    if not isinstance(content, list):
        return content or ""
    return joined([item.get("text", "") for item in content if item.get("type") == "text"])


def _result(block: ContentBlock) -> list[dict[str, Any]]:
    """A tool's result: its text, then the tools that it refers to, then its images."""
    items = block.content if isinstance(block.content, list) else []
    call_id = block.tool_use_id or ""
    found: list[dict[str, Any]] = [{"role": "tool", "tool_call_id": call_id, "content": _result_text(block)}]
    references = [
        {"type": "tool_reference", "name": name}
        for item in items
        if item.get("type") == "tool_reference" and (name := item.get("tool_name") or item.get("name"))
    ]
    if references:
        found.append({"role": "tool", "tool_call_id": call_id, "content": references})
    images = [_image(item.get("source") or {}) for item in items if item.get("type") == "image"]
    if images:
        found.append({"role": "user", "content": images})
    return found


def _tool(tool: anthropic.Tool) -> chat.Tool:
    schema = tool.input_schema if "type" in tool.input_schema else {**tool.input_schema, "type": "object"}
    function = chat.Function(
        name=tool.name,
        description=tool.description,
        parameters=schema,
        strict=tool.strict,
        defer_loading=tool.defer_loading,
    )
    return chat.Tool(function=function)


def _tools(request: MessagesRequest) -> list[anthropic.Tool] | None:
    """The tools at the end of the conversation. Raises ApiError 400 for a change of a tool that is none."""
    changes = [
        block
        for message in request.messages
        if message.role == "system" and isinstance(message.content, list)
        for block in message.content
        if block.changes_tools
    ]
    if not changes:
        return request.tools
    tools = {tool.name: tool for tool in request.tools or ()}
    removed: set[str] = set()
    for block in changes:
        if isinstance(block.tool, anthropic.ToolDefinition):
            name = block.tool.definition.name
            tools[name] = block.tool.definition
        else:
            name = block.tool.name if block.tool else ""
        if name not in tools:
            raise bad_request(f"{block.type} references tool '{name}', which is not declared in tools")
        if block.type == "tool_removal":
            removed.add(name)
        else:
            removed.discard(name)
            if isinstance(block.tool, anthropic.ToolReference):
                tools[name] = msgspec.structs.replace(tools[name], defer_loading=None)
    return [tool for name, tool in tools.items() if name not in removed]


def _tool_choice(choice: anthropic.ToolChoice | None, tools: list[anthropic.Tool] | None) -> Any:
    if choice is None:
        return "auto" if tools is not None else None
    if choice.type == "tool":
        return chat.NamedToolChoice(function=chat.NamedFunction(name=choice.name or ""))
    return {"auto": "auto", "any": "required", "none": "none"}[choice.type]
