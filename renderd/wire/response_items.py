"""Items of a Responses request as the schema lets them in (contract D.4): input, tools, tool choice.

They are handed on as sent; a shape that no item has is a 400. What cannot be rendered is render's business.
"""

from __future__ import annotations

from typing import Any

from renderd.wire.decode import validation_error

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_STATUSES = frozenset({"in_progress", "completed", "incomplete"})
_INPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
_REQUIRED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "reasoning": {"summary": list},
    "function_call": {"call_id": str, "name": str, "arguments": str},
    "function_call_output": {"output": (str, list)},
    "custom_tool_call": {"call_id": str, "name": str, "input": str},
    "custom_tool_call_output": {"call_id": str, "output": (str, list)},
}
"""Items that are rendered, with the keys that they must have."""

_FOREIGN = frozenset(
    {
        "additional_tools",
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "compaction",
        "compaction_trigger",
        "computer_call",
        "computer_call_output",
        "configuration_update",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""Items that the API knows and that no prompt is made of."""

_HOSTED = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
"""Tools that the model does not call."""

_CHOICES = frozenset(
    {
        "allowed_tools",
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "custom",
        "file_search",
        "function",
        "image_generation",
        "mcp",
        "programmatic_tool_calling",
        "shell",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)


def read_input(raw: Any, loc: str) -> Any:
    """`input` of a request. Raises ApiError 400 at `loc` for what is neither text nor a list of items."""
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, list):
        raise validation_error(loc, "Input should be a valid string or list")
    for index, item in enumerate(raw):
        if not isinstance(item, dict) or not _is_item(item):
            raise validation_error(loc, f"Item {index} should be a message or another item of the API")
    return raw


def _is_item(item: dict[str, Any]) -> bool:
    kind, status = item.get("type"), item.get("status", "completed")
    if not isinstance(kind, str | None):
        return False
    if not _one_of(status, _STATUSES) and not (status is None and kind == "function_call_output"):
        return False
    if kind in _REQUIRED:
        given = all(isinstance(item.get(key), types) for key, types in _REQUIRED[kind].items())
        texts = [item[key] for key in ("content", "summary", "output") if isinstance(item.get(key), list)]
        content = item.get("content")
        return given and isinstance(content, list | None) and all(map(_are_parts, texts))
    if kind in _FOREIGN or (kind is None and "role" not in item and isinstance(item.get("id"), str)):
        return True
    return kind in (None, "message") and _one_of(item.get("role"), _ROLES) and _is_content(item)


def _one_of(value: Any, known: frozenset[str]) -> bool:
    return isinstance(value, str) and value in known


def _are_parts(parts: list[Any]) -> bool:
    """Objects whose type and text, where they have them, are texts."""
    return all(
        isinstance(part, dict) and isinstance(part.get("type"), str) and isinstance(part.get("text", ""), str)
        for part in parts
    )


def _is_content(item: dict[str, Any]) -> bool:
    content = item.get("content")
    if isinstance(content, str):
        return True
    if not isinstance(content, list) or not _are_parts(content):
        return False
    if all(part["type"] in _INPUT_PARTS for part in content):
        return True
    said = item.get("type") == "message" and item["role"] == "assistant"
    return said and all(map(_is_output_part, content))


def _is_output_part(part: dict[str, Any]) -> bool:
    key = {"output_text": "text", "refusal": "refusal"}.get(part["type"])
    return key is not None and isinstance(part.get(key), str)


def read_tools(raw: Any, loc: str) -> Any:
    """`tools` of a request. Raises ApiError 400 naming the tool at fault."""
    if not isinstance(raw, list):
        raise validation_error(loc, "Input should be a valid list")
    for index, tool in enumerate(raw):
        _check_tool(tool, f"{loc}.{index}", ("function", "custom", "namespace", *_HOSTED))
    return raw


def _check_tool(tool: Any, loc: str, kinds: tuple[str, ...]) -> None:
    if not isinstance(tool, dict):
        raise validation_error(loc, "Input should be a valid dictionary")
    kind = tool.get("type")
    if kind in ("function", "custom") or kind not in kinds:
        loc = f"{loc}.FunctionTool"  # the first of the forms that vLLM tries
        if not isinstance(tool.get("name"), str):
            raise validation_error(f"{loc}.name", "Field required")
    if kind not in kinds:
        raise validation_error(
            f"{loc}.type", "Field required" if kind is None else "Input should be 'function'"
        )
    for key, types in (("parameters", dict), ("strict", bool), ("description", str), ("defer_loading", bool)):
        if not isinstance(tool.get(key), types | None):
            raise validation_error(f"{loc}.{key}", f"Input should be a valid {types.__name__}")
    if kind == "namespace":
        for key in ("name", "description"):
            if not isinstance(tool.get(key), str):
                raise validation_error(f"{loc}.NamespaceTool.{key}", "Field required")
        if not isinstance(tool.get("tools"), list):
            raise validation_error(f"{loc}.NamespaceTool.tools", "Field required")
        for index, inner in enumerate(tool["tools"]):
            _check_tool(inner, f"{loc}.NamespaceTool.tools.{index}", ("function", "custom"))


def read_choice(raw: Any, loc: str) -> Any:
    """`tool_choice` of a request. Raises ApiError 400 at `loc`."""
    if isinstance(raw, str) and raw in ("none", "auto", "required"):
        return raw
    if not isinstance(raw, dict) or not _one_of(raw.get("type"), _CHOICES):
        raise validation_error(loc, "Input should be 'none', 'auto' or 'required'")
    return raw
