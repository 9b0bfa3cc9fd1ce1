"""The constraint on an answer: what the request asks for (contract B.4.3) and what its tools demand
(B.4.4)."""

from __future__ import annotations

import json
from typing import Any

from parsers.tags import Format, TagModel, build_tag, json_schema
from renderd.render.options import RenderOptions
from renderd.wire.chat import ChatCompletionRequest, NamedToolChoice, tool_choice_kind
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
    model: TagModel | None,
    options: RenderOptions,
    requested: Constraint | None,
) -> Constraint | None:
    """The structural tag that the request's tools demand, or None where `requested` stands (contract
    B.4.4)."""
    kind = tool_choice_kind(request)
    if model is None or not tools or kind is None or kind == "none":
        return None
    alternative = None
    if requested is not None and kind == "auto":
        alternative = _as_format(requested)
        if alternative is None:
            return None
    choice = request.tool_choice
    tag = build_tag(
        model,
        tools,
        kind,
        named=choice.function.name if isinstance(choice, NamedToolChoice) else None,
        level=options.tool_strict_level or "auto",
        parallel=request.parallel_tool_calls is not False,
        alternative=alternative,
    )
    if tag is None:
        return None
    return constraint_of(StructuredOutputs(structural_tag=json.dumps(tag)))


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
    if constraint["choice"]:
        return {
            "type": "or",
            "elements": [{"type": "const_string", "value": c} for c in constraint["choice"]],
        }
    if constraint["grammar"] is not None:
        return {"type": "grammar", "grammar": constraint["grammar"]}
    if constraint["json_object"]:
        return json_schema({"type": "object"})
    return tag_format(constraint["structural_tag"])
