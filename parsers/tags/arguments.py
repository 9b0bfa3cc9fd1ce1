"""Arguments whose parts are each a tag of their own: the formats that xgrammar has no style for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from parsers.tags.formats import (
    Format,
    any_text,
    const,
    either,
    json_schema,
    regex,
    repeated,
    sequence,
    tag,
)

GLM_WORDS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
_GLM_TEXT = any_text(("<think>", "</think>", "<tool_call>", "</tool_call>", *GLM_WORDS))


def glm_arguments(parameters: Mapping[str, Any] | None, enforced: bool) -> Format:
    """GLM: keys of the schema in any order and number, each with a value of its type. Where the schema is
    enforced, or knows no keys, xgrammar's own style."""
    properties = (parameters or {}).get("properties")
    if enforced or not properties:
        return json_schema(parameters if enforced and parameters is not None else True, "glm_xml")
    pairs = [
        sequence(const(f"<arg_key>{key}</arg_key><arg_value>"), _glm_value(schema), const("</arg_value>"))
        for key, schema in properties.items()
    ]
    return repeated(either(pairs))


def _glm_value(schema: Any) -> Format:
    if not isinstance(schema, Mapping):
        return _GLM_TEXT
    if schema.get("enum"):
        return either([const(_plain(value)) for value in schema["enum"]])
    kind = schema.get("type") or "string"
    kinds = kind if isinstance(kind, list) else [kind]
    values = [json_schema({"type": each}) for each in kinds if each != "string"]
    return either([*values, *([_GLM_TEXT] if "string" in kinds else [])])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_ANY_VALUE = any_text(("<|close|>",))
_K3_END = "<|close|>argument<|sep|>"
_K3_ANY = tag("<|open|>argument ", sequence(regex(r"[^<]*<\|sep\|>"), _ANY_VALUE), _K3_END)
_K3_TYPES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "array": "array",
    "object": "object",
}


def k3_arguments(parameters: Mapping[str, Any] | None, enforced: bool) -> Format:
    """Kimi K3: an enforced schema names each argument that may be there, with its type."""
    schema = parameters if enforced and parameters else {}
    properties = schema.get("properties")
    if not properties:
        return repeated(_K3_ANY)
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    arguments = [_k3_argument(key, each, definitions) for key, each in properties.items()]
    return repeated(either(arguments), at_least_one=bool(schema.get("required")))


def _k3_argument(key: str, schema: Any, definitions: Mapping[str, Any]) -> Format:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    name = _K3_TYPES.get(kind) if isinstance(kind, str) else None
    if name is None:
        return _K3_ANY
    if kind == "string":
        values = [schema["const"]] if "const" in schema else schema.get("enum") or []
        spelled = values and not any("<|close|>" in str(each) for each in values)
        value = either([const(each) for each in values]) if spelled else _ANY_VALUE
    else:
        value = json_schema({**schema, **definitions})
    return tag(f'<|open|>argument key="{k3_escaped(key)}" type="{name}"<|sep|>', value, _K3_END)


def k3_escaped(text: str) -> str:
    """A text between the quotes of Kimi K3's attributes."""
    return text.replace("&", "&amp;").replace('"', "&quot;")


def hy_arguments(suffix: str) -> Callable[[Mapping[str, Any] | None, bool], Format]:
    """Hunyuan v4, whose words all end in `suffix`: the required keys in their order, then any others, each
    with any text."""

    def pair(key: str) -> Format:
        words = [const(word) for word in (f"<arg_key{suffix}>", key, f"</arg_key{suffix}>")]
        return sequence(*words, const(f"<arg_value{suffix}>"), any_text(), const(f"</arg_value{suffix}>"))

    def arguments(parameters: Mapping[str, Any] | None, _enforced: bool) -> Format:
        schema = parameters or {}
        properties, required = schema.get("properties"), schema.get("required") or []
        others = [pair(key) for key in properties or {} if key not in required]
        if not others and not required:
            return any_text()
        return sequence(*map(pair, required), *([repeated(either(others))] if others else []))

    return arguments
