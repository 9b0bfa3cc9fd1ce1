"""Texts of values to JSON, by rules of formats that have their own (the common ones are `schema.coerce`)."""

from __future__ import annotations

import ast
import json
from typing import Any

from parsers.schema import Node, coerce, letters


def json_or_literal(text: str, node: Node) -> str:
    """A string where the schema says so alone; else JSON, a Python literal, or the text as it is."""
    if letters(node) == "s":
        return json.dumps(text, ensure_ascii=False)
    written = coerce(text, "")
    return written if not written.startswith('"') else _literal(text)


def narrow_first(text: str, node: Node) -> str:
    """The narrowest type that the schema admits and the text fits; a literal if there is none."""
    codes = letters(node)
    word = text.strip()
    if "b" in codes and word.lower() in ("true", "false"):
        return word.lower()
    for code, read in (("i", int), ("n", float)):
        try:
            if code in codes:
                value = read(word) if code == "i" or set(word) & set(".eE") else int(word)
                return json.dumps(value, allow_nan=False)
        except ValueError:
            pass
    if "o" in codes or "a" in codes:
        written = coerce(text, "")
        if written[0] in "{[":
            return written
    if "s" in codes or not codes:
        return json.dumps(text, ensure_ascii=False)
    if "z" in codes and word == "null":
        return word
    return _literal(text)


def _literal(text: str) -> str:
    try:
        value: Any = ast.literal_eval(text.strip())
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
