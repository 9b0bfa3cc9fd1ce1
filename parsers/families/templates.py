"""hf and beam: the format is data of the model, `response_template` in the tokenizer's configuration.

A template has fields: thinking, content and tool_calls, each with the text that opens and closes it. This
makes the grammar that the fields describe. Calls are JSON (an object, a list, or the arguments alone behind a
name) or tags with values. What needs a regular expression to run, rather than to be read as texts around a
name, cannot be read incrementally; such a model is refused with a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from parsers.bodies import Body
from parsers.bodies.json_arguments import JsonArguments
from parsers.bodies.json_call import JsonCall
from parsers.bodies.values import Values
from parsers.bodies.xml_parameters import XmlParameters
from parsers.families.json_lists import listed
from parsers.grammar import (
    ForModel,
    Initial,
    ModelFacts,
    On,
    ReasoningGrammar,
    Region,
    Text,
    ToolGrammar,
    UnfitModelError,
)

_MODELS = "models with a response_template in tokenizer_config.json"
_FORMAT = "as the template says"
_REFUSES = ("required", "named", "strict", "one call")
_GROUP = re.compile(r"\(\?P<name>[^()]*(?:\([^()]*\)[^()]*)*\)")
_TAG = re.compile(
    r"(?P<opening>.*=)[\"']?\(\?P<key>[^()]*\)[\"']?(?P<middle>.*)\(\?P<value>[^()]*\)(?P<closing>.*)",
    re.DOTALL,
)
_BLANK = re.compile(r"(?<!\\)\\s[*+]?\??")
_ESCAPED = re.compile(r"\\([^\w\s])")
_SPECIAL = re.compile(r"(?<!\\)[.*+?\[\](){}|^$]|\\\w")


class _Opener(NamedTuple):
    """What stands before a call: texts with nothing but whitespace between them, then perhaps the function's
    name up to another text."""

    texts: tuple[str, ...]
    after_name: str | None


def _fields(parser: str, facts: ModelFacts) -> Mapping[str, Any]:
    template = facts.tokenizer_config.get("response_template")
    if not isinstance(template, Mapping):
        raise UnfitModelError(
            f"parser {parser} requires a response_template in the tokenizer's configuration"
        )
    fields = template.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise UnfitModelError(f"parser {parser}: `fields` of the response_template is no object with fields")
    for name, field in fields.items():
        if not isinstance(field, Mapping):
            raise UnfitModelError(f"parser {parser}: field {name} of the response_template is no object")
    return fields


def _field(parser: str, facts: ModelFacts, name: str) -> Mapping[str, Any]:
    field = _fields(parser, facts).get(name)
    if field is None:
        raise UnfitModelError(f"parser {parser} requires a response_template with a field {name}")
    found: Mapping[str, Any] = field
    return found


def _literals(parser: str, name: str, field: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The texts that open or close a field; a pattern only if it is one text."""
    value = field.get(key)
    pattern = field.get(f"{key}_pattern")
    if isinstance(pattern, str):
        value = _text(parser, name, pattern)
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text for text in texts):
        raise UnfitModelError(f"parser {parser}: {key} of field {name} is neither a text nor a list of texts")
    return tuple(texts)


def _text(parser: str, name: str, pattern: str) -> str:
    """The one text that a pattern matches, whitespace at its ends aside."""
    parts = [part for part in _BLANK.split(pattern) if part]
    if len(parts) != 1 or _SPECIAL.search(parts[0]):
        raise UnfitModelError(
            f"parser {parser}: the pattern {pattern!r} of field {name} is more than texts around a name, and "
            "cannot be read while it is generated"
        )
    return _ESCAPED.sub(r"\1", parts[0])


def _content_ons(fields: Mapping[str, Any], parser: str) -> tuple[On, ...]:
    """The markers around content are no part of it."""
    content = fields.get("content") or {}
    ends = (*_literals(parser, "content", content, "open"), *_literals(parser, "content", content, "close"))
    return tuple(On(marker, "content") for marker in ends)


def _closed(_kwargs: Mapping[str, Any]) -> Initial:
    return "closed"


def _reasoning(parser: str, facts: ModelFacts) -> ReasoningGrammar:
    field = _field(parser, facts, "thinking")
    starts = _literals(parser, "thinking", field, "open")
    ends = _literals(parser, "thinking", field, "close")
    if not starts or not ends:
        raise UnfitModelError(
            f"parser {parser}: field thinking of the response_template needs open and close"
        )
    return ReasoningGrammar(
        names=(parser,),
        start=starts[0],
        end=ends[0],
        other_starts=starts[1:],
        other_ends=ends[1:],
        initial=_closed,
        end_counts=True,
        content=(
            *(On(start, "reasoning") for start in starts),
            *_content_ons(_fields(parser, facts), parser),
        ),
        needs_special_tokens=True,
        spaces_between_special_tokens=False,
        models=_MODELS,
        format=_FORMAT,
        framing=parser,
    )


def _tools(parser: str, facts: ModelFacts) -> ToolGrammar:
    field = _field(parser, facts, "tool_calls")
    opener = _opener(parser, field)
    ends = _literals(parser, "tool_calls", field, "close")
    over = tuple(On(end, "content") for end in ends)
    regions = _behind_name(parser, facts, field, over) if opener.after_name else _whole(parser, field, over)
    entry = "name" if opener.after_name else "list" if "list" in regions else "call"
    for number, word in enumerate(reversed(opener.texts[1:])):
        step = f"opener {number}"
        regions[step] = Region(Text.MARKUP, (On(word, entry, as_text=True), *over))
        entry = step
    if opener.after_name:
        regions["name"] = Region(Text.NAME, (On(opener.after_name, "arguments", as_text=True),))
    first = On(opener.texts[0], entry, tentative=True)
    return ToolGrammar(
        names=(parser,),
        content=(first, *_content_ons(_fields(parser, facts), parser)),
        regions=regions,
        blank=True,
        typed=True,
        forced="markup",
        refuses=_REFUSES,
        needs_special_tokens="always",
        spaces_between_special_tokens=False,
        models=_MODELS,
        format=_FORMAT,
        framing=parser,
    )


def _opener(parser: str, field: Mapping[str, Any]) -> _Opener:
    pattern = field.get("open_pattern")
    if not isinstance(pattern, str):
        texts = _literals(parser, "tool_calls", field, "open")
        if len(texts) != 1:
            raise UnfitModelError(
                f"parser {parser}: field tool_calls of the response_template needs one opener"
            )
        return _Opener(texts, None)
    named = _GROUP.search(pattern)
    before = pattern[: named.start()] if named else pattern
    texts = tuple(_text(parser, "tool_calls", part) for part in _BLANK.split(before) if part)
    if not texts:
        raise UnfitModelError(f"parser {parser}: the opener of tool_calls begins with a name")
    return _Opener(texts, _text(parser, "tool_calls", pattern[named.end() :]) if named else None)


def _function(parser: str, field: Mapping[str, Any]) -> tuple[str, str] | str:
    """What the transform makes a function of: "{content}", or two placeholders, of name and arguments."""
    transform = field.get("transform")
    function = transform.get("function", transform) if isinstance(transform, Mapping) else "{content}"
    if isinstance(function, str):
        return function
    pair = (function.get("name"), function.get("arguments"))
    if not all(isinstance(part, str) and part.startswith("{") and part.endswith("}") for part in pair):
        raise UnfitModelError(f"parser {parser}: the transform of tool_calls makes no call of its content")
    return str(pair[0])[1:-1], str(pair[1])[1:-1]


def _whole(parser: str, field: Mapping[str, Any], over: tuple[On, ...]) -> dict[str, Region]:
    """Calls that bring their own name: an object, or a list of them."""
    if field.get("content") != "json" or field.get("content_args"):
        raise UnfitModelError(f"parser {parser}: calls that are not plain JSON need their name in the opener")
    function = _function(parser, field)
    name, arguments = ("name", "arguments") if isinstance(function, str) else function
    body = JsonCall((arguments,), certain_by_name=False, name_key=name, decoded=True)
    closing = {"closing": Region(Text.DROP, over)}
    if field.get("transform_each"):
        return {**listed(body, "closing"), **closing}
    return {"call": Region(Text.BODY, over, body, then="closing"), **closing}


def _behind_name(
    parser: str, facts: ModelFacts, field: Mapping[str, Any], over: tuple[On, ...]
) -> dict[str, Region]:
    """Calls whose name stands in the opener."""
    _function(parser, field)
    spelled = tuple(on.marker for on in over if not facts.is_token(on.marker))
    body = _arguments(parser, field, spelled)
    return {"arguments": Region(Text.BODY, over, body, then="closing"), "closing": Region(Text.DROP, over)}


def _arguments(parser: str, field: Mapping[str, Any], ends: tuple[str, ...]) -> Body:
    """`ends`: closers that the body has to see, since they are no tokens."""
    kind, arguments = field.get("content"), field.get("content_args") or {}
    if kind == "json" and not arguments:
        return JsonArguments(behind="leave", ends=ends)
    if kind != "xml-inline":
        raise UnfitModelError(
            f"parser {parser}: arguments of kind {kind} cannot be read while they are generated"
        )
    tag = _TAG.fullmatch(str(arguments.get("tag_pattern")))
    closing = _text(parser, "tool_calls", tag["closing"]) if tag else ""
    if tag is None or _text(parser, "tool_calls", tag["middle"]) != ">":
        raise UnfitModelError(f"parser {parser}: the tag_pattern of tool_calls is no tag with a key")
    reader = arguments.get("value_parser") or {}
    blank = _BLANK.match(tag["closing"]) is not None
    return XmlParameters(
        opening=_text(parser, "tool_calls", tag["opening"]),
        closing=closing,
        done=(),
        stops=ends,
        values=Values("blank" if blank else "none", json=reader.get("name") == "json"),
    )


def _for_model(make: Callable[[str, ModelFacts], Any], parser: str) -> ForModel:
    return ForModel((parser,), partial(make, parser), models=_MODELS, format=_FORMAT)


REASONING = tuple(_for_model(_reasoning, parser) for parser in ("hf", "beam"))
TOOLS = tuple(_for_model(_tools, parser) for parser in ("hf", "beam"))
