"""Output constraints as requests state them: structured_outputs, response_format, structural tags (contract
B.4.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec


class StructuredOutputs(msgspec.Struct, kw_only=True):
    """A constraint on the answer; at most one of the first five and structural_tag may be set."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None


class JsonSchema(msgspec.Struct, kw_only=True):
    """The named schema of response_format; only `schema` constrains the answer."""

    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """OpenAI's response_format and vLLM's two forms of structural tags."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchema | None = None
    format: Any = None
    structures: list[dict[str, Any]] | None = None
    triggers: list[str] | None = None


_FORMATS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "any_text": {},
    "any_tokens": {},
    "const_string": {"value": str},
    "dispatch": {"rules": list},
    "exclude_token": {},
    "grammar": {"grammar": str},
    "json_schema": {"json_schema": (bool, dict)},
    "optional": {"content": dict},
    "or": {"elements": list},
    "plus": {"content": dict},
    "qwen_xml_parameter": {"json_schema": (bool, dict)},
    "regex": {"pattern": str},
    "repeat": {"min": int, "max": int, "content": dict},
    "sequence": {"elements": list},
    "star": {"content": dict},
    "tag": {"begin": (str, dict), "content": dict, "end": (str, list, dict)},
    "tags_with_separator": {"tags": list, "separator": str},
    "token": {"token": (int, str)},
    "token_dispatch": {"rules": list},
    "token_triggered_tags": {"trigger_tokens": list, "tags": list},
    "triggered_tags": {"triggers": list, "tags": list},
}


def is_structural_tag(tag: Any) -> bool:
    """Whether `tag` (an object or its JSON text) has the shape of an xgrammar structural tag, new or legacy
    form.
    Whether its grammars compile is for the engine to say."""
    if isinstance(tag, str):
        try:
            tag = json.loads(tag)
        except (ValueError, RecursionError):
            return False
    if not isinstance(tag, dict):
        return False
    if "format" in tag:
        return _is_format(tag["format"])
    structures, triggers = tag.get("structures"), tag.get("triggers")
    if not isinstance(structures, list) or not isinstance(triggers, list) or not structures or not triggers:
        return False
    return all(isinstance(t, str) for t in triggers) and all(
        isinstance(s, dict)
        and isinstance(s.get("begin"), str)
        and isinstance(s.get("end"), str)
        and isinstance(s.get("schema"), dict | str)
        for s in structures
    )


def _is_format(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    required = _FORMATS.get(value.get("type"))  # type: ignore[arg-type]
    if required is None or not all(isinstance(value.get(key), kind) for key, kind in required.items()):
        return False
    inner = [value["content"]] if "content" in required else []
    inner += [item for key in ("elements", "tags") if key in required for item in value[key]]
    if "tags" in required and not all(isinstance(t, dict) and "begin" in t for t in value["tags"]):
        return False
    return all(_is_format({"type": "tag", **item} if "tags" in required else item) for item in inner)
