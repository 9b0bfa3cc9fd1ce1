"""How one answer is read: what follows from its request once and for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parsers import Machine, State, Table
from renderd.derender.choice import ChoiceDecoder
from renderd.derender.context import Context
from renderd.derender.detokenizer import Detokenizer
from renderd.derender.stops import StopSearch


class Plan(NamedTuple):
    """What reads the choices of an answer. Immutable and shared.

    Attributes:
        context: the compiled request.
        detokenizer: for its settings.
        table: what its parser runs, None for plain text.
        stop_ids: see `stops.stop_ids`.
    """

    context: Context
    detokenizer: Detokenizer
    table: Table | None
    stop_ids: frozenset[int]

    def machine(self, state: State | None = None) -> Machine | None:
        """The parser at the first output token, or where another left its state. Raises ValueError if that is
        none of such a parser."""
        if self.table is None or self.context.parser is None:
            return None
        return Machine(self.context.parser, self.table, state)

    def decoder(self, prompt: Sequence[int], stops: Sequence[str]) -> ChoiceDecoder:
        """A decoder of an output that follows this prompt and ends at one of the `stops`."""
        context = self.context
        search = StopSearch(stops, context.min_tokens, context.include_stop)
        return ChoiceDecoder(self.detokenizer, self.detokenizer.seed(prompt), search, self.machine())
