"""Reading function names and headers: how much of a text may begin one, and what a whole one says."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from parsers.grammar import Region, Route, Text

_WORD = re.compile(r"\s*[\w.:/-]*\s*")
_LONGEST = 1024  # characters; what is longer is no function name and no header
_QUOTES = ("'", '"')


def listed(region: Region, types: Mapping[str, object], tentative: bool) -> Collection[str] | None:
    """All names that a name may be, None for any. Without tools in the request, whose `types` these are, a
    certain opener opens a call of any name."""
    return types if region.known_names and (tentative or types) else None


def begun(region: Region, text: str, known: Collection[str] | None) -> int:
    """How much of `text` may be the beginning of a name or a header. `known`: all names that there are."""
    if _may_begin(region, text, known):
        return len(text)
    low, high = 0, min(len(text), _LONGEST + 1)  # what does not begin one, does not with more text
    while high - low > 1:
        middle = (low + high) // 2
        if _may_begin(region, text[:middle], known):
            low = middle
        else:
            high = middle
    return low


def read(region: Region, text: str, to: str, known: Collection[str] | None) -> Route | None:
    """What a name or a header that ended says; None if it is none. `to`: where its end leads."""
    route = Route(to, _name(region, text) or None) if region.route is None else region.route(text)
    if route is None or (region.text is Text.NAME and not route.name):
        return None
    if known is not None and route.name is not None and route.name not in known:
        return None
    return route


def one_word(text: str) -> bool:
    """Whether `text` may begin a name that is one word, as functions' names are: a region's `begins`."""
    return _WORD.fullmatch(text) is not None


def _may_begin(region: Region, text: str, known: Collection[str] | None) -> bool:
    if len(text) > _LONGEST or (region.begins is not None and not region.begins(text)):
        return False
    name = _name(region, text)
    if known is None or name in known:
        return True
    closed = name != text.strip()
    beginning = name[1:].lstrip() if region.quoted and name[:1] in _QUOTES else name
    return not closed and any(one.startswith(beginning) for one in known)


def _name(region: Region, text: str) -> str:
    """The name that a text says, out of its quotes."""
    name = text.strip()
    if region.quoted and len(name) > 1 and name[0] in _QUOTES and name[0] == name[-1]:
        name = name[1:-1].strip()
    return name
