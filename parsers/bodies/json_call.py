"""`{"name": ..., "arguments": {...}}`: Hermes, Qwen, Llama and relatives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from parsers.bodies import BodyState, Said, json_raw, json_text
from parsers.bodies.json_text import JsonText

_USUAL = ("type", "id")  # keys that calls have beside their name and arguments
_LONGEST_KEY = 256  # of a certain call; longer ones are none that mean anything

_OPEN, _KEY, _COLON, _VALUE, _NAME, _ARGUMENTS, _SKIP, _NEXT, _TEXT = range(9)
_VALUES = (_KEY, _NAME, _ARGUMENTS, _SKIP, _TEXT)


class JsonCallState(BodyState, array_like=True):
    """Where in the object we are.

    `early`: arguments that came before the name. `skipped`: characters of other keys and their values, while
    the call is not certain yet.
    """

    phase: int = _OPEN
    key: str = ""
    value: JsonText = msgspec.field(default_factory=JsonText)
    found: str | None = None  # the name, while the call is not certain yet
    started: bool = False  # arguments have begun
    early: str = ""
    begun: bool = False  # the first key was read
    skipped: int = 0


@dataclass(frozen=True)
class JsonCall:
    """An object with the function's name and its arguments, in any order, other keys ignored.

    `arguments`: keys that may hold them. `certain_by_name`: an object with a name is a call even without
    arguments (then they are `{}`); otherwise an object without arguments is an answer in JSON, no call.
    `first`: keys with which a call begins, where any other first key says that the object is an answer.
    `name_key`: the key of the function's name. `verbatim`: arguments are passed on as they came, not in
    `json.dumps` form. `decoded`: arguments that are a string are JSON written into a string, and its text is
    passed on.
    """

    arguments: tuple[str, ...]
    certain_by_name: bool
    first: tuple[str, ...] = ()
    name_key: str = "name"
    verbatim: bool = False
    decoded: bool = False

    state_type = JsonCallState

    markers = frozenset[str]()

    def start(self, name: str | None) -> JsonCallState:
        return JsonCallState()

    def literal(self, state: JsonCallState) -> bool:
        return state.phase in _VALUES and state.value.in_string

    def feed(self, state: JsonCallState, text: str, types: Mapping[str, str], said: Said) -> int:
        at = 0
        size = len(text)
        while at < size and not state.done and not said.failed:
            phase = state.phase
            if phase in _VALUES:
                at = self._value(state, text, at, said)
                continue
            char = text[at]
            if char.isspace():
                pass
            elif phase == _OPEN:
                said.failed = char != "{"
                state.phase = _NEXT
            elif phase == _NEXT:  # before a key, or after a value
                if char == '"':
                    self._begin(state, _KEY)
                    continue
                if char == "}":
                    at += 1
                    self._end(state, said)
                    break
                if char != ",":
                    self._stray(state, said)
            elif phase == _COLON:
                if char == ":":
                    state.phase = _VALUE
                else:
                    self._stray(state, said)
            else:
                said.failed = not self._begin_value(state, char, said)
                continue
            at += 1
        return at

    def end(self, state: JsonCallState, said: Said, by_marker: bool) -> bool:
        if state.name is None:
            said.failed = True
            return False
        if state.phase in (_ARGUMENTS, _TEXT):
            json_text.cut(state.value, said.arguments)
            return False
        if state.phase in (_KEY, _COLON, _VALUE):
            said.unfinished += len(state.key)
        if not state.started and by_marker:
            said.arguments.append("{}")
            state.started = True
        return state.started

    def _begin(self, state: JsonCallState, phase: int) -> None:
        state.phase = phase
        state.value = JsonText()
        if phase in (_KEY, _NAME):
            state.key = ""

    def _begin_value(self, state: JsonCallState, char: str, said: Said) -> bool:
        if state.key == self.name_key and state.found is None:
            self._begin(state, _NAME)
            return char == '"'
        if state.key in self.arguments and not state.started:
            state.started = True
            self._announce(state, said)
            self._begin(state, _TEXT if self.decoded and char == '"' else _ARGUMENTS)
        else:
            self._begin(state, _SKIP)
            if state.key not in _USUAL:
                self._skip(state, said, len(state.key))
        return True

    def _value(self, state: JsonCallState, text: str, at: int, said: Said) -> int:
        out: list[str] = []
        before = at
        opening = state.phase == _TEXT and not state.value.in_string
        if self.verbatim and state.phase == _ARGUMENTS:
            at = json_raw.feed(state.value, text, out, at)
        else:
            at = json_text.feed(state.value, text, out, at)
        if state.phase == _TEXT:  # without its quotes
            out = [json_text.unescape(piece) for piece in out[opening : len(out) - state.value.done]]
        if state.phase in (_KEY, _NAME):
            if len(state.key) < _LONGEST_KEY or state.name is None:  # else bounded by the machine
                state.key += "".join(out)
            else:
                said.dropped += at - before
        elif state.phase == _SKIP and state.key not in _USUAL:
            self._skip(state, said, at - before)
        elif state.phase in (_ARGUMENTS, _TEXT):
            if state.name is None:
                state.early += "".join(out)
            else:
                said.arguments.extend(out)
        if state.value.done:
            if state.phase == _KEY:
                state.key = _text(state.key)
                state.phase = _COLON
                said.failed = bool(self.first) and not state.begun and state.key not in self.first
                state.begun = True
            else:
                if state.phase == _NAME:
                    state.found = _text(state.key)
                    said.failed = not state.found
                    self._announce(state, said)
                state.phase = _NEXT
        return at

    def _announce(self, state: JsonCallState, said: Said) -> None:
        if state.name is None and state.found and (state.started or self.certain_by_name):
            state.name = state.found
            if state.early:
                said.arguments.append(state.early)
                state.early = ""
            said.dropped += state.skipped
            state.skipped = 0

    def _end(self, state: JsonCallState, said: Said) -> None:
        if not state.found or not (state.started or self.certain_by_name):
            said.failed = True
            return
        self._announce(state, said)
        if not state.started:
            said.arguments.append("{}")
        state.done = True

    def _skip(self, state: JsonCallState, said: Said, characters: int) -> None:
        if state.name is None:
            state.skipped += characters
        else:
            said.dropped += characters

    def _stray(self, state: JsonCallState, said: Said) -> None:
        if state.name is None:
            said.failed = True
        else:
            said.dropped += 1


def _text(literal: str) -> str:
    try:
        value: Any = json.loads(literal)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
