"""The formats of structural tags, as xgrammar dumps them: dicts, their keys in its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Format = dict[str, Any]


def json_schema(schema: bool | Mapping[str, Any], style: str = "json") -> Format:
    """A JSON value, or arguments in another style, under a schema; True allows any."""
    return {
        "type": "json_schema",
        "json_schema": schema,
        "style": style,
        "any_order": False,
        "max_whitespace_cnt": None,
        "excludes": [],
    }


def any_text(excludes: Iterable[str] = ()) -> Format:
    """Text without the strings that it `excludes`."""
    return {"type": "any_text", "excludes": list(excludes), "max_tokens": None, "max_chars": None}


def const(value: str) -> Format:
    """Exactly this text."""
    return {"type": "const_string", "value": value}


def regex(pattern: str) -> Format:
    """Text that matches the whole pattern."""
    return {"type": "regex", "pattern": pattern}


def sequence(*elements: Format) -> Format:
    """One after the other."""
    return {"type": "sequence", "elements": list(elements)}


def either(elements: Sequence[Format]) -> Format:
    """One of them; a single one is itself."""
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": list(elements)}


def optional(content: Format) -> Format:
    """None or one."""
    return {"type": "optional", "content": content}


def repeated(content: Format, at_least_one: bool = False) -> Format:
    """Any number of them."""
    return {"type": "plus" if at_least_one else "star", "content": content}


def tag(begin: str, content: Format, end: str | Sequence[str]) -> Format:
    """Content between two texts. Several `end` texts are spellings of it."""
    return {
        "type": "tag",
        "begin": begin,
        "content": content,
        "end": end if isinstance(end, str) else list(end),
    }


def listed(tags: list[Format], separator: str, parallel: bool) -> Format:
    """Tags and nothing else, at least one; without `parallel` exactly one."""
    return {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": not parallel,
    }
