"""`<parameter=KEY>VALUE</parameter>` lists:

Qwen3-Coder and relatives. Values are typed by the tool's schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from parsers import schema
from parsers.bodies import BodyState, Said
from parsers.scan import Scanner

_BETWEEN, _KEY, _VALUE = range(3)
_LONGEST_KEY = 1024  # characters; what is longer is no key
_LONGEST_TYPED = 1 << 20  # characters of a typed value that are held back at most


class XmlParametersState(BodyState, array_like=True):
    """`held`: text whose meaning is open: a piece of a tag, a key, a typed value."""

    phase: int = _BETWEEN
    held: str = ""
    codes: str = "s"  # type codes of the open value
    fresh: bool = True  # nothing of the open value was read
    count: int = 0


@dataclass(frozen=True)
class XmlParameters:
    """Parameters between `opening`KEY`>` and `closing`, until `done` or, unread, one of `stops`.

    One newline after the opening tag and one before the closing tag belong to the markup. A value of type
    string is passed on as it comes; any other is held until its end decides what it is. A missing `closing`
    is forgiven.
    """

    opening: str
    closing: str
    done: str
    stops: tuple[str, ...] = ()

    state_type = XmlParametersState

    @cached_property
    def _between(self) -> Scanner:
        return Scanner((self.opening, self.done, *self.stops))

    @cached_property
    def _value_ends(self) -> Scanner:
        tags = (self.closing, self.opening, self.done)
        return Scanner(tuple(newline + tag for tag in tags for newline in ("\n", "")))

    markers = frozenset[str]()

    def start(self, name: str | None) -> XmlParametersState:
        return XmlParametersState(name=name)

    def literal(self, state: XmlParametersState) -> bool:
        return state.phase == _VALUE

    def feed(self, state: XmlParametersState, text: str, types: Mapping[str, str], said: Said) -> int:
        buffer = state.held + text
        state.held = ""
        at = 0
        while not state.done:
            if state.phase == _KEY:
                close = buffer.find(">", at, at + _LONGEST_KEY)
                if close < 0:
                    if len(buffer) - at >= _LONGEST_KEY:  # no key
                        state.phase = _BETWEEN
                        continue
                    state.held = buffer[at:]
                    break
                self._begin_value(state, buffer[at:close].strip(), types, said)
                at = close + 1
            else:
                read = self._value if state.phase == _VALUE else self._tags
                at, whole = read(state, buffer, at, said)
                if not whole:
                    break
        return len(text) if not state.done else at - (len(buffer) - len(text))

    def end(self, state: XmlParametersState, said: Said, by_marker: bool) -> bool:
        if state.phase == _VALUE:
            if state.codes == "s":
                said.arguments.append(_escape(self._trim(state, state.held)))
            else:
                said.unfinished += len(state.held)
            return False
        said.arguments.append("}" if state.count else "{}")
        return True

    def _tags(self, state: XmlParametersState, buffer: str, at: int, said: Said) -> tuple[int, bool]:
        start, tag = self._between.find(buffer, at)
        said.dropped += len(buffer[at:start].strip())
        if tag is None:
            state.held = buffer[start:]
            return len(buffer), False
        if tag == self.opening:
            state.phase = _KEY
            return start + len(tag), True
        self.end(state, said, by_marker=True)
        state.done = True
        said.again = tag if tag in self.stops else ""
        return start + len(tag), True

    def _begin_value(self, state: XmlParametersState, key: str, types: Mapping[str, str], said: Said) -> None:
        state.phase = _VALUE
        state.fresh = True
        state.late = ""
        state.codes = types.get(key, "s")
        opening = "{" if state.count == 0 else ", "
        quote = '"' if state.codes == "s" else ""
        said.arguments.append(f"{opening}{json.dumps(key, ensure_ascii=False)}: {quote}")
        state.count += 1

    def _value(self, state: XmlParametersState, buffer: str, at: int, said: Said) -> tuple[int, bool]:
        start, tag = self._value_ends.find(buffer, at)
        if tag is None and state.codes != "s":
            if len(buffer) - at < _LONGEST_TYPED:
                state.held = buffer[at:]
                return len(buffer), False
            state.codes = "s"  # too long to wait for its end: a string after all
            said.arguments.append('"')
        if state.codes == "s":
            text = self._trim(state, buffer[at:start])
            if text:
                said.arguments.append(_escape(text))
        if tag is None:
            state.held = buffer[start:]
            return len(buffer), False
        if state.codes == "s":
            state.late = '"'
        else:
            state.late = schema.coerce(self._trim(state, buffer[at:start]), state.codes)
        said.arguments.append(state.late)
        state.phase = _BETWEEN
        if tag.lstrip("\n") == self.closing:
            return start + len(tag), True
        return start + len(tag) - len(tag.lstrip("\n")), True

    def _trim(self, state: XmlParametersState, text: str) -> str:
        if state.fresh and text:
            state.fresh = False
            return text.removeprefix("\n")
        return text


_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def _escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1] if _ESCAPED.search(text) else text
