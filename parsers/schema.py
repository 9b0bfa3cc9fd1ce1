"""Types of tool parameters, from JSON schema to a word of letters, and values typed by them.

The letters, in the order in which they are tried: z null, i integer, n number, b boolean, o object, a array,
s string. Markup without types of its own (XML parameters) is read with them, as vLLM's engine parsers do;
unlike those, references and `const` are followed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

_ORDER = "zinboas"
_MAX_DEPTH = 32  # of references and unions; a schema deeper than this is untyped
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


def compile_tools(tools: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Parameter types of each function: name -> parameter -> letters. A parameter of type string alone is
    left out.

    `tools` are OpenAI tools; what is malformed in them is untyped.
    """
    compiled: dict[str, dict[str, str]] = {}
    for tool in tools:
        function = tool.get("function") or {}
        root = function.get("parameters")
        types: dict[str, str] = {}
        properties = root.get("properties") if isinstance(root, Mapping) else None
        if isinstance(properties, Mapping):
            for name, schema in properties.items():
                found = _types(schema, root, 0)
                codes = "".join(code for code in _ORDER if code in found) or "s"
                if codes != "s":
                    types[name] = codes
        compiled[str(function.get("name"))] = types
    return compiled


def _types(schema: Any, root: Any, depth: int) -> set[str]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return set()
    found: set[str] = set()
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found |= _types(_resolve(reference, root), root, depth + 1)
    declared = schema.get("type")
    for name in declared if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            found.add(_code(name.lower()))
    values = schema.get("enum")
    constants = list(values) if isinstance(values, list) else []
    if "const" in schema:
        constants.append(schema["const"])
    found.update(_code_of(value) for value in constants)
    for union in ("anyOf", "oneOf", "allOf"):
        options = schema.get(union)
        if isinstance(options, list):
            for option in options:
                found |= _types(option, root, depth + 1)
    if schema.get("nullable") is True and found:
        found.add("z")
    return found - {""}


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
        key = part.replace("~1", "/").replace("~0", "~")
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def coerce(text: str, codes: str) -> str:
    """The JSON text of a value that the model wrote as `text`, for a parameter of the types `codes`.

    The first type that fits wins; if none does, any JSON value is taken as it is, and text as a string.
    """
    for code in codes:
        found, value = _read(text, code)
        if found:
            return _dump(value)
    found, value = _load(text)
    return _dump(value if found else text)


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
