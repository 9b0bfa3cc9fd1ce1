"""One choice: its token ids in, events out. Batch feeds all ids at once, a stream those of each chunk."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from parsers import Machine
from parsers.events import Content, Event
from renderd import telemetry
from renderd.derender.detokenizer import Detokenizer, Lexeme, Rest, Window
from renderd.derender.stops import StopSearch


class ChoiceDecoder(msgspec.Struct):
    """Detokenizer, stop search and parser in a row.

    Attributes:
        window: where the detokenizer is.
        search: where the stop search is.
        machine: the parser, None for plain text.
        uncounted: how often the machine took the rest of a token for one more reasoning token.
    """

    _detokenizer: Detokenizer
    window: Window
    search: StopSearch
    machine: Machine | None = None
    uncounted: int = 0

    @property
    def reasoning_tokens(self) -> int:
        """Tokens so far that are reasoning (contract F.2)."""
        return self.machine.reasoning_tokens - self.uncounted if self.machine else 0

    def feed(
        self, token_ids: Sequence[int], tokens_before: int, final: bool, end_token: bool = False
    ) -> list[Event]:
        """What the next ids say. `tokens_before`: ids fed so far; `final`: there are no more;
        `end_token`: but for one that is no text."""
        began = telemetry.clock()
        lexemes = self._detokenizer.read(self.window, token_ids)
        if self.search.stops:
            lexemes = self.search.feed(lexemes, tokens_before=tokens_before, final=final)
        began = telemetry.spent("detokenize", began)
        if self.machine is None:
            return [Content("".join(lexemes))]
        events = (
            self._parse(self.machine, lexemes) if Rest in map(type, lexemes) else self.machine.feed(lexemes)
        )
        if final or self.search.matched is not None:
            events += self.machine.finish(end_token and self.search.matched is None)
        telemetry.spent("parse", began)
        return events

    def _parse(self, machine: Machine, lexemes: list[Lexeme]) -> list[Event]:
        events: list[Event] = []
        for rest, group in groupby(lexemes, lambda lexeme: isinstance(lexeme, Rest)):
            counted = machine.reasoning_tokens
            events += machine.feed(group)
            if rest:
                self.uncounted += machine.reasoning_tokens - counted
        return events
