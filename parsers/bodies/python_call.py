"""`name(key='value', other=[1, 2])`: a Python call with keyword arguments, alone or one of a list."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from parsers.bodies import BodyState, Said, python_text
from parsers.bodies.python_state import QUOTE, RAW, STRING, VALUE, PythonText

_LONGEST_WORD = 256
_NAME_END = re.compile(r"[^\w.]")
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_LITERAL_BEGINS = "\"'([{-0123456789"
_KEY_END = re.compile(r"\W")

_OPEN, _NAMING, _NAMED, _FIRST, _KEY, _KEY_GAP, _VALUE, _NEXT = range(8)


class PythonCallState(BodyState, array_like=True):
    """`word`: the opener, name or key that is being read; `found`: the name."""

    phase: int = _OPEN
    word: str = ""
    found: str = ""
    value: PythonText = msgspec.field(default_factory=PythonText)
    count: int = 0


@dataclass(frozen=True)
class PythonCall:
    """One call, certain with the first character of its first argument or the end of empty parentheses.

    `opening`: a word before the name, without which there is no call. `closers`: where no call follows, the
    words that end the list, left to the next region. A call is none if its name is no name or its first
    argument is no keyword with a literal; with `positional` it may be a literal alone, which is dropped.
    What is wrong behind that is dropped.
    """

    opening: str = ""
    closers: tuple[str, ...] = ()
    positional: bool = False

    state_type = PythonCallState

    markers = frozenset[str]()

    def start(self, name: str | None) -> PythonCallState:
        return PythonCallState()

    def literal(self, state: PythonCallState) -> bool:
        value = state.value
        return state.phase == _VALUE and (value.mode == STRING or (value.mode == QUOTE and not value.pending))

    def feed(self, state: PythonCallState, text: str, types: Mapping[str, Any], said: Said) -> int:
        at, size = 0, len(text)
        while at < size and not state.done and not said.failed:
            phase = state.phase
            if phase == _VALUE:
                at = self._value(state, text, at, said)
            elif phase == _NAMING:
                at = self._naming(state, text, at, said)
            elif phase == _KEY:
                at = self._key(state, text, at, said)
            elif text[at].isspace() and not (phase == _NAMED and text[at] == "\n"):
                at += 1
            elif phase == _OPEN:
                at = self._open(state, text, at, said)
            else:
                at = self._punctuation(state, text, at, said)
        return at

    def end(self, state: PythonCallState, said: Said, by_marker: bool) -> bool:
        if state.name is None:
            said.failed = True
            return False
        if state.phase == _VALUE and state.word:
            said.unfinished += len(state.value.pending)
        elif state.phase == _VALUE:
            said.unfinished += python_text.cut(state.value, said.arguments)
        said.unfinished += len(state.word)
        return False

    def _open(self, state: PythonCallState, text: str, at: int, said: Said) -> int:
        """Before the name: an opener, or the end of the list."""
        words = self.closers if not self.opening else (self.opening,)
        held = state.word + text[at]
        if held in words:
            state.word = ""
            if self.opening:
                state.phase = _NAMING
            else:
                state.done = True
                said.again = held
            return at + 1
        if any(word.startswith(held) for word in words):
            state.word = held
            return at + 1
        if self.opening or state.word:
            said.failed = True
        else:
            state.phase = _NAMING
        return at

    def _naming(self, state: PythonCallState, text: str, at: int, said: Said) -> int:
        if not state.word and text[at].isspace():
            return at + 1
        end = _NAME_END.search(text, at)
        room = _LONGEST_WORD + 1 - len(state.word)
        stop = min(end.start() if end else len(text), at + room)
        if not state.word and _NAME.match(text, at) is None:  # nothing of it is read, whatever the chunks
            said.failed = True
            return at
        state.word += text[at:stop]
        if len(state.word) > _LONGEST_WORD:
            said.failed = True
        elif end is None:
            pass
        elif _NAME.fullmatch(state.word):
            state.found, state.word, state.phase = state.word, "", _NAMED
        else:
            said.failed = True
        return stop

    def _punctuation(self, state: PythonCallState, text: str, at: int, said: Said) -> int:
        """Between the parts: a parenthesis, a comma, the beginning of a key, an equals sign."""
        char, phase = text[at], state.phase
        if phase == _NAMED:
            said.failed = char != "("
            state.phase = _FIRST
            return at + (char == "(")
        if phase == _KEY_GAP and char == "=":
            state.phase, state.value = _VALUE, PythonText()
            return at + 1
        if phase in (_FIRST, _NEXT):
            if char == ")":
                if state.name is None:
                    state.name = state.found
                said.arguments.append("}" if state.count else "{}")
                state.done = True
                return at + 1
            if char == "," and state.count:
                return at + 1
            if char == "_" or char.isalpha():
                state.phase = _KEY
                return at
        if state.name is None and self.positional and phase == _FIRST and char in _LITERAL_BEGINS:
            state.name = state.found
        if state.name is None:
            said.failed = True
            return at
        said.dropped += len(state.word)
        state.word = ""
        state.phase, state.value = _VALUE, PythonText()
        python_text.skip(state.value)
        return at

    def _key(self, state: PythonCallState, text: str, at: int, said: Said) -> int:
        end = _KEY_END.search(text, at)
        stop = end.start() if end else len(text)
        if len(state.word) <= _LONGEST_WORD:
            state.word += text[at:stop]
        if len(state.word) > _LONGEST_WORD and state.name is None:
            said.failed = True
        elif end is not None:
            state.phase = _KEY_GAP
        return stop

    def _value(self, state: PythonCallState, text: str, at: int, said: Said) -> int:
        value, out = state.value, list[str]()
        dropped = value.dropped
        at = python_text.feed(value, text, out, at)
        said.dropped += value.dropped - dropped
        if state.name is None and not value.certain:
            said.failed = value.done or value.mode == RAW
            return at
        if state.word and not (value.certain or value.done or value.mode == RAW):
            return at
        state.name = state.found
        if state.word:
            key = json.dumps(state.word, ensure_ascii=False)
            said.arguments.append(f"{', ' if state.count else '{'}{key}: ")
            state.word = ""
            state.count += 1
            if value.done and value.mode == VALUE:
                out.append("null")
        said.arguments.extend(out)
        if value.done:
            state.phase, state.value = _NEXT, PythonText()
            self.feed(state, value.pending, {}, said)
        return at
