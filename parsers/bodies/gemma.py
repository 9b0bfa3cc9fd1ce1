"""`{key:<|"|>text<|"|>,other:3,list:[1,2]}`: Gemma 4 and FunctionGemma.

Strings stand between quotes of the format's own; numbers and words stand bare, and the tool's schema says
what they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from parsers import schema
from parsers.bodies import Said, solid
from parsers.bodies.values import Values, ValuesState
from parsers.events import Marker
from parsers.scan import Scanner

_OPEN, _MEMBER, _KEY, _VALUE, _QUOTED, _BARE, _AFTER = range(7)
_LONGEST_KEY = 1024  # characters; what is longer is no key
_DEEPEST = 128  # brackets; what is deeper is taken as text
_CLOSERS = {"{": "}", "[": "]", "(": ")"}


class GemmaState(ValuesState, array_like=True):
    """`brackets`: those that are open. `nodes`: what the schema says of each but the first. `begun`: the
    innermost has a member. `held`: a piece of a quote, or the key that is being read. `member`: the key of
    the next value. `tokens`: quotes are tokens, and the same characters in text are none.
    """

    phase: int = _OPEN
    brackets: str = ""
    nodes: list[Any] = msgspec.field(default_factory=list)
    begun: bool = False
    held: str = ""
    member: str = ""
    tokens: bool = False


@dataclass(frozen=True)
class GemmaArguments:
    """Members in brackets, until the closing bracket or, unread, `done`; the brackets may be missing.

    `quote`: the mark around strings. `json`: what stands in quotes is JSON if it can be, else text, whatever
    the schema says.

    Where no schema says more, bare values inside an object are JSON if they can be; inside a list they are
    text, and so are those of parameters without a type.
    """

    quote: str
    done: str
    json: bool = False

    state_type = GemmaState

    _quoted = Values()
    _bare = Values(trim="blank")

    @property
    def markers(self) -> frozenset[str]:
        return frozenset({self.quote})

    @cached_property
    def _key_ends(self) -> Scanner:
        return Scanner((":", ",", "}", "]", ")", self.done))

    @cached_property
    def _quote_end(self) -> Scanner:
        return Scanner((self.quote,))

    @cached_property
    def _bare_ends(self) -> Mapping[str, Scanner]:
        """Where a bare value ends, by the outermost bracket."""
        return {bracket: Scanner((",", "]", "}", _CLOSERS[bracket], self.done)) for bracket in "{("}

    def start(self, name: str | None) -> GemmaState:
        return GemmaState(name=name)

    def literal(self, state: GemmaState) -> bool:
        return False

    def feed(self, state: GemmaState, text: str, types: Mapping[str, Any], said: Said) -> int:
        if isinstance(text, Marker) and text == self.quote:
            state.tokens = True
        elif state.tokens and state.phase == _QUOTED:
            self._quoted.write(state, str(text), said)
            return len(text)
        buffer = state.held + text
        state.held = ""
        at = 0
        while at < len(buffer) and not state.done:
            if state.phase == _KEY:
                read = self._key
            elif state.phase in (_QUOTED, _BARE):
                read = self._text
            else:
                read = self._structure
            at, whole = read(state, buffer, at, types, said)
            if not whole:
                state.held = buffer[at:]
                return len(text)
        return at - (len(buffer) - len(text))

    def end(self, state: GemmaState, said: Said, by_marker: bool) -> bool:
        values = self._quoted if state.phase == _QUOTED else self._bare
        if state.phase not in (_QUOTED, _BARE):
            said.dropped += solid(state.held)
        else:
            values.write(state, state.held, said)
            if not by_marker:
                values.cut(state, said)
                return False
            values.finish(state, said)
            state.begun = True
        if by_marker:
            self._close(state, 0, said)
        return by_marker

    def _structure(
        self, state: GemmaState, buffer: str, at: int, types: Mapping[str, Any], said: Said
    ) -> tuple[int, bool]:
        """Read one character, or a mark, that stands between values; return where to read on."""
        char = buffer[at]
        mark = next((mark for mark in (self.quote, self.done) if mark.startswith(char)), None)
        if mark is not None and len(buffer) - at < len(mark) and mark.startswith(buffer[at:]):
            return at, False
        if buffer.startswith(self.done, at):
            self._close(state, 0, said)
            said.again = self.done
            return at + len(self.done), True
        if char.isspace():
            pass
        elif state.phase == _OPEN:
            if char in "{(":
                state.brackets, state.phase = char, _MEMBER
            else:
                said.dropped += 1
        elif char in "]})":
            self._shut(state, char, said)
        elif char == "," and state.phase != _VALUE:
            state.phase = _MEMBER
        elif state.phase == _AFTER and state.brackets[-1] == "[":
            said.dropped += 1
        elif state.phase in (_MEMBER, _AFTER) and state.brackets[-1] != "[":
            state.phase = _KEY
            return at, True
        elif buffer.startswith(self.quote, at):
            node = self._node(state, types)
            text = not self.json and schema.letters(node) in ("", "s")
            self._quoted.open(state, self._before(state), "" if self.json else node, said, text)
            state.phase = _QUOTED
            return at + len(self.quote), True
        elif char in "{[" and len(state.brackets) < _DEEPEST:
            said.arguments.append(self._before(state) + char)
            state.nodes.append(self._node(state, types))
            state.brackets += char
            state.phase, state.begun = _MEMBER, False
        else:
            self._bare.open(state, self._before(state), self._node(state, types), said)
            state.phase = _BARE
            return at, True
        return at + 1, True

    def _key(
        self, state: GemmaState, buffer: str, at: int, types: Mapping[str, Any], said: Said
    ) -> tuple[int, bool]:
        start, mark = self._key_ends.find(buffer, at)
        if start - at > _LONGEST_KEY:
            said.dropped += solid(buffer[at : at + _LONGEST_KEY])
            state.phase = _AFTER
            return at + _LONGEST_KEY, True
        if mark is None:
            return at, False
        if mark != ":":  # a key without a value is none
            said.dropped += solid(buffer[at:start])
            state.phase = _AFTER
            return start, True
        state.member = buffer[at:start].replace(self.quote, "").strip()
        state.phase = _VALUE
        return start + 1, True

    def _text(
        self, state: GemmaState, buffer: str, at: int, types: Mapping[str, Any], said: Said
    ) -> tuple[int, bool]:
        quoted = state.phase == _QUOTED
        values = self._quoted if quoted else self._bare
        ends = self._quote_end if quoted else self._bare_ends[state.brackets[0]]
        start, mark = ends.find(buffer, at)
        values.write(state, buffer[at:start], said)
        if mark is None:
            return start, False
        values.finish(state, said)
        state.phase, state.begun = _AFTER, True
        return start + len(mark) if quoted else start, True

    def _before(self, state: GemmaState) -> str:
        """What is said before a value."""
        first = "{" if len(state.brackets) == 1 else ""
        separator = ", " if state.begun else first
        key = "" if state.brackets[-1] == "[" else json.dumps(state.member, ensure_ascii=False) + ": "
        return separator + key

    def _node(self, state: GemmaState, types: Mapping[str, Any]) -> schema.Node:
        """What the schema says of the next value."""
        if len(state.brackets) == 1:
            node: schema.Node = types.get(state.member, "s")
            return node
        around = state.nodes[-1]
        if isinstance(around, str):
            return "s" if around == "s" or state.brackets[-1] == "[" else ""
        found: schema.Node = around[2] if state.brackets[-1] == "[" else around[1].get(state.member, "")
        return found or ("s" if state.brackets[-1] == "[" else "")

    def _shut(self, state: GemmaState, closer: str, said: Said) -> None:
        """A closing bracket closes what was forgotten inside it."""
        if state.phase == _VALUE:  # nothing behind the colon
            said.arguments.append(self._before(state) + '""')
            state.begun = True
        for depth in range(len(state.brackets) - 1, -1, -1):
            if _CLOSERS[state.brackets[depth]] == closer:
                self._close(state, depth, said)
                return
        said.dropped += 1

    def _close(self, state: GemmaState, depth: int, said: Said) -> None:
        """Close all brackets but the first `depth`."""
        if state.phase == _VALUE:
            said.dropped += solid(state.member)
        if not state.brackets:
            said.arguments.append("{}")
        while len(state.brackets) > depth:
            bracket, state.brackets = state.brackets[-1], state.brackets[:-1]
            if state.nodes:
                state.nodes.pop()
            empty = "" if state.begun or state.brackets else "{"
            said.arguments.append(empty + ("]" if bracket == "[" else "}"))
            state.begun, state.phase = True, _AFTER
        state.done = not state.brackets
