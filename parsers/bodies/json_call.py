"""`{"name": ..., "arguments": {...}}`: Hermes, Qwen, Llama and relatives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from parsers.bodies import BodyState, Said, json_text, json_typed
from parsers.bodies.json_text import JsonText
from parsers.bodies.json_typed import TypedJson

_USUAL = ("type", "id")  # keys that calls have beside their name and arguments
_LONGEST_KEY = 256  # of a certain call; longer ones are none that mean anything

_OPEN, _KEY, _COLON, _VALUE, _NAME, _ARGUMENTS, _SKIP, _NEXT, _TEXT, _TYPED, _ID = range(11)
_VALUES = (_KEY, _NAME, _ARGUMENTS, _SKIP, _TEXT, _TYPED, _ID)


class JsonCallState(BodyState, array_like=True):
    """Where in the object we are.

    `early`: arguments that came before the name. `skipped`: characters of other keys and their values, while
    the call is not certain yet. `typed`: arguments that are passed on as they come. `id`: the call's own.
    """

    phase: int = _OPEN
    key: str = ""
    value: JsonText = msgspec.field(default_factory=JsonText)
    found: str | None = None  # the name, while the call is not certain yet
    started: bool = False  # arguments have begun
    early: str = ""
    begun: bool = False  # the first key was read
    skipped: int = 0
    typed: TypedJson = msgspec.field(default_factory=TypedJson)
    id: str | None = None


@dataclass(frozen=True)
class JsonCall:
    """An object with the function's name and its arguments, in any order, other keys ignored.

    `arguments`: keys that may hold them. `certain_by_name`: an object with a name is a call even without
    arguments (then they are `{}`); otherwise an object without arguments is an answer in JSON, no call.
    `first`: keys with which a call begins, where any other first key says that the object is an answer.
    `name_key`, `id_key`: keys of the function's name and of the call's own id. `verbatim`: arguments are
    passed on as they came, typed by the schema (`json_typed`), not in `json.dumps` form. `decoded`: arguments
    that are a string are JSON written into a string, and its text is passed on. `known`: the name of one of
    the request's tools makes a call certain (in a region that has `known_names`). `strict`: any other name is
    none of a call.
    """

    arguments: tuple[str, ...]
    certain_by_name: bool
    first: tuple[str, ...] = ()
    name_key: str = "name"
    id_key: str | None = None
    verbatim: bool = False
    decoded: bool = False
    known: bool = False
    strict: bool = False

    state_type = JsonCallState

    markers = frozenset[str]()

    def start(self, name: str | None) -> JsonCallState:
        return JsonCallState()

    def literal(self, state: JsonCallState) -> bool:
        value = state.typed.value if state.phase == _TYPED else state.value
        return state.phase in _VALUES and value.in_string

    def feed(self, state: JsonCallState, text: str, types: Mapping[str, Any], said: Said) -> int:
        at = 0
        size = len(text)
        name = state.name
        if self.verbatim and name is not None and state.early:
            self._retype(state, types, said)
        while at < size and not state.done and not said.failed:
            if self.verbatim and state.name != name:
                break  # to be fed on with the types of the function
            phase = state.phase
            if phase in _VALUES:
                at = self._value(state, text, at, types, said)
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
        said.arguments.append(state.early)
        state.early = ""
        if state.phase == _TYPED:
            json_typed.cut(state.typed, said.arguments)
            return False
        if state.phase in (_ARGUMENTS, _TEXT):
            json_text.cut(state.value, said.arguments)
            return False
        if state.phase in (_KEY, _COLON, _VALUE):
            said.unfinished += len(state.key)
        if by_marker and state.phase in (_COLON, _VALUE) and state.key in self.arguments:
            return True  # the call is whole, but its arguments are none: they are no JSON
        if not state.started and by_marker:
            said.arguments.append("{}")
            state.started = True
        return state.started

    def _begin(self, state: JsonCallState, phase: int) -> None:
        state.phase = phase
        state.value = JsonText()
        if phase in (_KEY, _NAME, _ID):
            state.key = ""

    def _begin_value(self, state: JsonCallState, char: str, said: Said) -> bool:
        if state.key == self.name_key and state.found is None:
            self._begin(state, _NAME)
            return char == '"'
        if state.key == self.id_key and state.id is None:
            self._begin(state, _ID)
        elif state.key in self.arguments and not state.started:
            state.started = True
            self._announce(state, said)
            as_text = self.decoded and char == '"'
            self._begin(state, _TEXT if as_text else _TYPED if self.verbatim else _ARGUMENTS)
        else:
            self._begin(state, _SKIP)
            if state.key not in _USUAL:
                self._skip(state, said, len(state.key))
        return True

    def _value(self, state: JsonCallState, text: str, at: int, types: Mapping[str, Any], said: Said) -> int:
        out: list[str] = []
        before = at
        opening = state.phase == _TEXT and not state.value.in_string
        if state.phase == _TYPED:
            at = json_typed.feed(state.typed, text, out, types, at)
            state.value.done = state.typed.done
        else:
            at = json_text.feed(state.value, text, out, at)
        if state.phase == _TEXT:  # without its quotes
            out = [json_text.unescape(piece) for piece in out[opening : len(out) - state.value.done]]
        if state.phase in (_KEY, _NAME, _ID):
            if len(state.key) < _LONGEST_KEY or state.name is None:  # else bounded by the machine
                state.key += "".join(out)
            else:
                said.dropped += at - before
        elif state.phase == _SKIP and state.key not in _USUAL:
            self._skip(state, said, at - before)
        elif state.phase in (_ARGUMENTS, _TEXT, _TYPED):
            if state.name is None:
                state.early += "".join(out)
            else:
                said.arguments.extend(out)
        if state.value.done:
            if state.phase == _KEY:
                written, state.key = state.key, _text(state.key)
                if not state.key:  # no string, or a key too long to mean anything
                    self._skip(state, said, len(written))
                state.phase = _COLON
                said.failed = bool(self.first) and not state.begun and state.key not in self.first
                state.begun = True
            else:
                if state.phase == _NAME:
                    state.found = _text(state.key)
                    said.failed = not state.found or (
                        self.strict and bool(types) and state.found not in types
                    )
                    self._announce(state, said, self.known and state.found in types)
                elif state.phase == _ID:
                    state.id = _text(state.key) or None
                state.phase = _NEXT
        return at

    def _announce(self, state: JsonCallState, said: Said, known: bool = False) -> None:
        if state.name is None and state.found and (state.started or self.certain_by_name or known):
            state.name = state.found
            said.id = state.id
            if state.early and not self.verbatim:
                said.arguments.append(state.early)
                state.early = ""
            said.dropped += state.skipped
            state.skipped = 0

    def _retype(self, state: JsonCallState, types: Mapping[str, Any], said: Said) -> None:
        """Pass on arguments that came before the name, now that their types are known."""
        typed = TypedJson()
        if state.typed.done:
            json_typed.feed(typed, state.early, said.arguments, types)
        else:  # a string's text
            said.arguments.append(state.early)
        state.early = ""

    def _end(self, state: JsonCallState, said: Said) -> None:
        if not state.found or not (state.name or state.started or self.certain_by_name):
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
