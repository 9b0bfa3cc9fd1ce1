"""What a machine remembers, as plain values."""

from __future__ import annotations

from typing import Any

import msgspec

from parsers.rewrite import Rewriting
from parsers.speech import Speech
from parsers.table import RequestContext, Table
from parsers.tally import Tally


class State(msgspec.Struct, array_like=True):
    """Everything that changes while an answer is parsed. A machine works on it: encode it to keep it.

    `held`: a piece of a text marker, or the name or header being read. `raw`: characters since a tentative
    opener, None when all is certain. `idle`: the output has not left its first region. `unsure`: characters
    of a body that has no name yet. `body`: of the region's body, as its type or as plain values.
    """

    region: str
    held: str = ""
    raw: str | None = None
    idle: bool = True
    finished: bool = False
    tally: Tally = msgspec.field(default_factory=Tally)
    speech: Speech = msgspec.field(default_factory=Speech)
    body: Any = None
    unsure: int = 0


def begun(context: RequestContext, table: Table) -> State:
    """The state before the first output token."""
    first = "reasoning" if context.reasoning == "open" and not table.lead else table.start
    speech = Speech(pledge="" if context.promotes else None)
    if table.rewrite:
        speech.rewritten = (Rewriting(), Rewriting())
    return State(first, speech=speech)
