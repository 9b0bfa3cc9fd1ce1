"""Items of a Responses request as the schema lets them in (contract D.4): input, tools, tool choice.

They are handed on as sent; a shape that no item has is a 400. What cannot be rendered is render's business.
"""

from __future__ import annotations

from typing import Any

from renderd.wire.decode import validation_error
from renderd.wire.errors import ApiError

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_STATUSES = frozenset({"in_progress", "completed", "incomplete"})
_INPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
_REQUIRED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "reasoning": {"summary": (list, dict, str)},
    "function_call": {"call_id": str, "name": str, "arguments": str},
    "function_call_output": {"output": (str, list)},
    "custom_tool_call": {"call_id": str, "name": str, "input": str},
    "custom_tool_call_output": {"call_id": str, "output": (str, list, dict)},
}
"""Items that are rendered, with the keys that they must have."""
_NULL_STATUS = frozenset({"reasoning", "function_call_output"})

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
    if raw == {}:
        return []
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
    if is_reference(item):
        return isinstance(item.get("role", ""), str)
    if kind in _REQUIRED:
        if not _one_of(status, _STATUSES) and (status is not None or kind not in _NULL_STATUS):
            return False
        if not all(isinstance(item.get(key), types) for key, types in _REQUIRED[kind].items()):
            return False
        if kind == "reasoning":
            return _is_reasoning(item)
        output, names = item.get("output"), (item.get("call_id"), item.get("id"))
        later = kind == "custom_tool_call_output"  # looked at when it is rendered
        known = later or not isinstance(output, list) or _are_parts(output)
        return known and all(isinstance(name, str | None) for name in names)
    if kind in _FOREIGN:
        return True
    return kind in (None, "message") and _one_of(item.get("role"), _ROLES) and _is_content(item)


def is_reference(item: dict[str, Any]) -> bool:
    """Whether an item names another one by its id; whatever else it has is not looked at."""
    return item.get("type") in (None, "item_reference") and isinstance(item.get("id"), str)


def _is_reasoning(item: dict[str, Any]) -> bool:
    """Its parts are looked at when they are rendered, not before."""
    return (
        isinstance(item.get("id", ""), str)
        and isinstance(item.get("encrypted_content"), str | None)
        and isinstance(item.get("content"), list | dict | str | None)
    )


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
    if is_answer(item):
        return isinstance(content, list | dict)
    if not isinstance(content, list) or not _are_parts(content):
        return False
    if all(part["type"] in _INPUT_PARTS for part in content):
        return True
    said = item.get("type") == "message" and item["role"] == "assistant"
    whole = isinstance(item.get("id", ""), str) and _one_of(item.get("status", "completed"), _STATUSES)
    return said and whole and all(map(_is_output_part, content))


def is_answer(item: dict[str, Any]) -> bool:
    """Whether an item has all that marks an answer of the model; its parts are looked at when they are
    rendered, not before (see `refuses_answer`)."""
    said = item.get("type") == "message" and item.get("role") == "assistant"
    return said and isinstance(item.get("id"), str) and _one_of(item.get("status"), _STATUSES)


def refuses_answer(item: dict[str, Any]) -> bool:
    """Whether an item is an answer with content other than parts of one kind, be it of output or of input."""
    content = item.get("content")
    if not is_answer(item) or not content:
        return False
    if not isinstance(content, list) or not _are_parts(content):
        return True
    return not (all(map(_is_output_part, content)) or all(map(_is_input_part, content)))


def are_input_parts(content: Any) -> bool:
    """Whether content is a text, or parts of input, if any."""
    if isinstance(content, str) or not content:
        return True
    return isinstance(content, list) and _are_parts(content) and all(map(_is_input_part, content))


def _is_output_part(part: dict[str, Any]) -> bool:
    key = {"output_text": "text", "refusal": "refusal"}.get(part["type"])
    return key is not None and isinstance(part.get(key), str)


def _is_input_part(part: dict[str, Any]) -> bool:
    return part["type"] in _INPUT_PARTS and ("text" in part or part["type"] != "input_text")


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
    if kind == "namespace" and "namespace" in kinds:
        if not is_namespace(tool):
            place = "type" if isinstance(tool.get("name"), str) else "name"
            raise validation_error(
                f"{loc}.FunctionTool.{place}", "A namespace has a name, a description and tools"
            )
        return
    if kind in ("function", "custom") or kind not in kinds:
        loc = f"{loc}.FunctionTool"  # the first of the forms that vLLM tries
        if not isinstance(tool.get("name"), str):
            raise validation_error(f"{loc}.name", "Field required")
    if kind not in kinds:
        raise validation_error(
            f"{loc}.type", "Field required" if kind is None else "Input should be 'function'"
        )
    for key, types in (
        ("parameters", dict),
        ("strict", bool),
        ("description", str),
        ("defer_loading", bool),
        ("output_schema", dict),
        ("allowed_callers", list),
    ):
        if not isinstance(tool.get(key), types | None):
            raise validation_error(f"{loc}.{key}", f"Input should be a valid {types.__name__}")


def is_namespace(tool: dict[str, Any]) -> bool:
    """Whether a tool of that type has all that one must have."""
    if not has_namespace_keys(tool):
        return False
    try:
        for inner in tool["tools"]:
            _check_tool(inner, "", ("function", "custom"))
    except ApiError:
        return False
    return True


def has_namespace_keys(tool: dict[str, Any]) -> bool:
    """The same without a look at the tools inside."""
    texts = all(isinstance(tool.get(key), str) for key in ("name", "description"))
    return texts and isinstance(tool.get("tools"), list)


def read_choice(raw: Any, loc: str) -> Any:
    """`tool_choice` of a request. Raises ApiError 400 at `loc`."""
    if isinstance(raw, str) and raw in ("none", "auto", "required"):
        return raw
    if not isinstance(raw, dict) or not _one_of(raw.get("type"), _CHOICES):
        raise validation_error(loc, "Input should be 'none', 'auto' or 'required'")
    return raw
