"""Types of tool parameters: from JSON schema to plain nodes, and values typed by them.

A node is a word of type letters, or `[letters, {property: node}, node of the items or None]` where a schema
says more of what is inside. The letters, in the order in which they are tried: z null, i integer, n number,
b boolean, o object, a array, s string; no letter, any value. An r behind them says that the schema is a
reference. Nodes are plain, because they travel in the stream state, and bounded, because schemas may be
recursive.

Markup without types of its own (XML parameters) is read with them, as vLLM's engine parsers do; unlike those,
references, `const` and `allOf` are followed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

Node = str | list[Any]

_ORDER = "zinboas"
_MAX_DEPTH = 32  # of references and unions; a schema deeper than this is untyped
_MAX_LEVEL = 6  # of objects and arrays; what lies deeper is taken as the model wrote it
_MAX_VISITS = 512  # subschemas read for one parameter
_ALIASES = {
    "z": ("null", "none"),
    "i": ("integer", "int", "int8", "int16", "int32", "int64", "uint", "long", "short", "unsigned"),
    "n": ("number", "num", "float", "float32", "float64", "double"),
    "b": ("boolean", "bool"),
    "o": ("object", "dict"),
    "a": ("array", "arr", "list", "sequence"),
    "s": ("string", "str", "text", "varchar", "char", "enum"),
}
_CODES = {alias: code for code, aliases in _ALIASES.items() for alias in aliases}


def compile_tools(tools: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Node]]:
    """Parameter types of each function: name -> parameter -> node. A parameter without a type is left out.

    `tools` are OpenAI tools; what is malformed in them is untyped.
    """
    compiled: dict[str, dict[str, Node]] = {}
    for tool in tools:
        function = tool.get("function") or {}
        root = function.get("parameters")
        nodes: dict[str, Node] = {}
        for name, schemas in _Reader(root).properties([root]).items():
            node = _Reader(root).node(schemas, 0)
            if node:
                nodes[name] = node
        compiled[str(function.get("name"))] = nodes
    return compiled


def letters(node: Node) -> str:
    """The type letters of a node."""
    return _word(node).removesuffix("r")


class _Reader:
    """Reads the schema of one parameter. `root`: the document in which references point."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._visits = _MAX_VISITS

    def node(self, schemas: list[Any], level: int) -> Node:
        """One node for a value that satisfies one of `schemas`."""
        parts = [part for schema in schemas for part in self.parts(schema)]
        found = set().union(*(self.letters(schema, 0) for schema in schemas))
        codes = "".join(code for code in _ORDER if code in found)
        if codes and any(self._refers(schema) for schema in schemas):
            codes += "r"
        if level == _MAX_LEVEL:
            return codes
        properties = {
            name: child
            for name, options in self._properties(parts).items()
            if (child := self.node(options, level + 1))
        }
        options = [part["items"] for part in parts if isinstance(part.get("items"), Mapping)]
        items = self.node(options, level + 1) if options else ""
        return [codes, properties, items or None] if properties or items else codes

    def properties(self, schemas: list[Any]) -> dict[str, list[Any]]:
        """The schemas of each property of objects that satisfy one of `schemas`."""
        return self._properties([part for schema in schemas for part in self.parts(schema)])

    def _properties(self, parts: list[Mapping[str, Any]]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for part in parts:
            properties = part.get("properties")
            if isinstance(properties, Mapping):
                for name, schema in properties.items():
                    found.setdefault(str(name), []).append(schema)
        return found

    def parts(self, schema: Any, depth: int = 0) -> list[Mapping[str, Any]]:
        """A schema with all that it refers to and is made of, flat."""
        self._visits -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._visits < 0:
            return []
        found = [schema]
        for part in (*self._referred(schema), *(p for union in _UNIONS for p in _options(schema, union))):
            found += self.parts(part, depth + 1)
        return found

    def letters(self, schema: Any, depth: int) -> set[str]:
        """The types that a schema admits; none: it does not say."""
        self._visits -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._visits < 0:
            return set()
        declared = schema.get("type")
        names = declared if isinstance(declared, list) else [declared]
        values = schema.get("enum")
        constants = list(values) if isinstance(values, list) else []
        if "const" in schema:
            constants.append(schema["const"])
        sides = [
            {_code(name.lower()) for name in names if isinstance(name, str)} - {""},
            {_code_of(value) for value in constants},
        ]
        for part in (*self._referred(schema), *_options(schema, "allOf")):
            sides.append(self.letters(part, depth + 1))
        for union in ("anyOf", "oneOf"):
            sides.append(set().union(*(self.letters(part, depth + 1) for part in _options(schema, union))))
        found: set[str] = set()
        for side in sides:
            found = _both(found, side)
        if not found and ("properties" in schema or "additionalProperties" in schema):
            found.add("o")
        if schema.get("nullable") is True and found:
            found.add("z")
        return found

    def _refers(self, schema: Any) -> bool:
        if not isinstance(schema, Mapping):
            return False
        return "$ref" in schema or any(
            isinstance(part, Mapping) and "$ref" in part
            for union in _UNIONS
            for part in _options(schema, union)
        )

    def _referred(self, schema: Mapping[str, Any]) -> list[Any]:
        reference = schema.get("$ref")
        return [_resolve(reference, self._root)] if isinstance(reference, str) else []


_UNIONS = ("anyOf", "oneOf", "allOf")


def _word(node: Node) -> str:
    return node if isinstance(node, str) else str(node[0])


def _options(schema: Mapping[str, Any], union: str) -> list[Any]:
    options = schema.get(union)
    return options if isinstance(options, list) else []


def _both(left: set[str], right: set[str]) -> set[str]:
    """What two conditions on one value admit together; where they exclude each other, what either does."""
    if not left or not right:
        return left | right
    both = left & right
    if "n" in left or "n" in right:  # an integer is a number
        both |= (left | right) & {"i"}
    return both or left | right


def _code(name: str) -> str:
    if name in _CODES:
        return _CODES[name]
    for prefix, code in (("int", "i"), ("uint", "i"), ("float", "n"), ("double", "n")):
        if name.startswith(prefix):
            return code
    return ""


def _code_of(value: Any) -> str:
    if value is None:
        return "z"
    if isinstance(value, bool):
        return "b"
    if isinstance(value, int):
        return "i"
    if isinstance(value, float):
        return "n"
    if isinstance(value, str):
        return "s"
    return "a" if isinstance(value, list) else "o"


def _resolve(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    node = root
    for part in reference[1:].split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            node = node.get(key) if isinstance(node, Mapping) else None
    return node


def coerce(text: str, node: Node) -> str:
    """The JSON text of a value that the model wrote as `text`.

    The first type that fits wins; if none does, any JSON value is taken as it is, and text as a string. What
    is inside an object or array is the model's own JSON and stays, as in vLLM, but where the schema is a
    reference, which vLLM does not follow, it is typed through and through.
    """
    return _dump(_referred(_coerced(text, node), node))


def read(text: str, node: Node) -> str:
    """The JSON text of a value that the model wrote as JSON, typed by the schema; anything else is text."""
    found, value = _load(text)
    return _dump(retype(value if found else text, node))


def _referred(value: Any, node: Node) -> Any:
    """Type what references describe inside a value."""
    if isinstance(node, str) or not isinstance(value, dict | list):
        return value
    if _word(node).endswith("r"):
        return retype(value, node)
    return _inside(value, node, _referred)


def retype(value: Any, node: Node) -> Any:
    """A JSON value that the model wrote, typed by the schema: scalars as if they had been text, and what is
    inside objects and arrays likewise."""
    if isinstance(value, dict | list):
        return _inside(value, node, retype)
    codes = letters(node)
    if not codes or (_code_of(value) in codes and not isinstance(value, float)):
        return value
    return _coerced(value if isinstance(value, str) else _dump(value), node)


def _inside(value: Any, node: Node, apply: Callable[[Any, Node], Any]) -> Any:
    if isinstance(node, str):
        return value
    properties, items = node[1:]
    if isinstance(value, dict):
        return {key: apply(item, properties.get(key, "")) for key, item in value.items()}
    return [apply(item, items or "") for item in value]


def _coerced(text: str, node: Node) -> Any:
    for code in letters(node):
        found, value = _read(text, code)
        if found:
            return value
    found, value = _load(text)
    return value if found else text


def _read(text: str, code: str) -> tuple[bool, Any]:
    word = text.strip().lower()
    if code == "z":
        return text.lower() == "null", None
    if code == "b":
        return word in ("true", "false", "1", "0"), word in ("true", "1")
    if code == "s":
        return True, text
    if code in "oa":
        return _load(text)
    try:
        return True, int(text)
    except ValueError:
        pass
    if code == "n":
        try:
            number = float(text)
        except ValueError:
            return False, None
        if math.isfinite(number):
            return True, int(number) if number.is_integer() else number
    return False, None


def _load(text: str) -> tuple[bool, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False, None
    return True, value


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
