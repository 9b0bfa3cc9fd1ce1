"""Structural tags that no recorded request shows whole."""

from __future__ import annotations

from typing import Any

from parsers import build
from parsers.tags import build_tag


def function(name: str, parameters: Any = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def calls(tag: dict[str, Any]) -> dict[str, Any]:
    """The schema of the list of calls."""
    (section,) = tag["format"]["tags"]
    assert (section["begin"], section["end"]) == ("<|START_ACTION|>", "<|END_ACTION|>")
    found: dict[str, Any] = section["content"]["json_schema"]
    return found


def cohere(*tools: dict[str, Any], choice: Any = "auto", **options: Any) -> dict[str, Any]:
    family = build("cohere_command3", "cohere_command3")
    assert family.tools is not None
    assert family.structural_tag is not None
    level = family.tools.default_strictness
    tag = build_tag(family.structural_tag, tools, choice, level=level, **options)
    assert tag is not None
    return tag


def test_calls_of_cohere_are_a_list_under_the_tools_schemas() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
    tag = cohere(function("f", {**schema, "$defs": {"A": {"type": "integer"}}}), function("g"))
    assert tag["format"]["at_least_one"] is False
    required = ["tool_call_id", "tool_name", "parameters"]
    number = {"type": "string", "pattern": "^[0-9]+$"}
    assert calls(tag) == {
        "type": "array",
        "items": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "tool_call_id": number,
                        "tool_name": {"const": name},
                        "parameters": parameters,
                    },
                    "required": required,
                }
                for name, parameters in (("f", schema), ("g", {"type": "object"}))
            ]
        },
        "minItems": 1,
        "$defs": {"A": {"type": "integer"}},
    }


def test_two_definitions_of_a_name_do_not_mix() -> None:
    schemas = [{"type": "object", "$defs": {"A": {"type": kind}}} for kind in ("integer", "string")]
    schema = calls(cohere(*(function(name, one) for name, one in zip("fg", schemas, strict=True))))
    parameters = [item["properties"]["parameters"] for item in schema["items"]["anyOf"]]
    assert schema["$defs"] == {"A": {"type": "integer"}}
    assert parameters == [{"type": "object"}, {"type": "object"}]


def test_choices_of_cohere() -> None:
    tools = function("f"), function("g")
    one = cohere(*tools, choice="named", named="g", parallel=False)
    assert one["format"]["at_least_one"] is True
    (item,) = calls(one)["items"]["anyOf"]
    assert item["properties"]["tool_name"] == {"const": "g"}
    assert calls(one)["maxItems"] == 1
    assert cohere(*tools, choice="required")["format"]["at_least_one"] is True
