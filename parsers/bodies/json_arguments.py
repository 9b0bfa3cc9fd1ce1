"""Arguments that are one JSON value, passed on as they come and typed by the schema (`json_typed`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from parsers.bodies import BodyState, Said, json_typed, solid
from parsers.bodies.json_raw import STOP
from parsers.bodies.json_typed import TypedJson
from parsers.scan import Scanner

_BEFORE, _VALUE, _BEHIND = range(3)
_LONGEST_BLANK = 1024  # of whitespace that may turn out to stand at the end


class JsonArgumentsState(BodyState, array_like=True):
    """`held`: what may become a marker. `blank`: whitespace that may be the last of the arguments. `said`:
    they were not empty.
    """

    phase: int = _BEFORE
    held: str = ""
    blank: str = ""
    said: bool = False
    value: TypedJson = msgspec.field(default_factory=TypedJson)


@dataclass(frozen=True)
class JsonArguments:
    """Whitespace around the value is none of it.

    `behind`: text behind the value belongs to the arguments ("text"), or ends the body ("leave"; arguments
    that do not begin as JSON does are all text). `empty`: what nothing between the markers stands for.
    `skips`: markup before the value, the last of which is followed by the value whatever it is. `ends`:
    markers that end the body where they are no tokens; in a JSON string they are text.
    """

    behind: Literal["text", "leave"] = "text"
    empty: str = "{}"
    skips: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    state_type = JsonArgumentsState

    markers = frozenset[str]()

    @cached_property
    def _scanner(self) -> Scanner:
        return Scanner((*self.skips, *self.ends))

    def start(self, name: str | None) -> JsonArgumentsState:
        return JsonArgumentsState(name=name, phase=_BEFORE if self.skips else _VALUE)

    def literal(self, state: JsonArgumentsState) -> bool:
        return False

    def feed(self, state: JsonArgumentsState, text: str, types: Mapping[str, Any], said: Said) -> int:
        buffer = state.held + text
        kept = len(state.held)
        state.held = ""
        at = 0
        while at < len(buffer) and not state.done:
            if state.phase == _BEFORE:
                at = self._before(state, buffer, at, said)
            elif self._marks and buffer[at] == STOP and not state.value.value.in_string:
                at = self._stop(state, buffer, at, said)
            elif state.phase == _VALUE:
                at = self._value(state, buffer, at, types, said)
            else:
                end = buffer.find(STOP, at + 1) if self._marks else -1
                end = len(buffer) if end < 0 else end
                self._say_behind(state, buffer[at:end], said)
                at = end
        return at - kept

    def end(self, state: JsonArgumentsState, said: Said, by_marker: bool) -> bool:
        if state.held and state.phase != _BEFORE:
            self._say_behind(state, state.held, said)
        state.held = ""
        json_typed.cut(state.value, said.arguments)
        if by_marker and not state.said:
            said.arguments.append(self.empty)
        return by_marker or state.value.done

    @property
    def _marks(self) -> bool:
        return bool(self.ends or self.skips)

    def _before(self, state: JsonArgumentsState, buffer: str, at: int, said: Said) -> int:
        """Markup and whatever else stands before the value."""
        start, marker = self._scanner.find(buffer, at)
        brace = min(
            (i for i in (buffer.find("{", at, start), buffer.find("[", at, start)) if i >= 0), default=-1
        )
        if brace >= 0:
            said.dropped += solid(buffer[at:brace])
            state.phase = _VALUE
            return brace
        said.dropped += solid(buffer[at:start])
        if marker is None:
            state.held = buffer[start:]
            return len(buffer)
        if marker in self.ends:
            return self._finish(state, marker, start, said)
        if marker == self.skips[-1]:
            state.phase = _VALUE
        return start + len(marker)

    def _value(
        self, state: JsonArgumentsState, buffer: str, at: int, types: Mapping[str, Any], said: Said
    ) -> int:
        if not state.said:
            at += len(buffer) - at - len(buffer[at:].lstrip())
            if at == len(buffer):
                return at
            if buffer[at] == STOP and self._marks:
                return at
            state.said = True
            if self.behind == "leave" and buffer[at] not in '{["':
                state.phase = _BEHIND
                return at
        at = json_typed.feed(state.value, buffer, said.arguments, types, at, self._marks)
        if state.value.done:
            state.phase = _BEHIND
            state.done = self.behind == "leave"
        return at

    def _stop(self, state: JsonArgumentsState, buffer: str, at: int, said: Said) -> int:
        """A character with which a marker may begin."""
        start, marker = self._scanner.find(buffer, at)
        if start > at:
            self._say_behind(state, STOP, said)
            return at + 1
        if marker is None:
            state.held = buffer[at:]
            return len(buffer)
        if marker in self.ends:
            return self._finish(state, marker, at, said)
        self._say_behind(state, marker, said)
        return at + len(marker)

    def _finish(self, state: JsonArgumentsState, marker: str, at: int, said: Said) -> int:
        self.end(state, said, by_marker=True)
        state.done = True
        said.again = marker
        return at + len(marker)

    def _say_behind(self, state: JsonArgumentsState, text: str, said: Said) -> None:
        """Text that is no JSON, without the whitespace at its end."""
        text = state.blank + text
        solid_end = len(text.rstrip())
        if solid_end:
            said.arguments.append(text[:solid_end])
            state.said = True
        state.blank = text[solid_end:][:_LONGEST_BLANK]
