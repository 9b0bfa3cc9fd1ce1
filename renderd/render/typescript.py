"""JSON schemas as types of TypeScript, in the spelling of Harmony's own library (contract C.7).

What looks odd is the library's: an object's description comes twice, `anyOf` is `any`, and strings are not
escaped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

_NAMES = {"number": "number", "integer": "number", "boolean": "boolean"}


def namespace(name: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """Functions as declarations of types. `tools`: as chat requests have them.

    Raises RecursionError for a schema that is nested too deeply, ValueError for a number that is none.
    """
    declared = [_function(tool["function"]) for tool in tools]
    return f"namespace {name} {{\n\n{''.join(declared)}}} // namespace {name}"


def _function(function: Mapping[str, Any]) -> str:
    comment = "".join(f"// {line}\n" for line in _lines(function["description"] or ""))
    parameters = function["parameters"]
    takes = "" if parameters is None else f"_: {type_of(parameters, '')}"
    return f"{comment}type {function['name']} = ({takes}) => any;\n\n"


def type_of(schema: Any, indent: str) -> str:
    """The type of a schema. `indent`: of the lines that it may consist of."""
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(variants := schema.get("oneOf"), list):
        return "".join(f"\n{indent} | {_variant(one, indent)}{_said(one)}" for one in variants)
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [{"integer": "number"}.get(one, one) for one in kind if isinstance(one, str)]
        return " | ".join(kinds) or "any"
    if kind == "object":
        return _object(schema, indent)
    if kind == "array":
        return f"{type_of(schema['items'], indent)}[]" if "items" in schema else "Array<any>"
    if kind == "string":
        values = schema.get("enum")
        words = [f'"{word}"' for word in values if isinstance(word, str)] if isinstance(values, list) else []
        return " | ".join(words) or "string"
    return _NAMES.get(kind, "any") if isinstance(kind, str) else "any"


def _object(schema: Mapping[str, Any], indent: str) -> str:
    lines = [f"{indent}// {schema['description']}\n"] if isinstance(schema.get("description"), str) else []
    lines.append("{\n")
    properties, required = schema.get("properties"), schema.get("required")
    required = required if isinstance(required, list) else []
    for name, value in properties.items() if isinstance(properties, dict) else ():
        lines.append(_property(f"{name}{'' if name in required else '?'}", value, indent))
    lines.append(f"{indent}}}")
    return "".join(lines)


def _property(name: str, schema: Any, indent: str) -> str:
    schema = schema if isinstance(schema, dict) else {}
    description = schema.get("description")
    variants = schema.get("oneOf")
    out = ""
    if isinstance(title := schema.get("title"), str):
        out += f"{indent}// {title}\n{indent}//\n"
    if isinstance(description, str) and "oneOf" not in schema:
        out += f"{indent}// {description}\n"
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        out += f"{indent}// Examples:\n"
        out += "".join(f'{indent}// - "{example}"\n' for example in examples if isinstance(example, str))
    if not isinstance(variants, list):
        written = _nullable(type_of(schema, indent + "    "), schema)
        default = f" // {_default(schema)}" if "default" in schema and "oneOf" not in schema else ""
        return f"{out}{indent}{name}: {written},{default}\n"
    told = description if isinstance(description, str) else None
    if told is not None and [told] != [_description(variant) for variant in variants[:1]]:
        out += f"{indent}// {told}\n"
    if "default" in schema:
        out += f"{indent}// {_default(schema)}\n"
    out += f"{indent}{name}:\n"
    for n, variant in enumerate(variants):
        known = told is not None and (n == 0 or _description(variant) == told)
        out += f"{indent} | {_variant(variant, indent)}{_said(variant, True, known)}\n"
    return f"{out}{indent},\n"


def _variant(schema: Any, indent: str) -> str:
    """One of several types."""
    return _nullable(type_of(schema, indent + "   "), schema)


def _nullable(written: str, schema: Any) -> str:
    null = isinstance(schema, dict) and schema.get("nullable") is True and "null" not in written
    return f"{written} | null" if null else written


def _said(schema: Any, named: bool = False, known: bool = False) -> str:
    """The comment behind one of several types. `named`: they are those of a property, whose own description
    makes this one's `known`."""
    description = _description(schema)
    said = [] if description is None or known else [description]
    if isinstance(schema, dict) and "default" in schema:
        said.append(_default(schema, named))
    return f" // {' '.join(said)}" if said else ""


def _description(schema: Any) -> str | None:
    description = schema.get("description") if isinstance(schema, dict) else None
    return description if isinstance(description, str) else None


def _default(schema: Mapping[str, Any], named: bool = True) -> str:
    value = schema["default"]
    if not isinstance(value, str):
        return f"default: {_json(value)}"
    if not (isinstance(schema.get("enum"), list) and schema["enum"]):
        return f'default: "{value}"'
    return f"default: {value if named else _json(value)}"


def _json(value: Any) -> str:
    """JSON with the library's spelling of numbers: whole ones of more than 64 bits are floats."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(key)}:{_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = float(value)
    if not isinstance(value, float):
        return json.dumps(value, ensure_ascii=False)
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number that JSON has")
    text = repr(_as_read(value))
    return f"{Decimal(text):f}" if text.endswith("e-05") else text.replace("e-0", "e-")


def _as_read(value: float) -> float:
    """What the library reads in the digits of a number, which is not always the nearest number."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    read = float(int("".join(map(str, digits))))
    assert isinstance(exponent, int)
    while exponent < -308:
        read, exponent = read / 1e308, exponent + 308
    read = read * float(f"1e{exponent}") if exponent >= 0 else read / float(f"1e{-exponent}")
    return -read if sign else read


def _lines(text: str) -> list[str]:
    *ended, last = text.split("\n")
    return [*(line.removesuffix("\r") for line in ended), *([last] if last else [])]
