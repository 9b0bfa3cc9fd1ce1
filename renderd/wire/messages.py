"""Messages of a chat request as the schema lets them in (contract C.2): checked, and their tool calls in one
shape.

How they look to a template is render's business.
"""

from __future__ import annotations

from typing import Any

from renderd.wire.decode import rule_error, validation_error
from renderd.wire.errors import ApiError, bad_request

_NULL_CONTENT = {"assistant", "function"}  # roles whose content may be null
_PARTS_LATER = {"developer", "system", "user", "assistant"}
"""Roles whose content parts are looked at when they are rendered, not before (see `refuses_parts`)."""
_URLS = ("image_url", "audio_url", "video_url")
_PARTS_OF: dict[str, dict[str, type]] = {
    "user": {"image_url": dict, "input_audio": dict, "file": dict},
    "assistant": {"refusal": str},
}


def check_iterables(raw: Any) -> None:
    """Raises ApiError 400 for messages or calls that cannot be gone through."""
    if not isinstance(raw, list | dict | str):
        raise bad_request(f"'{type(raw).__name__}' object is not iterable")


def check_call_iterables(raw: Any) -> None:
    """Raises ApiError 400 for tool calls that cannot be gone through."""
    for message in raw if isinstance(raw, list) else ():
        if isinstance(message, dict) and message.get("tool_calls") is not None:
            check_iterables(message["tool_calls"])


def read_messages(raw: Any, loc: str) -> list[dict[str, Any]]:
    """The messages of a request. Raises ApiError 400 naming the message at fault; of tool calls and, for most
    roles, content parts the faults come later: `read_calls`, `refuses_parts`."""
    if not isinstance(raw, list):
        raise validation_error(loc, "Input should be a valid list")
    return [
        message if is_plain(message) else _message(message, f"{loc}.{index}")
        for index, message in enumerate(raw)
    ]


def is_plain(message: Any) -> bool:
    """Whether a message is a role and a text, as most are: there is nothing else to check then."""
    return (
        type(message) is dict
        and len(message) == 2
        and type(message.get("content")) is str
        and type(message.get("role")) is str
    )


def read_calls(messages: list[dict[str, Any]], loc: str) -> list[dict[str, Any]]:
    """The same messages with their tool calls in one shape. Raises ApiError 400 naming the call at fault."""
    return [
        _assistant(message, f"{loc}.{index}") if message["role"] == "assistant" else message
        for index, message in enumerate(messages)
    ]


def refuses_parts(message: dict[str, Any]) -> bool:
    """Whether the content parts of a message are none that its role may have.

    A message is read as one of its role or as one of any role, whichever knows more of its keys and parts.
    Parts in short forms (a bare string, `input_text`) are known to the latter only, and count for nothing.
    """
    content, role = message.get("content"), message["role"]
    if not isinstance(content, list | dict) or not content or not _later(message):
        return False
    if isinstance(content, list) and all(isinstance(part, str | dict) for part in content):
        custom = isinstance(message.get("name", ""), str)
        if custom and (any(map(_known_part, content)) or _known_keys(message)):
            return False
    own: dict[str, type] = {"text": str, **_PARTS_OF.get(role, {})}
    return not all(
        isinstance(part, dict)
        and isinstance(part.get("type"), str)
        and part["type"] in own
        and isinstance(part.get(part["type"]), own[part["type"]])
        for part in content
    )


def _later(message: dict[str, Any]) -> bool:
    role = message["role"]
    return role in _PARTS_LATER or (role == "tool" and isinstance(message.get("tool_call_id"), str))


def _known_part(part: str | dict[str, Any]) -> bool:
    if not isinstance(part, dict):
        return False
    kind = part.get("type")
    if kind in ("text", "refusal"):
        return isinstance(part.get(kind), str)
    if kind in ("thinking", "tool_reference"):
        return True
    if kind in (*_URLS, "input_audio") and isinstance(part.get(kind), dict):
        return kind == "input_audio" or isinstance(part[kind].get("url"), str)
    return any(isinstance(part[key], str | None) for key in _URLS if key in part)


def _known_keys(message: dict[str, Any]) -> bool:
    """Whether a message has keys that messages of its role do not have."""
    role = message["role"]
    foreign: dict[str, type] = {"task": str}
    if role != "tool":
        foreign["tool_call_id"] = str
    elif "name" in message:
        return True
    tools = message.get("tools")
    if isinstance(tools, list) and all(map(_is_function, tools)):
        return True
    if "reasoning" in message and isinstance(message["reasoning"], str | None):
        return True
    return bool(message.get("tool_calls")) or any(isinstance(message.get(k), t) for k, t in foreign.items())


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and "type" in tool and isinstance(tool.get("function"), dict)


def _message(raw: Any, loc: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise validation_error(loc, "Input should be a valid dictionary")
    role = raw.get("role")
    if not isinstance(role, str):
        raise validation_error(
            f"{loc}.role", "Input should be a valid string" if "role" in raw else "Field required"
        )
    call_id = raw.get("tool_call_id")
    if call_id is not None and not isinstance(call_id, str):
        raise validation_error(f"{loc}.tool_call_id", "Input should be a valid string")
    later = _later(raw)
    content = raw.get("content")
    if isinstance(content, str):
        pass
    elif isinstance(content, list):
        if not later and not all(isinstance(part, str | dict) for part in content):
            raise validation_error(f"{loc}.content", "Content parts should be strings or dictionaries")
    elif content is None:
        nameless = role == "function" and "name" not in raw
        if "content" in raw and (role not in _NULL_CONTENT or nameless):
            raise validation_error(f"{loc}.content", "Input should be a valid string")
    elif not isinstance(content, dict) or not later:
        raise validation_error(f"{loc}.content", "Input should be a valid string or list")
    if "name" in raw and not isinstance(raw["name"], str) and not (role == "tool" and later):
        raise validation_error(f"{loc}.name", "Input should be a valid string")
    if _looks_at_calls(raw, later):
        _check_calls(raw, loc)
    if role == "assistant" and "reasoning_content" in raw:
        return _renamed(raw)
    return raw


def _looks_at_calls(raw: dict[str, Any], later: bool) -> bool:
    """Tool calls count where a message is not one of its own role: that have content, but for assistants."""
    if raw["role"] == "function" and isinstance(raw.get("name"), str) and "content" in raw:
        return False
    return not later or (raw["role"] != "assistant" and "content" not in raw)


def _check_calls(raw: dict[str, Any], loc: str) -> None:
    calls = raw.get("tool_calls")
    try:
        if isinstance(calls, str):
            raise validation_error(f"{loc}.tool_calls", "Input should be a valid list")
        for index, call in enumerate(calls or ()):
            _tool_call(call, f"{loc}.tool_calls.{index}")
    except ApiError:
        if "content" in raw:
            raise
        raise validation_error(f"{loc}.content", "Field required, or tool calls that are such") from None


def _renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """`reasoning_content` goes by the name of `reasoning`."""
    message = dict(raw)
    reasoning = message.pop("reasoning_content")
    if message.get("reasoning") is None and reasoning is not None:
        message["reasoning"] = reasoning
    return message


def _assistant(raw: dict[str, Any], loc: str) -> dict[str, Any]:
    """Tool calls have one key order."""
    if "tool_calls" not in raw:
        return raw
    message = dict(raw)
    calls = message.pop("tool_calls")
    if calls:
        check_iterables(calls)
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
    if raw["type"] != "function" and not (raw["type"] == "custom" and isinstance(raw.get("custom"), dict)):
        raise validation_error(f"{loc}.type", "Input should be 'function'")
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
