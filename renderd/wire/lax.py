"""Spellings of numbers and booleans that pydantic's lax mode takes and msgspec's does not (contract A.3)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import inspect

_TRUE = {"true", "1", "yes", "on", "t", "y"}
_FALSE = {"false", "0", "no", "off", "f", "n"}


@lru_cache(maxsize=64)
def _info(type: Any) -> inspect.Type:
    return inspect.type_info(type)


def relax(raw: Any, type: Any) -> Any:
    """`raw` with every scalar that stands where `type` wants a number or a boolean spelled as msgspec wants
    it.
    What cannot be understood is left as it is, for msgspec to refuse."""
    return _relax(raw, _info(type))


def _relax(raw: Any, info: inspect.Type) -> Any:
    if isinstance(info, inspect.UnionType):
        return _relax_union(raw, info)
    if isinstance(info, inspect.BoolType):
        return _boolean(raw)
    if isinstance(info, inspect.IntType | inspect.FloatType):
        return _number(raw)
    if isinstance(info, inspect.StructType) and isinstance(raw, dict):
        fields = {field.encode_name: field.type for field in info.fields}
        return {key: _relax(value, fields[key]) if key in fields else value for key, value in raw.items()}
    if isinstance(info, inspect.ListType) and isinstance(raw, list):
        return [_relax(value, info.item_type) for value in raw]
    if isinstance(info, inspect.DictType) and isinstance(raw, dict):
        return {key: _relax(value, info.value_type) for key, value in raw.items()}
    return raw


def _relax_union(raw: Any, info: inspect.UnionType) -> Any:
    if raw is None:
        return None
    if isinstance(raw, str) and any(isinstance(t, inspect.StrType | inspect.LiteralType) for t in info.types):
        return raw
    for member in info.types:
        relaxed = _relax(raw, member)
        if relaxed is not raw:
            return relaxed
    return raw


def _boolean(raw: Any) -> Any:
    if isinstance(raw, str):
        word = raw.lower()
        return True if word in _TRUE else False if word in _FALSE else raw
    if isinstance(raw, float) and raw in (0.0, 1.0):
        return raw == 1.0
    return raw


def _number(raw: Any) -> Any:
    if isinstance(raw, bool):
        return int(raw)
    if isinstance(raw, str):
        return raw.strip().replace("_", "") if raw.strip() else raw
    return raw
