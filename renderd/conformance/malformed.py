"""What reading a value raises whose shape is not the one that was expected."""

from __future__ import annotations

from typing import Any

import msgspec

MALFORMED = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    RecursionError,
    msgspec.MsgspecError,
)
"""Whatever an answer is like, reading it raises nothing else."""


class Unreadable(ValueError):
    """A value that cannot be read. Says which, where, and why."""


def reason(error: Exception) -> str:
    """Why a value could not be read, in a few words."""
    if isinstance(error, Unreadable | msgspec.MsgspecError):
        return str(error)
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"no {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"


def excerpt(value: Any) -> str:
    """The beginning of a value or a body."""
    try:
        text = value.decode(errors="replace") if isinstance(value, bytes) else repr(value)
    except RecursionError:
        return "..."
    return text if len(text) <= 200 else f"{text[:200]} ..."
