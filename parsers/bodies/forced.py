"""The answer to a named tool choice under a JSON constraint: all of it is the arguments (contract B.4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parsers.bodies import BodyState, Said


class WholeTextState(BodyState, array_like=True):
    """`function`: the named function. `held`: whitespace; without anything behind it there is no call."""

    function: str | None = None
    held: str = ""


@dataclass(frozen=True)
class WholeText:
    """Everything up to the end of the output, as it is."""

    state_type = WholeTextState
    markers = frozenset[str]()

    def start(self, name: str | None) -> WholeTextState:
        return WholeTextState(function=name)

    def literal(self, state: WholeTextState) -> bool:
        return True

    def feed(self, state: WholeTextState, text: str, types: Mapping[str, Any], said: Said) -> int:
        if state.name is None:
            state.held += text
            if state.held.isspace():
                return len(text)
            state.name = state.function
            said.arguments.append(state.held)
            state.held = ""
        else:
            said.arguments.append(str(text))
        return len(text)

    def end(self, state: WholeTextState, said: Said, by_marker: bool) -> bool:
        return state.name is not None
