"""`/v1/responses` request -> GenerateRequest (contract D.4)."""

from __future__ import annotations

import json
from typing import Any

from renderd.render.chat import Server, render_message
from renderd.render.conversation import unsupported_part
from renderd.wire.decode import rule_error
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import GenerateRequest, random_id
from renderd.wire.messages import check_iterables
from renderd.wire.responses import ResponsesRequest, as_chat, check_constraints, flat_name

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
    check_constraints(request)
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
    if kind in (None, "message", "item_reference") and "role" in item:
        _add_message(messages, item)
    elif kind == "reasoning":
        if not _is_whole_reasoning(item):
            raise rule_error(f"Unsupported input item type: {kind}", "input")
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
    role, content, whole = item["role"], item.get("content"), True
    if role == "assistant" and content and isinstance(content, list) and _is_output(content):
        whole = all(map(_is_annotated, content))
        content = _said(content)
    last = messages[-1] if messages else {}
    if role == last.get("role") == "assistant" and not last.get("content") and content and whole:
        last["content"] = _content(content)
    else:
        messages.append({"role": role, "content": _content(content)})


def _content(raw: Any) -> str | list[Item] | None:
    """Text, or parts as chat messages have them. Raises ApiError 400 for a file and for what is no part."""
    if isinstance(raw, str | None):
        return raw
    check_iterables(raw)
    parts = []
    for part in raw:
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
            continue
        if not isinstance(part, dict):
            raise bad_request("Content parts should be texts or objects.")
        kind = part.get("type")
        if kind == "input_file":
            raise unsupported_part(kind)
        parts.append({"type": "text", "text": part.get("text", "")} if kind == "input_text" else part)
    return parts


def _is_output(parts: list[Item]) -> bool:
    return all(isinstance(part, dict) and part.get("type") in ("output_text", "refusal") for part in parts)


def _is_annotated(part: Item) -> bool:
    annotations = part.get("annotations") or []
    return isinstance(annotations, list) and all(isinstance(one, dict) for one in annotations)


def _said(parts: list[Item]) -> str:
    """The text of an output message: its first part's."""
    first = parts[0] if parts else {}
    return str(first.get("text", first.get("refusal", "")))


def _is_whole_reasoning(item: Item) -> bool:
    content = item.get("content")
    return _are_texts(item["summary"], "summary_text") and (
        content is None or _are_texts(content, "reasoning_text")
    )


def _are_texts(parts: Any, kind: str) -> bool:
    return isinstance(parts, list) and all(
        isinstance(part, dict) and part.get("type") == kind and isinstance(part.get("text"), str)
        for part in parts
    )


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
