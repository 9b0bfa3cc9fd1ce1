"""Whole answers of the families whose reasoning, text and calls share one framing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.tags.formats import (
    Format,
    any_text,
    const,
    either,
    json_schema,
    listed,
    optional,
    sequence,
    tag,
)


def k3_answer(calls: list[Format], forced: bool, parallel: bool) -> Format:
    """Kimi K3: a response, then the section of the calls."""
    section = tag("<|open|>tools<|sep|>", listed(calls, "", parallel), "<|close|>tools<|sep|>")
    text = any_text(("<|open|>", "<|close|>", "<|end_of_msg|>"))
    return sequence(
        optional(const("<|open|>response<|sep|>")),
        tag("", text, "<|close|>response<|sep|>"),
        section if forced else optional(section),
        optional(const("<|close|>message<|sep|>")),
    )


_DEFINITIONS = ("$defs", "definitions")


def cohere_answer(calls: list[Format], forced: bool, parallel: bool) -> Format:
    """Cohere: any text, and a section with a JSON list of calls. A call's begin is its function's name."""
    root: dict[str, dict[str, Any]] = {key: {} for key in _DEFINITIONS}
    items = [_cohere_call(call["begin"], call["content"]["json_schema"], root) for call in calls]
    schema: Format = {"type": "array", "items": {"anyOf": items}, "minItems": 1}
    if not parallel:
        schema["maxItems"] = 1
    schema |= {key: found for key, found in root.items() if found}
    return {
        "type": "triggered_tags",
        "triggers": ["<|START_ACTION|>"],
        "tags": [tag("<|START_ACTION|>", json_schema(schema), "<|END_ACTION|>")],
        "at_least_one": forced,
        "stop_after_first": False,
        "excludes": [],
    }


def _cohere_call(name: str, parameters: Any, root: dict[str, dict[str, Any]]) -> Format:
    """The schema of one call. The definitions of its parameters go to `root`, to which references lead; where
    two tools have different ones of a name, the second's parameters are any object."""
    schema: Format = dict(parameters) if isinstance(parameters, Mapping) else {"type": "object"}
    for key in _DEFINITIONS:
        own = schema.pop(key, {})
        if any(root[key].get(word, each) != each for word, each in own.items()):
            schema = {"type": "object"}
            break
        root[key].update(own)
    properties = {
        "tool_call_id": {"type": "string", "pattern": "^[0-9]+$"},
        "tool_name": {"const": name},
        "parameters": schema,
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


HARMONY_END = ("<|end|>", "")
_HARMONY_KINDS = ("json", "<|constrain|>json")
_CHANNELS = ("commentary", "analysis", "final")


def harmony_calls() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Harmony's spellings of a call: the recipient before the channel or behind it, any channel."""
    begins = (
        [
            f" to=functions.{{name}}<|channel|>{channel} {kind}<|message|>"
            for kind in _HARMONY_KINDS
            for channel in _CHANNELS
        ],
        [
            f"<|channel|>{channel} to=functions.{{name}} {kind}<|message|>"
            for kind in _HARMONY_KINDS
            for channel in _CHANNELS
        ],
    )
    return tuple((begin, HARMONY_END) for group in begins for begin in group)


def _preamble(channel: str) -> Format:
    message = tag(f"<|channel|>{channel}<|message|>", any_text(), "<|end|>")
    return optional(sequence(message, const("<|start|>assistant")))


def harmony_answer(calls: list[Format], forced: bool, _parallel: bool) -> Format:
    """Harmony: an analysis, a preamble, then one call or, where none is forced, a final message. Its engines
    stop at the end of a call."""
    finals = [
        tag(f"<|channel|>final{kind}<|message|>", any_text(), HARMONY_END)
        for kind in (*(f" {kind}" for kind in _HARMONY_KINDS), "")
    ]
    last = either(calls if forced else [*calls, *finals])
    return sequence(_preamble("analysis"), _preamble("commentary"), last)


def harmony_final(form: Format) -> Format:
    """Harmony: an analysis, then a final message in the format."""
    kinds = [f" {kind}" for kind in _HARMONY_KINDS] if form["type"] == "json_schema" else [""]
    finals = [tag(f"<|channel|>final{kind}<|message|>", form, HARMONY_END) for kind in kinds]
    return sequence(_preamble("analysis"), either(finals))
