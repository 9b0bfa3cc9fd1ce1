"""`/v1/responses` request -> GenerateRequest (contract D.4)."""

from __future__ import annotations

import json
from typing import Any

from renderd.render.chat import Server, render_message
from renderd.render.conversation import unsupported_part
from renderd.wire.decode import rule_error
from renderd.wire.errors import ApiError
from renderd.wire.generate import GenerateRequest, random_id
from renderd.wire.responses import ResponsesRequest, as_chat, flat_name

Message = dict[str, Any]
Item = dict[str, Any]

_UNFINISHED = ("in_progress", "incomplete")


def render_responses(server: Server, request: ResponsesRequest) -> GenerateRequest:
    """What an engine needs to answer the request. Raises ApiError 400 or 404."""
    server.model.check_name(request.model)
    if request.previous_response_id is not None:
        raise ApiError(
            400,
            "invalid_request_error",
            "previous_response_id is not supported by the stateless render endpoint.",
            "previous_response_id",
        )
    logprobs = request.top_logprobs or 0
    if request.with_logprobs and logprobs < -1:
        raise rule_error(f"logprobs must be non-negative or -1, got {logprobs}.", "logprobs", value=logprobs)
    chat = as_chat(request, conversation(request))
    chat.add_special_tokens = True
    if continues(request):
        chat.add_generation_prompt, chat.continue_final_message = False, True
    name = request.request_id if isinstance(request.request_id, str) else f"resp_{random_id()}"
    rendered = render_message(server, chat, request.max_output_tokens, "max_output_tokens", name)
    rendered.reasoning_ended = rendered.parse_context = None
    if not (request.vllm_xargs or rendered.kv_transfer_params or rendered.ec_transfer_params):
        rendered.sampling_params["extra_args"] = {}
    return rendered


def continues(request: ResponsesRequest) -> bool:
    """The answer goes on where the last message or thought of the input ends."""
    last = request.input[-1] if isinstance(request.input, list) and request.input else None
    if last is None or last.get("type") not in (None, "message", "reasoning"):
        return False
    return last.get("status") in _UNFINISHED


def conversation(request: ResponsesRequest) -> list[Message]:
    """The messages of instructions and input. Raises ApiError 400 for an item that no prompt is made of."""
    messages: list[Message] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    for item in request.input:
        _add(messages, item)
    return messages


def _add(messages: list[Message], item: Item) -> None:
    kind = item.get("type")
    if kind in (None, "message") and "role" in item:
        _add_message(messages, item)
    elif kind == "reasoning":
        if item.get("encrypted_content"):
            raise rule_error("Encrypted content is not supported.", "input")
        _add_reasoning(messages, _thought(item))
    elif kind == "function_call":
        _add_call(messages, item, flat_name(item["name"], item.get("namespace")), item["arguments"])
    elif kind == "custom_tool_call":
        _add_call(messages, item, item["name"], json.dumps({"input": item["input"]}))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output = {"role": "tool", "content": _content(item["output"]), "tool_call_id": item.get("call_id")}
        messages.append(output)
    else:
        raise rule_error(f"Unsupported input item type: {kind}", "input")


def _add_message(messages: list[Message], item: Item) -> None:
    """Text behind a thought or a call of the same turn belongs to their message."""
    role, content = item["role"], item["content"]
    if role == "assistant" and isinstance(content, list) and _is_output(content):
        content = _said(content)
    last = messages[-1] if messages else {}
    if role == last.get("role") == "assistant" and not last.get("content"):
        last["content"] = _content(content)
    else:
        messages.append({"role": role, "content": _content(content)})


def _content(raw: str | list[Item]) -> str | list[Item]:
    """Text, or parts as chat messages have them. Raises ApiError 400 for a file."""
    if isinstance(raw, str):
        return raw
    parts = []
    for part in raw:
        kind = part.get("type")
        if kind == "input_file":
            raise unsupported_part(kind)
        parts.append({"type": "text", "text": part.get("text", "")} if kind == "input_text" else part)
    return parts


def _is_output(parts: list[Item]) -> bool:
    return all(part.get("type") in ("output_text", "refusal") for part in parts)


def _said(parts: list[Item]) -> str:
    """The text of an output message: its first part's."""
    first = parts[0] if parts else {}
    return str(first.get("text", first.get("refusal", "")))


def _thought(item: Item) -> str:
    """The text of a reasoning item, or else of its summary: the first part's."""
    for parts in (item.get("content"), item["summary"]):
        if parts:
            return str(parts[0].get("text", ""))
    return ""


def _add_reasoning(messages: list[Message], text: str) -> None:
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant" and "reasoning" not in last:
        last["reasoning"] = text
    else:
        messages.append({"role": "assistant", "reasoning": text})


def _add_call(messages: list[Message], item: Item, name: str, arguments: str) -> None:
    call = {
        "id": item["call_id"],
        "function": {"name": name, "arguments": arguments},
        "type": "function",
    }
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant":
        last.setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "tool_calls": [call]})
