"""Structural tags: how the calls of a family are constrained while they are generated (contract B.4.4).

A `TagModel` is a family's call markup as data; `build_tag` makes of it what xgrammar calls a structural
tag. The dicts and their key order are those of xgrammar's own JSON dump, so that a request reads the same
wherever it was rendered. Nothing here compiles or checks a grammar: that is the engine's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

StrictLevel = Literal["auto", "function", "parameter"]
ForcedChoice = Literal["auto", "required", "named"]
Format = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """Markup around all calls of a message and between two of them."""

    begin: str
    separator: str
    end: str


@dataclass(frozen=True)
class TagModel:
    """The call markup of a family.

    `calls`: the spellings of one call, each as text before and after the arguments; `{name}` stands for the
    tool's name. `trigger`: text with which a call, or the section, starts in an otherwise free answer.
    `style`: xgrammar's name for the syntax of the arguments. `excludes`: text that a free answer must not
    contain. `section`: None where calls stand alone. `listed`: a forced call is a list of tags, with no
    free text around it.
    """

    calls: tuple[tuple[str, str], ...]
    trigger: str
    style: str = "json"
    excludes: tuple[str, ...] = ()
    section: Section | None = None
    listed: bool = False


def build_tag(
    model: TagModel,
    tools: Sequence[Mapping[str, Any]],
    choice: ForcedChoice,
    *,
    named: str | None = None,
    level: StrictLevel = "auto",
    parallel: bool = True,
    alternative: Format | None = None,
) -> dict[str, Any] | None:
    """The structural tag for a request, or None where it leaves the answer free.

    `tools`: OpenAI tools. `named`: the tool that a "named" choice names. `level`: what is enforced for
    tools that are not strict: "auto" nothing, "function" the markup, "parameter" the argument schemas too.
    `parallel`: more than one call is allowed. `alternative`: a format that the user asked for, allowed
    beside calls with an "auto" choice.
    """
    functions = [tool["function"] for tool in tools]
    if choice == "auto":
        strict = level != "auto" or any(function.get("strict") is True for function in functions)
        if not strict and (parallel or alternative is not None):
            return None
    if choice == "named":
        functions = [function for function in functions if function["name"] == named]
        form = _one_call(model, functions[0], level)
    elif alternative is None:
        form = _calls(model, functions, level, parallel, forced=choice == "required")
    else:
        form = _calls(model, functions, level, parallel, forced=True)
        if choice == "auto":
            form = {"type": "or", "elements": [form, alternative]}
    return {"type": "structural_tag", "format": form}


def json_schema(schema: bool | Mapping[str, Any], style: str = "json") -> Format:
    """The format of a JSON value, or of arguments in another style, under a schema; True allows any."""
    return {
        "type": "json_schema",
        "json_schema": schema,
        "style": style,
        "any_order": False,
        "max_whitespace_cnt": None,
        "excludes": [],
    }


def _calls(
    model: TagModel, functions: Iterable[Mapping[str, Any]], level: StrictLevel, parallel: bool, forced: bool
) -> Format:
    """Any number of calls, at least one where forced."""
    tags = [tag for function in functions for tag in _tags(model, function, level)]
    section = model.section
    if section is not None:
        calls = _listed(tags, section.separator, parallel)
        tags = [_tag(section.begin, calls, section.end)]
        if forced:
            return tags[0]
    if model.listed and forced:
        return _listed(tags, "", parallel)
    return {
        "type": "triggered_tags",
        "triggers": [model.trigger],
        "tags": tags,
        "at_least_one": forced,
        "stop_after_first": not parallel,
        "excludes": list(model.excludes),
    }


def _one_call(model: TagModel, function: Mapping[str, Any], level: StrictLevel) -> Format:
    """Exactly one call of one tool."""
    tags = _tags(model, function, level)
    if model.listed:
        return _listed(tags, "", parallel=False)
    tag = tags[0]
    if model.section is not None:
        return _tag(model.section.begin + tag["begin"], tag["content"], tag["end"] + model.section.end)
    return tag


def _tags(model: TagModel, function: Mapping[str, Any], level: StrictLevel) -> list[Format]:
    """One tag for each spelling of a call."""
    strict = level == "parameter" or function.get("strict") is True
    parameters = function.get("parameters") if strict else None
    schema = True if parameters is None else parameters
    name = function["name"]
    return [
        _tag(begin.replace("{name}", name), json_schema(schema, model.style), end)
        for begin, end in model.calls
    ]


def _tag(begin: str, content: Format, end: str) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _listed(tags: list[Format], separator: str, parallel: bool) -> Format:
    return {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": not parallel,
    }


_THINK = ("<think>", "</think>")

HERMES_TAG = TagModel(
    calls=(
        ('<tool_call>\n{"name": "{name}", "arguments": ', "}\n</tool_call>"),
        ('<tool_call>{"name": "{name}", "arguments": ', "}</tool_call>"),
    ),
    trigger="<tool_call>",
    listed=True,
)
QWEN_CODER_TAG = TagModel(
    calls=(("<tool_call>\n<function={name}>\n", "\n</function>\n</tool_call>"),),
    trigger="<tool_call>\n<function=",
    style="qwen_xml",
    excludes=_THINK,
)
LLAMA_TAG = TagModel(
    calls=(('{"name": "{name}", "parameters": ', "}"),),
    trigger='{"name": ',
    excludes=_THINK,
)
DEEPSEEK_V3_TAG = TagModel(
    calls=(("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n", "\n```<｜tool▁call▁end｜>"),),
    trigger="<｜tool▁calls▁begin｜>",
    excludes=_THINK,
    section=Section("<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>"),
)
DEEPSEEK_V31_TAG = TagModel(
    calls=(("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),),
    trigger="<｜tool▁calls▁begin｜>",
    excludes=_THINK,
    section=Section("<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>"),
)
