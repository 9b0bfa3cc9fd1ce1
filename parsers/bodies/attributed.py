"""Arguments in tags that carry key and type as attributes: Kimi K3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from parsers.bodies import Said, solid
from parsers.bodies.values import Values, ValuesState
from parsers.scan import Scanner

_BETWEEN, _ATTRIBUTES, _VALUE = range(3)
_LONGEST_HEAD = 2048  # characters of attributes
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


class AttributedState(ValuesState, array_like=True):
    """`held`: a piece of a tag, or the attributes that are being read."""

    phase: int = _BETWEEN
    held: str = ""


def attributes(text: str) -> dict[str, str]:
    """The attributes in a tag, unescaped."""
    return {
        key: value.replace("&quot;", '"').replace("&amp;", "&") for key, value in _ATTRIBUTE.findall(text)
    }


@dataclass(frozen=True)
class Attributed:
    """Values between `opening` ATTRIBUTES `head_end` and `closing`, until `done`.

    The attribute `key` names the argument. One whose `type` is "string", or that has none, is text; any other
    is JSON, and text if it is not.
    """

    opening: str
    head_end: str
    closing: str
    done: str
    values: Values = field(default_factory=Values)

    state_type = AttributedState
    markers = frozenset[str]()

    @cached_property
    def _scanners(self) -> Mapping[int, Scanner]:
        return {
            _BETWEEN: Scanner((self.opening, self.done)),
            _ATTRIBUTES: Scanner((self.head_end,)),
            _VALUE: Scanner((self.closing, self.done)),
        }

    def start(self, name: str | None) -> AttributedState:
        return AttributedState(name=name)

    def literal(self, state: AttributedState) -> bool:
        return True

    def feed(self, state: AttributedState, text: str, types: Mapping[str, Any], said: Said) -> int:
        buffer = state.held + text
        state.held = ""
        at = 0
        while not state.done:
            phase = state.phase
            start, tag = self._scanners[phase].find(buffer, at)
            if phase == _VALUE:
                self.values.write(state, buffer[at:start], said)
            elif phase == _BETWEEN:
                said.dropped += solid(buffer[at:start])
            elif start - at > _LONGEST_HEAD:  # no tag
                said.dropped += solid(buffer[at : at + _LONGEST_HEAD])
                state.phase = _BETWEEN
                at += _LONGEST_HEAD
                continue
            if tag is None:
                state.held = buffer[at if phase == _ATTRIBUTES else start :]
                return len(text)
            self._tag(state, tag, buffer[at:start], said)
            at = start + len(tag)
        return at - (len(buffer) - len(text))

    def end(self, state: AttributedState, said: Said, by_marker: bool) -> bool:
        if state.phase == _VALUE:
            self.values.write(state, state.held, said)
            self.values.cut(state, said)
        else:
            said.dropped += solid(state.held)
        return False

    def _tag(self, state: AttributedState, tag: str, before: str, said: Said) -> None:
        if state.phase == _ATTRIBUTES:
            found = attributes(before)
            text = found.get("type", "string") == "string"
            self.values.begin(state, found.get("key", ""), "s" if text else "", said)
            state.phase = _VALUE
            return
        if state.phase == _VALUE:
            self.values.finish(state, said)
        state.phase = _ATTRIBUTES if tag == self.opening else _BETWEEN
        if tag == self.done:
            self.values.close(state, said)
            state.done = True
