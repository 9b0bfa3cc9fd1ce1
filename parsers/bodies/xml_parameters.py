"""Parameters as tags: `<parameter=KEY>VALUE</parameter>`, `<parameter name="KEY">VALUE</parameter>` and
relatives. Qwen3-Coder, MiniMax, DeepSeek's DSML and others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from parsers import schema
from parsers.bodies import Said, solid
from parsers.bodies.values import Values, ValuesState
from parsers.scan import Scanner
from parsers.schema import Node, letters

_LINES = Values("newline")  # a value stands on lines of its own

_BETWEEN, _KEY, _VALUE, _VERBATIM = range(4)
_LONGEST_KEY = 1024  # characters; what is longer is no key
_TAG_END = re.compile(r"""(?:=\s*"[^"]*"|=\s*'[^']*'|=(?!\s*["'])|[^>=])*>""")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_VERBATIM_BEGIN, _VERBATIM_END = "<![CDATA[", Scanner(("]]>",))
_ATTRIBUTE = re.compile(r"""([\w:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")


class XmlParametersState(ValuesState, array_like=True):
    """`held`: text whose meaning is open, a piece of a tag or a key. `wrapped`: the value may be all the
    arguments; the tag behind it says so.
    """

    phase: int = _BETWEEN
    held: str = ""
    wrapped: bool = False


@dataclass(frozen=True)
class XmlParameters:
    """Parameters between `opening`KEY`>` and `closing`, until one of `done` or, unread, one of `stops`.

    `opening` ends in the `=` before the key, which is in quotes or none. `is_text`: an attribute behind the
    key whose "true" says that the value is a string, if the schema says no other. A missing `closing` is
    forgiven. `escapes`: values have the entities and the CDATA sections of XML. `wrappers`: keys of an object
    that holds all the arguments, where the function has no such parameter. `values`: how they are written.
    """

    opening: str
    closing: str
    done: tuple[str, ...]
    stops: tuple[str, ...] = ()
    is_text: str = ""
    escapes: bool = False
    wrappers: tuple[str, ...] = ()
    values: Values = _LINES

    state_type = XmlParametersState

    markers = frozenset[str]()

    @cached_property
    def _between(self) -> Scanner:
        return Scanner((self.opening, *self.done, *self.stops))

    @cached_property
    def _value_ends(self) -> Scanner:
        escapes = (*_ENTITIES, _VERBATIM_BEGIN) if self.escapes else ()
        return Scanner((self.closing, self.opening, *self.done, *escapes))

    def start(self, name: str | None) -> XmlParametersState:
        return XmlParametersState(name=name)

    def literal(self, state: XmlParametersState) -> bool:
        return state.phase in (_VALUE, _VERBATIM)

    def feed(self, state: XmlParametersState, text: str, types: Mapping[str, Node], said: Said) -> int:
        buffer = state.held + text
        read = len(state.held)  # an open key among it had no end there
        state.held = ""
        at = 0
        while not state.done:
            if state.phase == _KEY:
                ended = buffer.find(">", max(at, read), at + _LONGEST_KEY) >= 0
                close = _TAG_END.match(buffer, at, at + _LONGEST_KEY) if ended else None
                if close is None:
                    if len(buffer) - at >= _LONGEST_KEY:  # no key
                        said.dropped += solid(buffer[at : at + _LONGEST_KEY])
                        state.phase = _BETWEEN
                        at += _LONGEST_KEY
                        continue
                    state.held = buffer[at:]
                    break
                self._begin_value(state, buffer[at : close.end() - 1], types, said)
                at = close.end()
            else:
                if state.phase == _BETWEEN:
                    at, whole = self._tags(state, buffer, at, types, said)
                else:
                    at, whole = self._value(state, buffer, at, said)
                if not whole:
                    break
        return len(text) if not state.done else at - (len(buffer) - len(text))

    def end(self, state: XmlParametersState, said: Said, by_marker: bool) -> bool:
        if state.phase in (_VALUE, _VERBATIM):
            self.values.write(state, state.held, said)
            self.values.cut(state, said)
            return False
        if state.wrapped:
            self.values.finish(state, said)
        said.unfinished += solid(state.held)
        self.values.close(state, said)
        return True

    def _tags(
        self, state: XmlParametersState, buffer: str, at: int, types: Mapping[str, Node], said: Said
    ) -> tuple[int, bool]:
        start, tag = self._between.find(buffer, at)
        said.dropped += solid(buffer[at:start])
        if tag is None:
            state.held = buffer[start:]
            return len(buffer), False
        if state.wrapped:
            if tag == self.opening or not _unwrap(state, types, said):
                self.values.finish(state, said)
            state.wrapped = False
        if tag == self.opening:
            state.phase = _KEY
            return start + len(tag), True
        self.values.close(state, said)
        state.done = True
        said.again = tag if tag in self.stops else ""
        return start + len(tag), True

    def _begin_value(
        self, state: XmlParametersState, tag: str, types: Mapping[str, Node], said: Said
    ) -> None:
        key = tag.strip()
        attributes: dict[str, str] = {}
        if key[:1] in ('"', "'") or self.is_text:
            attributes = {name: a or b or c for name, a, b, c in _ATTRIBUTE.findall("=" + tag)}
            key = attributes.get("", "")
            lost = [value for name, value in attributes.items() if name and not self._known(name, value)]
            said.dropped += solid("".join((_ATTRIBUTE.sub("", "=" + tag), *lost)))
        state.phase = _VALUE
        node = types.get(key)
        text = attributes.get(self.is_text) == "true" and (node is None or letters(node) in ("", "s"))
        if key in self.wrappers and key not in types and not state.count:
            state.wrapped = True
        self.values.begin(state, key, node, said, text)

    def _known(self, name: str, value: str) -> bool:
        """Whether an attribute behind the key says what this body knows."""
        return name == self.is_text and value in ("true", "false")

    def _value(self, state: XmlParametersState, buffer: str, at: int, said: Said) -> tuple[int, bool]:
        verbatim = state.phase == _VERBATIM
        start, tag = (_VERBATIM_END if verbatim else self._value_ends).find(buffer, at)
        self.values.write(state, buffer[at:start], said)
        if tag is None:
            state.held = buffer[start:]
            return len(buffer), False
        if verbatim or tag == _VERBATIM_BEGIN:
            state.phase = _VALUE if verbatim else _VERBATIM
            return start + len(tag), True
        if tag in _ENTITIES:
            self.values.write(state, _ENTITIES[tag], said)
            return start + len(tag), True
        if state.streams or not state.wrapped:
            state.wrapped = False
            self.values.finish(state, said)
        state.phase = _BETWEEN
        return start + len(tag) if tag == self.closing else start, True


def _unwrap(state: XmlParametersState, types: Mapping[str, Node], said: Said) -> bool:
    """The held value, the first and only one, is said as all the arguments, if it is an object of parameters
    of the function."""
    try:
        value = json.loads("".join(state.pieces))
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict) or not types.keys() >= value.keys():
        return False
    for key, inner in value.items():
        before = ", " if state.count else "{"
        written = schema.read(json.dumps(inner, ensure_ascii=False), types[key])
        said.arguments.append(f"{before}{json.dumps(key, ensure_ascii=False)}: {written}")
        state.count += 1
    state.pieces, state.key, state.late = [], "", ""
    return True
