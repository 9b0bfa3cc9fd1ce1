"""What a machine remembers, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from parsers.speech import Speech
from parsers.table import CompiledRegion
from parsers.tally import Tally


class State(msgspec.Struct, array_like=True):
    """Everything that changes while an answer is parsed.

    `held`: a piece of a text marker, or the name or header being read. `raw`: characters since a tentative
    opener, None when all is certain. `idle`: the output has not left its first region. `unsure`: characters
    of a body that has no name yet.
    """

    region: str
    held: str = ""
    raw: str | None = None
    idle: bool = True
    finished: bool = False
    tally: Tally = msgspec.field(default_factory=Tally)
    speech: Speech | None = None
    body: Any = None
    unsure: int = 0


def restore(snapshot: Any, regions: Mapping[str, CompiledRegion]) -> State:
    """The state of a snapshot. Raises ValueError if it is none of a machine with these regions."""
    try:
        state = msgspec.convert(snapshot, State)
        region = regions[state.region]
        if state.body is not None and region.body is not None:
            state.body = msgspec.convert(state.body, region.body.state_type)
        elif region.body is not None:
            raise ValueError("a region with a body has no body state")
        elif state.body is not None:
            raise ValueError("a region without a body has a body state")
    except (msgspec.ValidationError, KeyError) as error:
        raise ValueError(f"malformed parser snapshot: {error}") from None
    return state
