"""Arguments that are JSON and are passed on as they are: DeepSeek V3 and V3.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parsers.bodies import BodyState, Said

_LONGEST_BLANK = 1024  # of whitespace that may stand before the fence


class RawJsonState(BodyState, array_like=True):
    """`held`: the tail that may be the closing fence. `last`: the last character that was passed on."""

    held: str = ""
    opened: bool = False
    last: str = ""


@dataclass(frozen=True)
class RawJson:
    """Text up to the end marker.

    With an `opening` and a `fence`, those around the JSON and whitespace beside them are markup; both may be
    missing.
    """

    opening: str = ""
    fence: str = ""

    state_type = RawJsonState

    markers = frozenset[str]()

    def start(self, name: str | None) -> RawJsonState:
        return RawJsonState(name=name)

    def literal(self, state: RawJsonState) -> bool:
        return False

    def feed(self, state: RawJsonState, text: str, types: Mapping[str, str], said: Said) -> int:
        buffer = state.held + text
        if self.opening and not state.opened:
            buffer = buffer.lstrip()
            if len(buffer) < len(self.opening) and self.opening.startswith(buffer):
                state.held = buffer
                return len(text)
            buffer = buffer.removeprefix(self.opening)
            state.opened = True
        if self.fence and not state.last:
            buffer = buffer.lstrip()
        certain = len(buffer) - self._tail(buffer)
        blank = len(buffer) - certain - len(buffer[certain:].lstrip())
        if blank > _LONGEST_BLANK or (not certain and state.last.isspace()):
            certain += blank  # too long a run of whitespace to wait for its end
        if certain:
            said.arguments.append(buffer[:certain])
            state.last = buffer[certain - 1]
        state.held = buffer[certain:]
        return len(text)

    def end(self, state: RawJsonState, said: Said, by_marker: bool) -> bool:
        if not self.fence or not state.opened:
            return by_marker
        held = state.held.rstrip()
        whole = by_marker or held.strip() == self.fence
        if whole:
            held = held.removesuffix(self.fence).rstrip()
        elif state.last in ("}", "]"):
            held = ""  # a piece of the fence behind the JSON is none of it
        if held:
            said.arguments.append(held)
        return whole

    def _tail(self, buffer: str) -> int:
        """Length of the end of `buffer` that is dropped if the end marker comes next."""
        if not self.fence:
            return 0
        end = len(buffer.rstrip())
        for size in range(min(len(self.fence), end), 0, -1):
            if buffer.startswith(self.fence[:size], end - size) and (
                size == len(self.fence) or end == len(buffer)
            ):
                end = len(buffer[: end - size].rstrip())
                break
        return len(buffer) - end
