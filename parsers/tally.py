"""How many tokens of an answer are reasoning (contract F.2)."""

from __future__ import annotations

import msgspec

from parsers.events import Marker
from parsers.table import CompiledRegion, Table


class Tally(msgspec.Struct, array_like=True):
    """What is remembered between two tokens.

    `total`: reasoning tokens so far. `waiting`: those of them that a piece of a marker came in, which do not
    count if it becomes the marker. `open`: the last of `Table.counted` was the first.
    """

    total: int = 0
    waiting: int = 0
    open: bool = False


class Counter(msgspec.Struct):
    """Counts the tokens of an answer, one after the other. `_counts`: whether the token that is being read
    counts so far."""

    _table: Table
    tally: Tally
    _counts: int = 0

    def token(self, region: CompiledRegion, lexeme: str) -> None:
        """A token arrives in a region."""
        tally, counted = self.tally, self._table.counted
        if counted is None:
            self._counts = int(region.counts and not (isinstance(lexeme, Marker) and lexeme in region.on))
            tally.total += self._counts
        elif isinstance(lexeme, Marker) and lexeme in counted:
            tally.open = lexeme == counted[0]
        elif tally.open:
            tally.total += 1

    def end_token(self, region: CompiledRegion) -> None:
        """The output ends with a token that gives nothing."""
        if self._table.end_counts:
            self.token(region, "")

    def hold(self, all_held: bool) -> None:
        """A piece of a marker is held. `all_held`: of the token, too."""
        self.tally.waiting = self.tally.waiting + self._counts if all_held else 0

    def decide(self, spelled: bool = False) -> None:
        """No piece is held any more. `spelled`: with this token it is a marker whose tokens do not count."""
        if spelled:
            self.tally.total -= self.tally.waiting + self._counts
            self._counts = 0
        self.tally.waiting = 0
