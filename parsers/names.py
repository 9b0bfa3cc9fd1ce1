"""Reading function names and headers: how much of a text may begin one, and what a whole one says."""

from __future__ import annotations

from collections.abc import Collection

from parsers.grammar import Region, Route, Text

_LONGEST = 1024  # characters; what is longer is no function name and no header


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
    route = Route(to, text.strip() or None) if region.route is None else region.route(text)
    if route is None or (region.text is Text.NAME and not route.name):
        return None
    if known is not None and route.name is not None and route.name not in known:
        return None
    return route


def _may_begin(region: Region, text: str, known: Collection[str] | None) -> bool:
    if len(text) > _LONGEST or (region.begins is not None and not region.begins(text)):
        return False
    beginning = text.strip()
    return known is None or any(name.startswith(beginning) for name in known)
