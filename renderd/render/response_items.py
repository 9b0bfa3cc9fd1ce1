"""Items of a Responses request -> messages, for models that a chat template is written for (contract D.4)."""

from __future__ import annotations

import json
from typing import Any

from renderd.render.conversation import unsupported_part
from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request
from renderd.wire.messages import check_iterables
from renderd.wire.response_items import are_input_parts, refuses_answer
from renderd.wire.responses import ResponsesRequest, flat_name, function_tools

Message = dict[str, Any]
Item = dict[str, Any]

_ANNOTATIONS: dict[Any, set[str]] = {
    "container_file_citation": {"container_id", "end_index", "file_id", "filename", "start_index"},
    "file_citation": {"file_id", "filename", "index"},
    "file_path": {"file_id", "index"},
    "url_citation": {"end_index", "start_index", "title", "url"},
}
_LOGPROB = {"token", "bytes", "logprob", "top_logprobs"}
"""Keys that these must have."""


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


def check_conversation(request: ResponsesRequest, messages: list[Message]) -> None:
    """What is wrong with the messages once rights and sizes are right. Raises ApiError 400 for files, and for
    calls that are required of no tool."""
    if request.tool_choice == "required" and not function_tools(request.tools):
        raise rule_error(
            "tool_choice requires a function call, but tools contains no function tool the model can call.",
            "tool_choice",
        )
    for message in messages:
        for part in message["content"] if isinstance(message.get("content"), list) else ():
            if part.get("type") == "input_file":
                raise unsupported_part("input_file")


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
        if not are_input_parts(item["output"]):
            raise bad_request("validation error: the output of a tool should be parts of input")
        output = {"role": "tool", "content": _content(item["output"]), "tool_call_id": item.get("call_id")}
        messages.append(output)
    else:
        raise rule_error(f"Unsupported input item type: {kind}", "input")


def _add_message(messages: list[Message], item: Item) -> None:
    """Text behind a thought or a call of the same turn belongs to their message."""
    role, content, whole = item["role"], item.get("content"), True
    if refuses_answer(item):
        raise bad_request("validation error: the content of an answer should be parts of output")
    if role == "assistant" and content and isinstance(content, list) and _is_output(content):
        whole = all(map(_is_annotated, content))
        content = _said(content[0]) if whole else "\n".join(map(_said, content))
    last = messages[-1] if messages else {}
    if role == last.get("role") == "assistant" and not last.get("content") and content and whole:
        last["content"] = _content(content)
    else:
        named = {"name": item["name"]} if isinstance(item.get("name"), str) and role != "assistant" else {}
        messages.append({"role": role, "content": _content(content), **named})


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
        is_text = part.get("type") == "input_text"
        parts.append({"type": "text", "text": part.get("text", "")} if is_text else part)
    return parts


def _is_output(parts: list[Item]) -> bool:
    return all(isinstance(part, dict) and part.get("type") in ("output_text", "refusal") for part in parts)


def _is_annotated(part: Item) -> bool:
    """Whether what stands beside a text, where something does, has the keys that it must have."""
    annotations, logprobs = (part.get(key) or [] for key in ("annotations", "logprobs"))
    return _have_keys(annotations, _ANNOTATIONS) and _have_keys(logprobs, {None: _LOGPROB})


def _have_keys(values: Any, keys: dict[Any, set[str]]) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, dict)
        and isinstance(value.get("type"), str | None)
        and keys.get(value.get("type"), {""}) <= set(value)
        for value in values
    )


def _said(part: Item) -> str:
    """The text of a part of an output message."""
    return str(part.get("text", part.get("refusal", "")))


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
