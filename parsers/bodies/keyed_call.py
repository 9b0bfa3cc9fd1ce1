"""`{"NAME": {...}}`: a call whose arguments are keyed by the function's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from parsers.bodies import BodyState, Said, json_text
from parsers.bodies.json_text import JsonText

_LONGEST_NAME = 1024

_OPEN, _KEY, _COLON, _VALUE, _SKIP = range(5)


class KeyedCallState(BodyState, array_like=True):
    """`key`: the JSON text of the name that is being read."""

    phase: int = _OPEN
    key: str = ""
    value: JsonText = msgspec.field(default_factory=JsonText)
    depth: int = 0


@dataclass(frozen=True)
class KeyedCall:
    """An object with one key; what else it holds is dropped."""

    state_type = KeyedCallState

    markers = frozenset[str]()

    def start(self, name: str | None) -> KeyedCallState:
        return KeyedCallState()

    def literal(self, state: KeyedCallState) -> bool:
        return state.value.in_string

    def feed(self, state: KeyedCallState, text: str, types: Mapping[str, Any], said: Said) -> int:
        at = 0
        while at < len(text) and not state.done and not said.failed:
            phase = state.phase
            if phase in (_KEY, _VALUE):
                at = self._read(state, text, at, said)
                continue
            char = text[at]
            if phase == _SKIP:
                at = self._skip(state, text, at, said)
            elif char.isspace():
                at += 1
            elif phase == _OPEN and char == "{":
                state.phase = _KEY
                at += 1
            elif phase == _COLON and char == ":":
                state.name = str(json.loads(state.key))
                state.key = ""
                state.phase, state.value = _VALUE, JsonText()
                at += 1
            else:
                said.failed = True
        return at

    def end(self, state: KeyedCallState, said: Said, by_marker: bool) -> bool:
        if state.name is None:
            said.failed = True
        elif state.phase == _VALUE:
            json_text.cut(state.value, said.arguments)
        return state.phase == _SKIP

    def _read(self, state: KeyedCallState, text: str, at: int, said: Said) -> int:
        if state.phase == _KEY and not state.key:
            if text[at].isspace():
                return at + 1
            if text[at] != '"':
                said.failed = True
                return at
        out: list[str] = []
        at = json_text.feed(state.value, text, out, at)
        if state.phase == _VALUE:
            said.arguments.extend(out)
        else:
            state.key += "".join(out)
            said.failed = len(state.key) > _LONGEST_NAME or (state.value.done and not _is_name(state.key))
        if state.value.done:
            state.phase = _COLON if state.phase == _KEY else _SKIP
            state.value = JsonText()
        return at

    def _skip(self, state: KeyedCallState, text: str, at: int, said: Said) -> int:
        """Over what else the object holds, to its end."""
        char = text[at]
        state.done = char in "}]" and state.depth == 0 and not state.value.in_string
        said.dropped += not char.isspace() and not state.done
        if state.value.in_string or char == '"':
            if state.value.pending:
                state.value.pending = ""
            elif char == "\\":
                state.value.pending = char
            elif char == '"':
                state.value.in_string = not state.value.in_string
        elif char in "{[":
            state.depth += 1
        elif char in "}]":
            state.depth -= 1
        return at + 1


def _is_name(key: str) -> bool:
    try:
        return bool(json.loads(key).strip())
    except ValueError:
        return False
