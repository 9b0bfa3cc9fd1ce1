"""`<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>` lists: GLM and relatives.

Values are typed by the tool's schema, or by a tag of their own between key and value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from parsers.bodies import Said, solid
from parsers.bodies.values import Values, ValuesState
from parsers.scan import Scanner

_BETWEEN, _KEY, _KEYED, _KIND, _VALUE = range(5)
_LONGEST_WORD = 1024  # characters; what is longer is no key, and no type


class KeyValuesState(ValuesState, array_like=True):
    """`held`: a piece of a tag, or the key or type that is being read. `key`, `kind`: of the next value."""

    phase: int = _BETWEEN
    held: str = ""
    key: str = ""
    kind: str = ""


@dataclass(frozen=True)
class KeyValues:
    """Pairs of a key and a value, until `done`.

    `key`, `value`: their tags. `kind`: tags around the name of the value's type, where the format has them:
    "string" makes it one whatever the schema says. `stops`: further texts that end a value whose closing tag
    is missing, and are read again. `opaque`: marker tokens inside a value are text. `untyped`: the node of a
    parameter of which the schema says nothing.
    """

    key: tuple[str, str]
    value: tuple[str, str]
    done: str
    kind: tuple[str, str] = ("", "")
    stops: tuple[str, ...] = ()
    opaque: bool = False
    untyped: str = "s"
    values: Values = field(default_factory=Values)

    state_type = KeyValuesState
    markers = frozenset[str]()

    @cached_property
    def _scanners(self) -> Mapping[int, Scanner]:
        following = (self.value[0], self.done)
        kind = self.kind[:1] if self.kind[0] else ()
        return {
            _BETWEEN: Scanner((self.key[0], self.done)),
            _KEY: Scanner((self.key[1], *following)),
            _KEYED: Scanner((self.key[0], *kind, *following)),
            _KIND: Scanner((self.kind[1] or self.value[0], *following)),
            _VALUE: Scanner((self.value[1], *self.stops)),
        }

    def start(self, name: str | None) -> KeyValuesState:
        return KeyValuesState(name=name)

    def literal(self, state: KeyValuesState) -> bool:
        return self.opaque and state.phase == _VALUE

    def feed(self, state: KeyValuesState, text: str, types: Mapping[str, Any], said: Said) -> int:
        self.values.enter(state, said)
        buffer = state.held + text
        state.held = ""
        at = 0
        while not state.done:
            phase = state.phase
            start, tag = self._scanners[phase].find(buffer, at)
            if phase in (_KEY, _KIND):
                if start - at > _LONGEST_WORD:  # neither; it is skipped
                    said.dropped += solid(buffer[at : at + _LONGEST_WORD])
                    state.phase = _BETWEEN
                    at += _LONGEST_WORD
                    continue
            elif phase == _VALUE:
                self.values.write(state, buffer[at:start], said)
            else:
                said.dropped += solid(buffer[at:start])
            if tag is None:
                state.held = buffer[at if phase in (_KEY, _KIND) else start :]
                return len(text)
            at = self._tag(state, tag, buffer[at:start], start, types, said)
        return at - (len(buffer) - len(text))

    def end(self, state: KeyValuesState, said: Said, by_marker: bool) -> bool:
        if state.phase == _VALUE:
            self.values.write(state, state.held, said)
            if by_marker:
                self.values.finish(state, said)
            else:
                self.values.cut(state, said)
                return False
        else:
            said.dropped += solid(state.held + (state.key + state.kind) * (state.phase != _BETWEEN))
        if by_marker:
            self.values.close(state, said)
        return by_marker

    def _tag(
        self, state: KeyValuesState, tag: str, word: str, start: int, types: Mapping[str, Any], said: Said
    ) -> int:
        """A tag was read, `word` before it; return where to read on."""
        phase = state.phase
        if phase == _VALUE:
            self.values.finish(state, said)
            state.phase, state.key, state.kind = _BETWEEN, "", ""
            return start + len(tag) if tag == self.value[1] else start
        if phase == _KEY:
            state.key, state.kind = word.strip(), ""
            state.phase = _KEYED
            return start + len(tag) if tag == self.key[1] else start
        if phase == _KIND:
            state.kind = word.strip()
            state.phase = _KEYED
            return start + len(tag) if tag == self.kind[1] else start
        if phase == _KEYED and tag in (self.done, self.key[0]):
            said.dropped += solid(state.key + state.kind)
            state.key, state.kind = "", ""
        if tag == self.done:
            self.values.close(state, said)
            state.done = True
        elif tag == self.value[0]:
            text = state.kind == "string"
            self.values.begin(state, state.key, types.get(state.key, self.untyped), said, text)
            state.phase = _VALUE
        else:
            state.phase = _KEY if tag == self.key[0] else _KIND
        return start + len(tag)
