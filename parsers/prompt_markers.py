"""What the markers in a prompt say of the reasoning section of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from parsers.grammar import ReasoningGrammar

PromptVerdict = Literal["open", "over", "unknown"]
Search = Callable[[frozenset[int]], Iterable[tuple[int, int]]]
"""The places of given ids among the prompt's token ids, from the last to the first, each with its id."""


class PromptMarkers:
    """A grammar's markers by the ids that spell them, `marker_ids`."""

    def __init__(self, part: ReasoningGrammar, marker_ids: Mapping[str, Sequence[int]]) -> None:
        verdicts: dict[str, PromptVerdict] = {marker: "unknown" for marker in part.boundary}
        verdicts |= {marker: "open" for marker in (part.start, *part.other_starts)}
        verdicts |= {marker: "over" for marker in (part.end, *part.other_ends, *part.ends)}
        self._of = marker_ids  # kept, so that no other object can have its id
        self._by_last: dict[int, list[tuple[list[int], PromptVerdict]]] = {}
        for marker, verdict in verdicts.items():
            if ids := list(marker_ids.get(marker) or ()):
                self._by_last.setdefault(ids[-1], []).append((ids, verdict))
        self._last = frozenset(self._by_last)

    def verdict(self, token_ids: Sequence[int], search: Search | None) -> PromptVerdict:
        """What the last marker says; "unknown" where there is none. `search`: of these token ids, where they
        know it better than by looking at one after the other."""
        for at, token_id in search(self._last) if search else _search(token_ids, self._last):
            for ids, verdict in self._by_last[token_id]:
                if len(ids) == 1 or list(token_ids[max(at + 1 - len(ids), 0) : at + 1]) == ids:
                    return verdict
        return "unknown"


def _search(token_ids: Sequence[int], wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
    at = len(token_ids)
    for token_id in reversed(token_ids):
        at -= 1
        if token_id in wanted:
            yield at, token_id
