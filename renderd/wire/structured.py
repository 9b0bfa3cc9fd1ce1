"""Output constraints as requests state them: structured_outputs, response_format, structural tags (contract
B.4.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from renderd.wire.errors import bad_request


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


Constraint = dict[str, Any]
"""`structured_outputs` as engines get it: every field of StructuredOutputs and two of vLLM's private ones."""

_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
_PRIVATE = {"_backend": None, "_backend_was_auto": False}


def constraint_of(outputs: StructuredOutputs) -> Constraint:
    """The constraint with all its keys."""
    return {**msgspec.structs.asdict(outputs), **_PRIVATE}


def check_constraint(constraint: Constraint) -> None:
    """Raises ApiError 400 unless exactly one kind of constraint is set."""
    count = sum(constraint[kind] is not None for kind in _KINDS)
    if count != 1:
        must, found = ("must", "none") if count == 0 else ("can only", "multiple")
        raise bad_request(
            f"You {must} use one kind of structured outputs constraint but {found} are specified: "
            f"{constraint}"
        )


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


_Field = tuple[str, type | tuple[type, ...]]
_FORMATS: Mapping[str, tuple[tuple[_Field, ...], Mapping[str, Any]]] = {
    "any_text": ((), {"excludes": [], "max_tokens": None, "max_chars": None}),
    "any_tokens": ((), {"exclude_tokens": [], "max_tokens": None}),
    "const_string": ((("value", str),), {}),
    "dispatch": ((("rules", list),), {"loop": True, "excludes": []}),
    "exclude_token": ((), {"exclude_tokens": []}),
    "grammar": ((("grammar", str),), {}),
    "json_schema": (
        (("json_schema", (bool, dict)),),
        {"style": "json", "any_order": False, "max_whitespace_cnt": None, "excludes": []},
    ),
    "optional": ((("content", dict),), {}),
    "or": ((("elements", list),), {}),
    "plus": ((("content", dict),), {}),
    "qwen_xml_parameter": ((("json_schema", (bool, dict)),), {}),
    "regex": ((("pattern", str),), {}),
    "repeat": ((("min", int), ("max", int), ("content", dict)), {}),
    "sequence": ((("elements", list),), {}),
    "star": ((("content", dict),), {}),
    "tag": ((("begin", (str, dict)), ("content", dict), ("end", (str, list, dict))), {}),
    "tags_with_separator": (
        (("tags", list), ("separator", str)),
        {"at_least_one": False, "stop_after_first": False},
    ),
    "token": ((("token", (int, str)),), {}),
    "token_dispatch": ((("rules", list),), {"loop": True, "exclude_tokens": []}),
    "token_triggered_tags": (
        (("trigger_tokens", list), ("tags", list)),
        {"exclude_tokens": [], "at_least_one": False, "stop_after_first": False},
    ),
    "triggered_tags": (
        (("triggers", list), ("tags", list)),
        {"at_least_one": False, "stop_after_first": False, "excludes": []},
    ),
}
"""xgrammar's formats: required fields with their JSON types, optional fields with their defaults."""

_STYLES = frozenset(
    {
        "json",
        "qwen_xml",
        "minimax_xml",
        "minimax_m3_xml",
        "deepseek_xml",
        "glm_xml",
        "cohere_xml",
        "kimi_k3_xml",
        "deepseek_v4_1_xml",
    }
)


def is_structural_tag(tag: Any) -> bool:
    """Whether `tag` (an object or its JSON text) has the shape of an xgrammar structural tag, new or legacy
    form. Whether its grammars compile is for the engine to say."""
    return tag_format(tag) is not None


def tag_format(tag: Any) -> dict[str, Any] | None:
    """The format that a structural tag allows, every field written out; None for what is no structural
    tag."""
    if isinstance(tag, str):
        try:
            tag = json.loads(tag)
        except (ValueError, RecursionError):
            return None
    if not isinstance(tag, dict):
        return None
    form = tag["format"] if "format" in tag else _legacy_format(tag.get("structures"), tag.get("triggers"))
    try:
        return _normal(form)
    except RecursionError:
        return None


def _legacy_format(structures: Any, triggers: Any) -> Any:
    """The form of tags with `structures` and `triggers`, in terms of the newer one."""
    if not isinstance(structures, list) or not structures or not triggers:
        return None
    if not all(isinstance(s, dict) and {"begin", "schema", "end"} <= s.keys() for s in structures):
        return None
    tags = [
        {
            "type": "tag",
            "begin": s["begin"],
            "content": {"type": "json_schema", "json_schema": s["schema"]},
            "end": s["end"],
        }
        for s in structures
    ]
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags}


def _normal(value: Any) -> dict[str, Any] | None:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _FORMATS:
        return None
    required, optional = _FORMATS[kind]
    result: dict[str, Any] = {"type": kind}
    for key, types in required:
        field = value.get(key)
        if not isinstance(field, types) or field == []:
            return None
        result[key] = field
    for key, default in optional.items():
        field = value.get(key, default)
        if not isinstance(field, int | None if default is None else type(default)):
            return None
        result[key] = field
    most = result.get("max", 0)
    if result.get("style", "json") not in _STYLES or (most != -1 and result.get("min", 0) > most):
        return None
    if "content" in result:
        result["content"] = _normal(result["content"])
        return result if result["content"] is not None else None
    for key in ("elements", "tags"):
        if key in result:
            result[key] = [_normal(item if key == "elements" else _as_tag(item)) for item in result[key]]
            if None in result[key]:
                return None
    if kind == "triggered_tags" and not _fit(result["triggers"], result["tags"]):
        return None
    return result


def _fit(triggers: list[Any], tags: list[Any]) -> bool:
    """Whether each tag begins with just one of the triggers, and each trigger begins a tag."""
    if not all(isinstance(text, str) and text for text in (*triggers, *(tag["begin"] for tag in tags))):
        return False
    found = [[trigger for trigger in triggers if tag["begin"].startswith(trigger)] for tag in tags]
    return all(len(one) == 1 for one in found) and {one[0] for one in found} == set(triggers)


def _as_tag(item: Any) -> Any:
    """Among tags the type goes without saying."""
    return {"type": "tag", **item} if isinstance(item, dict) else item
