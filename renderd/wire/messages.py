"""Messages of a chat request as the schema lets them in (contract C.2): checked, and their tool calls in one
shape.

How they look to a template is render's business.
"""

from __future__ import annotations

from typing import Any

from renderd.wire.decode import rule_error, validation_error

_NULL_CONTENT = {"assistant", "function"}  # roles whose content may be null


def read_messages(raw: Any, loc: str) -> list[dict[str, Any]]:
    """The messages of a request. Raises ApiError 400 naming the message at fault."""
    if not isinstance(raw, list):
        raise validation_error(loc, "Input should be a valid list")
    return [_message(message, f"{loc}.{index}") for index, message in enumerate(raw)]


def _message(raw: Any, loc: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise validation_error(loc, "Input should be a valid dictionary")
    role = raw.get("role")
    if not isinstance(role, str):
        raise validation_error(
            f"{loc}.role", "Input should be a valid string" if "role" in raw else "Field required"
        )
    content = raw.get("content")
    if isinstance(content, list):
        if not all(isinstance(part, str | dict) for part in content):
            raise validation_error(f"{loc}.content", "Content parts should be strings or dictionaries")
    elif content is None:
        if "content" in raw and role not in _NULL_CONTENT:
            raise validation_error(f"{loc}.content", "Input should be a valid string")
    elif not isinstance(content, str):
        raise validation_error(f"{loc}.content", "Input should be a valid string or list")
    if "name" in raw and not isinstance(raw["name"], str):
        raise validation_error(f"{loc}.name", "Input should be a valid string")
    if not isinstance(raw.get("tool_call_id"), str | None):
        raise validation_error(f"{loc}.tool_call_id", "Input should be a valid string")
    return _assistant(raw, loc) if role == "assistant" else raw


def _assistant(raw: dict[str, Any], loc: str) -> dict[str, Any]:
    """`reasoning_content` goes by the name of `reasoning`; tool calls have one key order."""
    if "reasoning_content" not in raw and "tool_calls" not in raw:
        return raw
    message = dict(raw)
    reasoning = message.pop("reasoning_content", None)
    if message.get("reasoning") is None and reasoning is not None:
        message["reasoning"] = reasoning
    calls = message.pop("tool_calls", None)
    if calls:
        if not isinstance(calls, list):
            raise validation_error(f"{loc}.tool_calls", "Input should be a valid list")
        message["tool_calls"] = [_tool_call(call, f"{loc}.tool_calls.{i}") for i, call in enumerate(calls)]
    return message


def _tool_call(raw: Any, loc: str) -> dict[str, Any]:
    """Templates may print a call whole: the key order is vLLM's, arguments before name."""
    if not isinstance(raw, dict):
        raise validation_error(loc, "Input should be a valid dictionary")
    for key in ("id", "type"):
        if not isinstance(raw.get(key), str):
            raise validation_error(
                f"{loc}.{key}", "Input should be a valid string" if key in raw else "Field required"
            )
    if raw["type"] != "function":
        raise rule_error(
            "chat completions only support assistant tool_calls of type 'function'.", "tool_calls"
        )
    function = raw.get("function")
    if not isinstance(function, dict):
        raise validation_error(f"{loc}.function", "Input should be a valid dictionary")
    for key in ("name", "arguments"):
        if not isinstance(function.get(key), str):
            raise validation_error(
                f"{loc}.function.{key}",
                "Input should be a valid string" if key in function else "Field required",
            )
    return {
        "id": raw["id"],
        "function": {"arguments": function["arguments"], "name": function["name"]},
        "type": "function",
    }
