"""Ranges of single sampling values, as render and engines check them (contract B.4, G.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request

_RANGES: tuple[tuple[str, Callable[[float], bool], str, bool], ...] = (
    # parameter, whether a value is in range, what the value must be, whether the error names the parameter
    ("n", lambda v: v >= 1, "at least 1", False),
    ("presence_penalty", lambda v: -2 <= v <= 2, "in [-2, 2]", False),
    ("frequency_penalty", lambda v: -2 <= v <= 2, "in [-2, 2]", False),
    ("repetition_penalty", math.isfinite, "a finite number", False),
    ("repetition_penalty", lambda v: v > 0, "greater than zero", False),
    ("temperature", math.isfinite, "a finite number", True),
    ("temperature", lambda v: v >= 0, "non-negative", True),
    ("temperature", lambda v: v <= 2, "in [0, 2]", True),
    ("top_p", lambda v: 0 < v <= 1, "in (0, 1]", True),
    ("top_k", lambda v: v >= -1, "0 (disable), or at least 1", False),
    ("min_p", lambda v: 0 <= v <= 1, "in [0, 1]", False),
    ("max_tokens", lambda v: v >= 1, "at least 1", True),
    ("min_tokens", lambda v: v >= 0, "greater than or equal to 0", False),
    ("logprobs", lambda v: v >= -1, "non-negative or -1", True),
    ("prompt_logprobs", lambda v: v >= -1, "non-negative or -1", True),
    ("stream_interval", lambda v: v >= 1, "at least 1", True),
)


_RULES = {
    parameter: [rule for rule in _RANGES if rule[0] == parameter]
    for parameter in dict.fromkeys(rule[0] for rule in _RANGES)
}


def check_ranges(values: Mapping[str, float | None]) -> None:
    """Refuse the first value out of range; absent and null ones are not checked.
    Raises ApiError 400."""
    for parameter, rules in _RULES.items():
        if parameter in values and (value := values[parameter]) is not None:
            for name, in_range, wanted, named in rules:
                if not in_range(value):
                    message = f"{name} must be {wanted}, got {value}."
                    raise rule_error(message, name, value=value) if named else bad_request(message)
