"""The constraint on an answer: what the request asks for (contract B.4.3) and what its tools demand
(B.4.4)."""

from __future__ import annotations

import json
from typing import Any

from parsers import Family
from parsers.tags import Format, TagModel, as_tag, build_tag, framed, json_schema
from renderd.render.options import RenderOptions
from renderd.wire.chat import ChatCompletionRequest, named_function, tool_choice_kind
from renderd.wire.decode import rule_error
from renderd.wire.sampling import SamplingFields
from renderd.wire.structured import (
    Constraint,
    StructuredOutputs,
    check_constraint,
    constraint_of,
    tag_format,
)


def requested_constraint(request: SamplingFields) -> Constraint | None:
    """`structured_outputs` of sampling_params: the request's own, merged with its response_format.

    Raises ApiError 400 unless exactly one constraint results.
    """
    own = request.structured_outputs
    form = request.response_format
    if form is None or form["type"] == "text":
        return None if own is None else constraint_of(own)
    constraint = constraint_of(own or StructuredOutputs())
    if form["type"] == "json_object":
        constraint["json_object"] = True
    elif form["type"] == "json_schema":
        constraint["json"] = form["json_schema"].get("schema")
    else:
        constraint["structural_tag"] = json.dumps(_ordered_tag(form))
    check_constraint(constraint)
    return constraint


def tool_constraint(
    request: ChatCompletionRequest,
    tools: list[dict[str, Any]] | None,
    family: Family,
    options: RenderOptions,
    requested: Constraint | None,
) -> Constraint | None:
    """What the request's tools and the family's framing demand, or None where `requested` stands (contract
    B.4.4).

    Raises ApiError 400 for tools that no constraint can hold together, and for what no family of this kind
    can promise.
    """
    kind, model = tool_choice_kind(request), family.structural_tag
    if not tools or kind is None or kind == "none":
        return _framed(family.answer_tag, requested)
    _check_refused(request, tools, family)
    forced = named_function(request) if kind == "named" else None
    parallel = request.parallel_tool_calls is not False
    if kind != "auto" and family.tools is not None and family.tools.call_array:
        if request.structured_outputs is not None:
            return None
        return _json(_call_array(tools, forced))
    if kind != "auto" and family.forces_json:
        return _json(_forced_schema(tools, forced, parallel))
    if model is None:
        return _framed(family.answer_tag, requested)
    alternative = None
    if requested is not None and kind == "auto":
        alternative = _as_format(requested)
        if alternative is None or requested["choice"] == []:  # an alternative of nothing
            return _framed(family.answer_tag, requested)
    assert family.tools is not None
    tag = build_tag(
        model,
        tools,
        kind,
        named=forced,
        level=options.tool_strict_level or family.tools.default_strictness,
        parallel=parallel,
        alternative=alternative,
    )
    return _framed(family.answer_tag, requested) if tag is None else _tagged(tag)


def _check_refused(request: ChatCompletionRequest, tools: list[dict[str, Any]], family: Family) -> None:
    """Raises ApiError 400 for what the family's format cannot be made to keep to."""
    refuses, kind = family.tools.refuses if family.tools else (), tool_choice_kind(request)
    if "untagged named" in refuses and kind == "named" and family.structural_tag is None:
        raise rule_error(
            "Named tool choice for Kimi K3 requires strict tool calling (VLLM_ENFORCE_STRICT_TOOL_CALLING) "
            "so the XTML structural tag can force the call. Otherwise use `tool_choice` set to "
            '"auto", "required", or "none".',
            "tool_choice",
            value=f"function=ChatCompletionNamedFunction(name={named_function(request)!r}) type='function'",
        )
    strict = any(tool["function"].get("strict") is True for tool in tools)
    for word, asked, what, param in (
        ("required", kind == "required", "required tool choice", "tool_choice"),
        ("named", kind == "named", "named tool choice", "tool_choice"),
        ("strict", strict, "strict tools", "tools"),
        (
            "one call",
            request.parallel_tool_calls is False,
            "parallel_tool_calls=False",
            "parallel_tool_calls",
        ),
    ):
        if word in refuses and asked:
            raise rule_error(
                f"response_template parsing cannot guarantee {what} without a format-compatible structural "
                "grammar",
                param,
            )


_MANNERS = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")
"""What a constraint says beside the one thing that it asks for."""


def _framed(model: TagModel | None, requested: Constraint | None) -> Constraint | None:
    """The user's constraint in the framing of the family's answers, where it has one."""
    if model is None or model.answer is None or requested is None:
        return None
    form = _as_format(requested)
    if form is None:
        return None
    return {**_tagged(as_tag(framed(model, form))), **{key: requested[key] for key in _MANNERS}}


def _tagged(tag: dict[str, Any]) -> Constraint:
    return constraint_of(StructuredOutputs(structural_tag=json.dumps(tag)))


def _json(schema: dict[str, Any]) -> Constraint:
    return constraint_of(StructuredOutputs(json=schema))


def _forced_schema(tools: list[dict[str, Any]], named: str | None, parallel: bool) -> dict[str, Any]:
    """The arguments of the named tool, or a list of calls of any. The list has the tools' definitions at its
    top, where references look for them."""
    functions = [tool["function"] for tool in tools]
    if named is not None:
        function = next(function for function in functions if function["name"] == named)
        return function.get("parameters") or dict(_NO_PARAMETERS)
    definitions: dict[str, Any] = {}
    calls = []
    for function in functions:
        schema = dict(function.get("parameters") or _NO_PARAMETERS)
        for name, definition in (schema.pop("$defs", None) or {}).items():
            if definitions.setdefault(name, definition) != definition:
                raise rule_error(
                    f"Tool definition '{name}' has multiple schemas, which is not supported.", "tools"
                )
        name = {"type": "string", "enum": [function["name"]]}
        calls.append({"properties": {"name": name, "parameters": schema}, "required": ["name", "parameters"]})
    result: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": calls}}
    if not parallel:
        result["maxItems"] = 1
    if definitions:
        result["$defs"] = definitions
    return result


def _call_array(tools: list[dict[str, Any]], named: str | None) -> dict[str, Any]:
    """A list of calls of any tool, or one of the named tool, for families that write `arguments`."""
    calls = []
    for function in (tool["function"] for tool in tools):
        if named in (None, function["name"]):
            name = {"type": "string", "enum": [function["name"]]}
            schema = function.get("parameters") or {"type": "object"}
            properties = {"name": name, "arguments": schema}
            calls.append({"type": "object", "properties": properties, "required": ["name", "arguments"]})
    most = {} if named is None else {"maxItems": 1}
    return {"type": "array", "minItems": 1, **most, "items": {"type": "object", "anyOf": calls}}


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def _ordered_tag(form: dict[str, Any]) -> dict[str, Any]:
    """A response_format of type structural_tag in vLLM's key order, unknown keys last."""
    known = ("type", "format", "structures", "triggers")
    ordered = {key: form[key] for key in known if key in form}
    return {**ordered, **{key: value for key, value in form.items() if key not in known}}


def _as_format(constraint: Constraint) -> Format | None:
    """The user's constraint as a format that can stand beside tool calls; None where there is none."""
    schema = constraint["json"]
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError):
            return None
    if isinstance(schema, dict | bool):
        return json_schema(schema)
    if constraint["regex"] is not None:
        return {"type": "regex", "pattern": constraint["regex"]}
    if constraint["choice"] is not None:
        return {
            "type": "or",
            "elements": [{"type": "const_string", "value": c} for c in constraint["choice"]],
        }
    if constraint["grammar"] is not None:
        return {"type": "grammar", "grammar": constraint["grammar"]}
    if constraint["json_object"]:
        return json_schema({"type": "object"})
    return tag_format(constraint["structural_tag"])
