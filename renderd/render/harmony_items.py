"""Items of a Responses request -> messages of Harmony, one an item (contract C.7, D.4)."""

from __future__ import annotations

from typing import Any

from renderd.wire.decode import rule_error
from renderd.wire.errors import ApiError
from renderd.wire.responses import ResponsesRequest

Message = dict[str, Any]
Item = dict[str, Any]

_TOOLS = ("function", "code_interpreter", "mcp", "web_search_preview")
"""Tools that may be asked for. Only functions come into the prompt: nothing runs the others here."""


class Placed(dict[str, Any]):
    """A message of the assistant that says its `channel` itself. No request can: its messages are dicts."""


def harmony_messages(request: ResponsesRequest) -> list[Message]:
    """The messages of instructions and input. Raises ApiError 400 for tools and items that Harmony has no
    words for."""
    for tool in request.tools:
        if tool["type"] not in _TOOLS:
            raise rule_error(f"tool type '{tool['type']}' is not supported.", "tools")
    messages: list[Message] = []
    if request.instructions is not None:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    callers: dict[str | None, str] = {}
    for place, item in enumerate(request.input):
        messages += _messages(item, str(place), callers)
    return messages


def _messages(item: Item, name: str, callers: dict[str | None, str]) -> list[Message]:
    """One message, or none. `name`: what a call is called in the messages, for clients may use an id again;
    `callers`: that of the last call of each id, kept up to date."""
    kind = item.get("type")
    if kind in (None, "message") and "role" in item:
        message = {"role": item["role"], "content": _content(item.get("content"))}
        return [Placed(message, channel="final") if item["role"] == "assistant" else message]
    if kind == "reasoning":
        thoughts = item.get("content")
        if not thoughts:
            return []
        thought = "\n".join(map(_text, thoughts))
        return [Placed(role="assistant", content=[{"type": "text", "text": thought}], channel="analysis")]
    if kind == "function_call":
        callers[item["call_id"]] = name
        function = {"name": item["name"], "arguments": item["arguments"]}
        return [{"role": "assistant", "tool_calls": [{"id": name, "function": function, "type": "function"}]}]
    if kind == "function_call_output":
        call_id = item.get("call_id")
        if call_id not in callers:
            raise _unreadable(f"No call message found for {call_id}")
        return [{"role": "tool", "content": _content(item["output"]), "tool_call_id": callers[call_id]}]
    raise _unreadable(f"Unknown input type: {kind}")


def _unreadable(reason: str) -> ApiError:
    return ApiError(400, "invalid_request_error", f"{reason} (parameter=input)", "input")


def _content(raw: Any) -> list[Item]:
    """Parts of text; what has none is an empty one."""
    if isinstance(raw, str):
        return [{"type": "text", "text": raw}]
    return [{"type": "text", "text": _text(part)} for part in raw or ()]


def _text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""
