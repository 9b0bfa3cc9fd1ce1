"""Messages as a chat template sees them (contract C.2)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from renderd.model.content_format import ContentFormat
from renderd.wire.decode import rule_error
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.messages import is_plain, refuses_parts

Message = dict[str, Any]

_TEXT_KEYS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_MEDIA = frozenset(
    {
        "audio_embeds",
        "audio_url",
        "image_embeds",
        "image_pil",
        "image_url",
        "input_audio",
        "input_image",
        "prompt_embeds",
        "video_embeds",
        "video_url",
    }
)
_PART_TYPES = sorted([*_TEXT_KEYS, *_MEDIA, "tool_reference"])
_OWN_KEYS = _MEDIA | {
    "type",
    "text",
    "thinking",
    "closed",
    "refusal",
    "name",
    "data",
    "file",
    "uuid",
    "prompt_cache_breakpoint",
}
"""Keys of a part that mean something here; all others are handed to the template."""
_BILLING = "x-anthropic-billing-header"


def build_conversation(
    messages: Sequence[Message], content_format: ContentFormat, knows_developer: bool, model_name: str
) -> list[Message]:
    """The messages of a request in the shape that templates are written for.

    `knows_developer`: the template handles the developer role itself. Raises ApiError 400 for a content
    part that cannot be rendered.
    """
    strings = content_format == "string"
    conversation = [
        {"role": message["role"], "content": message["content"]}
        if strings
        and is_plain(message)
        and message["role"] != "developer"
        and not message["content"].startswith(_BILLING)
        else _message(message, content_format, model_name)
        for message in messages
    ]
    return conversation if knows_developer else _without_developer(conversation)


def has_media(messages: Iterable[Message]) -> bool:
    """Whether any message carries something other than text."""
    return any(
        isinstance(part, dict) and _part_type(part) in _MEDIA
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
    )


def count_tool_calls(messages: Iterable[Message]) -> int:
    """Tool calls in the history."""
    called = [m["tool_calls"] for m in messages if m.get("tool_calls") and m.get("role") == "assistant"]
    return sum(map(len, called))


def _message(raw: Message, content_format: ContentFormat, model_name: str) -> Message:
    role = raw["role"]
    if refuses_parts(raw):
        raise bad_request(f"validation error: content parts that a message of role {role!r} cannot have")
    message: Message = {
        "role": role,
        "content": _content(raw.get("content"), role, content_format, model_name),
    }
    if role == "assistant":
        if raw.get("tool_calls"):
            message["tool_calls"] = [_tool_call(call) for call in raw["tool_calls"]]
        if raw.get("reasoning") is not None:
            message["reasoning"] = message["reasoning_content"] = raw["reasoning"]
    elif role == "tool" and "tool_call_id" in raw:
        message["tool_call_id"] = raw["tool_call_id"]
    for key in ("name", "task"):
        if isinstance(raw.get(key), str):
            message[key] = raw[key]
    if role == "developer":
        tools = raw.get("tools")
        message["tools"] = [_tool(tool) for tool in tools] if isinstance(tools, list) else tools
    return message


def _tool(raw: Any) -> Any:
    """Templates may print a tool whole: the key order is vLLM's."""
    if not isinstance(raw, dict) or raw.get("type") != "function" or "function" not in raw:
        return raw
    return {"function": raw["function"], **{key: value for key, value in raw.items() if key != "function"}}


def _content(raw: Any, role: str, content_format: ContentFormat, model_name: str) -> Any:
    if isinstance(raw, str) and content_format == "string" and not raw.startswith(_BILLING):
        return raw
    parts = [raw] if isinstance(raw, str) else raw or []
    parsed = [part for item in parts if (part := _part(item, role, model_name)) is not None]
    if content_format == "openai" and role != "tool":
        return parsed
    if content_format == "openai":
        if any(part["type"] == "tool_reference" for part in parsed):
            return parsed
        return joined([part["text"] for part in parsed])
    texts = [part["name"] if part["type"] == "tool_reference" else part["text"] for part in parsed]
    return joined([text for text in texts if text])


def joined(texts: list[Any]) -> str:
    """Texts one below the other. Raises ApiError 400 for one that is none."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise bad_request(f"sequence item {index}: expected str instance, {kind} found")
    return "\n".join(texts)


def _part(raw: str | dict[str, Any], role: str, model_name: str) -> dict[str, Any] | None:
    """One content part as a text or a tool reference; None if nothing is left of it."""
    if isinstance(raw, str):
        return _text(raw, {}, role)
    kind = _part_type(raw)
    if isinstance(kind, str) and kind in _MEDIA:
        raise bad_request(f"{model_name} is not a multimodal model")
    if kind is None:
        raise rule_error("Missing 'type' field in multimodal part.", "type")
    if kind == "tool_reference":
        return {"type": kind, "name": raw.get("name")}
    if not isinstance(kind, str):
        raise rule_error("Invalid 'type' field in multimodal part.", "type")
    if kind not in _TEXT_KEYS:
        raise unsupported_part(kind)
    text = raw.get(_TEXT_KEYS[kind])
    if text is None:
        return None
    return _text(text, {key: value for key, value in raw.items() if key not in _OWN_KEYS}, role)


def unsupported_part(kind: str) -> ApiError:
    """400 of a content part of a type that there is not."""
    return rule_error(
        f"Unsupported chat content part type: {kind!r}. Supported types: {', '.join(_PART_TYPES)}.",
        "type",
        value=kind,
    )


def _part_type(part: dict[str, Any]) -> Any:
    """The type of a part; a part without one goes by the media key that it carries."""
    kind = part.get("type")
    if kind is None:
        return next((key for key in part if key in _MEDIA), None)
    return kind


def _text(text: Any, extras: dict[str, Any], role: str) -> dict[str, Any] | None:
    if role == "system" and isinstance(text, str) and text.startswith(_BILLING):
        _, newline, text = text.partition("\n")
        if not newline:
            return None
    return {"type": "text", "text": text, **extras}


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """Templates want arguments as an object; what is none becomes an empty one."""
    function = call["function"]
    return {**call, "function": {**function, "arguments": _arguments(function["arguments"])}}


def _arguments(text: str) -> dict[str, Any]:
    value: Any = None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text)  # takes NaN, Infinity and lone surrogates
    return value if isinstance(value, dict) else {}


def _without_developer(conversation: list[Message]) -> list[Message]:
    """Developer messages become system messages, and then all system messages one in front."""
    if "developer" not in [message["role"] for message in conversation]:
        return conversation
    renamed = [_as_system(message) for message in conversation]
    system = [message for message in renamed if message["role"] == "system"]
    if len(system) == 1 and renamed[0] is system[0]:
        return renamed
    texts = [_flat(message["content"]) for message in system]
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [merged, *(message for message in renamed if message["role"] != "system")]


def _as_system(message: Message) -> Message:
    if message["role"] != "developer":
        return message
    return {**{key: value for key, value in message.items() if key != "tools"}, "role": "system"}


def _flat(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text") or "" for part in content)
