"""Two JSON values compared key by key, with rules for values that are random or that a server cannot know."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from renderd.conformance.paths import ABSENT, Path, Pattern, covers, parse

Rule = Callable[[Any, Any], bool]
"""Says whether a value (second) does for the one wanted (first). Either may be ABSENT."""


class Difference(msgspec.Struct, frozen=True):
    """A place where the values differ."""

    path: Path
    want: Any
    got: Any


KINDS = 10_000
"""Of places whose rule is kept in mind."""


class Rules:
    """Which places are compared otherwise than by equality. The first pattern that names a place wins."""

    def __init__(self, rules: Mapping[str, Rule], absent_is_null: bool) -> None:
        self._rules = [(parse(pattern), rule) for pattern, rule in rules.items()]
        self._found: dict[Path, Rule | None] = {}
        self.absent_is_null = absent_is_null

    def after(self, rules: Mapping[str, Rule]) -> Rules:
        """The same, once these have been asked."""
        made = Rules(rules, self.absent_is_null)
        made._rules += self._rules
        return made

    def of(self, path: Path) -> Rule | None:
        """The rule of one place, not of what lies around it."""
        kind: Pattern = tuple("*" if isinstance(segment, int) else segment for segment in path)
        if kind not in self._found:
            if len(self._found) >= KINDS:  # a server may have ever other keys
                self._found.clear()
            self._found[kind] = next(
                (
                    rule
                    for pattern, rule in self._rules
                    if len(pattern) == len(kind) and covers(pattern, kind)
                ),
                None,
            )
        return self._found[kind]


def differences(want: Any, got: Any, rules: Rules, path: Path = ()) -> Iterator[Difference]:
    """Where `got` differs from `want`: the innermost places; lists of different lengths differ as a whole."""
    rule = rules.of(path)
    if rule is not None:
        if not rule(want, got):
            yield Difference(path, want, got)
    elif isinstance(want, dict) and isinstance(got, dict):
        for key in [*want, *(key for key in got if key not in want)]:
            yield from differences(want.get(key, ABSENT), got.get(key, ABSENT), rules, (*path, key))
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (left, right) in enumerate(zip(want, got, strict=True)):
            yield from differences(left, right, rules, (*path, index))
    else:
        values = (want, got)
        if rules.absent_is_null:
            values = (None if want is ABSENT else want, None if got is ABSENT else got)
        if not equal(*values):
            yield Difference(path, want, got)


def equal(want: Any, got: Any) -> bool:
    """Equal, and true is no 1. A typed client refuses 1.0 for a wanted 1, but reads 1 for 1.0."""
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    return bool(want == got) and not (isinstance(want, int) and isinstance(got, float))


def anything(want: Any, got: Any) -> bool:
    """The value does not matter: the two servers cannot know the same."""
    return True


def text(want: Any, got: Any) -> bool:
    """Text; none is as good as empty."""
    left, right = ("" if value is None or value is ABSENT else value for value in (want, got))
    return bool(left == right)


_RANDOM = re.compile(r"(?<![0-9a-f])(?:[89ab][0-9a-f]{15}|[0-9a-f]{32})(?![0-9a-f])")
_NINE = re.compile(r"[A-Za-z0-9]{9}")


def identifier(want: Any, got: Any) -> bool:
    """An id: equal, or of the same shape with random hexadecimal digits at the same place."""
    if isinstance(want, str) and isinstance(got, str):
        return random_masked(want) == random_masked(got)
    return equal(want, got)


def random_masked(text: str) -> str:
    """An id with a "*" for its random digits."""
    return _RANDOM.sub("*", text)


_DIGITS = re.compile(r"[0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]*)")


def request_id(want: Any, got: Any) -> bool:
    """Equal but for random digits, eight or more, as many as each server likes; or a UUID."""
    if isinstance(want, str) and isinstance(got, str):
        return _DIGITS.sub("*", want) == _DIGITS.sub("*", got)
    return equal(want, got)


_OWN_ID = re.compile(r"(?<=cmpl-|resp_)[0-9a-f]{8,}")


def message(want: Any, got: Any) -> bool:
    """What an error says: equal but for the random digits of an id that the server gave the request."""
    if isinstance(want, str) and isinstance(got, str):
        return _OWN_ID.sub("*", want) == _OWN_ID.sub("*", got)
    return equal(want, got)


def call_id(want: Any, got: Any) -> bool:
    """The id of a tool call: as `identifier`, or both nine random letters and digits, as Mistral's are."""
    both = isinstance(want, str) and isinstance(got, str)
    return identifier(want, got) or bool(both and _NINE.fullmatch(want) and _NINE.fullmatch(got))


def timestamp(want: Any, got: Any) -> bool:
    """Seconds since the epoch."""
    return isinstance(got, int) and not isinstance(got, bool) and got > 0


def logprob(want: Any, got: Any) -> bool:
    """A log probability; its last digits depend on how the engine batched."""
    if isinstance(want, int | float) and isinstance(got, int | float):
        try:
            return math.isclose(want, got, rel_tol=1e-3, abs_tol=1e-3)
        except OverflowError:  # an integer of hundreds of digits
            return False
    return want is got


def unless_null(want: Any, got: Any) -> bool:
    """Equal, or not said."""
    return got is None or got is ABSENT or equal(want, got)


def number(want: Any, got: Any) -> bool:
    """Any number."""
    return isinstance(got, int | float) and not isinstance(got, bool)


def form(want: Any, got: Any) -> bool:
    """Of one form: lists as long, objects with the same keys, numbers, and texts that are empty or not."""
    if isinstance(want, dict) and isinstance(got, dict):
        return want.keys() == got.keys() and all(form(value, got[key]) for key, value in want.items())
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(map(form, want, got))
    if isinstance(want, float):
        return number(want, got)
    return type(want) is type(got) and (not isinstance(want, str) or bool(want) == bool(got))


def by_token(want: Any, got: Any) -> bool:
    """For each token of a prompt null, or tokens by id: which and how many is the engine's affair."""
    if not isinstance(want, list) or not isinstance(got, list):
        return want is got
    return len(want) == len(got) and all(map(_tokens, want, got))


def _tokens(want: Any, got: Any) -> bool:
    if not isinstance(want, dict) or not isinstance(got, dict):
        return want is got
    first = next(iter(want.values()), None)
    return bool(got) and all(key.isdecimal() and form(first, value) for key, value in got.items())
