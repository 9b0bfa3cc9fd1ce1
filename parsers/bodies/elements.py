"""Arguments as nested elements, `P<key>text or elements P</key>` behind a prefix P: MiniMax M3.

What the schema calls a string streams, as do objects and arrays of which it knows the members. Any other
value is held until its element ends: text inside elements becomes an object only by what follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from parsers.bodies import Said, solid
from parsers.bodies.values import Values, ValuesState
from parsers.scan import Scanner
from parsers.schema import Node, coerce, letters

_MEMBERS, _FRESH, _STRING, _HELD = range(4)
_LONGEST_TAG = 1024  # characters; what is longer is none
_LONGEST_BLANK = 4096  # of whitespace before it counts as text
_DEEPEST = 128  # elements; what is deeper is taken as text


class ElementsState(ValuesState, array_like=True):
    """`frames`: the open objects and arrays that stream, each as what the schema says of it, the outermost
    aside; `begun`: the innermost has a member. `before`, `of`: the element that has begun, as what is said
    before its value and what the schema says. `inner`: elements open inside the value. `held`: text whose
    meaning is open.
    """

    phase: int = _MEMBERS
    frames: list[Any] = msgspec.field(default_factory=list)
    begun: bool = False
    before: str = ""
    of: Any = ""
    inner: int = 0
    held: str = ""


@dataclass(frozen=True)
class Elements:
    """Elements until the closing tag of the call. `prefix`: what stands before every tag. `done`: names of
    closing tags that end the call; the first is its own, others are read again.
    """

    prefix: str
    done: tuple[str, ...]
    values: Values = field(default_factory=Values)

    state_type = ElementsState
    markers = frozenset[str]()

    @cached_property
    def _tags(self) -> Scanner:
        return Scanner((self.prefix + "<",))

    @cached_property
    def _held(self) -> Values:
        return Values(convert=lambda text, node: _Reader(self.prefix).value(text, node))

    def start(self, name: str | None) -> ElementsState:
        return ElementsState(name=name)

    def literal(self, state: ElementsState) -> bool:
        return state.phase != _MEMBERS

    def feed(self, state: ElementsState, text: str, types: Mapping[str, Any], said: Said) -> int:
        buffer = state.held + text
        state.held = ""
        at = 0
        while not state.done:
            start, tag = self._tags.find(buffer, at)
            self._text(state, buffer[at:start], said)
            if tag is None:
                state.held = buffer[start:]
                return len(text)
            end = buffer.find(">", start + len(tag), start + _LONGEST_TAG)
            if end < 0:
                if len(buffer) - start < _LONGEST_TAG:
                    state.held = buffer[start:]
                    return len(text)
                at = start + len(tag)
                self._text(state, tag, said)
                continue
            name = buffer[start + len(tag) : end]
            at = end + 1
            if name.removeprefix("/") in self.done and name.startswith("/"):
                self._close(state, said)
                state.done = True
                said.again = "" if name[1:] == self.done[0] else buffer[start:at]
            else:
                self._tag(state, name, buffer[start:at], types, said)
        return at - (len(buffer) - len(text))

    def end(self, state: ElementsState, said: Said, by_marker: bool) -> bool:
        self._text(state, state.held, said)
        if by_marker:
            self._close(state, said)
        elif state.phase in (_STRING, _HELD):
            self._writer(state).cut(state, said)
        return by_marker

    def _text(self, state: ElementsState, text: str, said: Said) -> None:
        if not text:
            return
        if state.phase == _MEMBERS:
            said.dropped += solid(text)
            return
        if state.phase == _FRESH:
            if text.isspace() and len(state.blank) + len(text) <= _LONGEST_BLANK:
                state.blank += text
                return
            self._open(state, letters(state.of) == "s", said)
        self._writer(state).write(state, text, said)

    def _tag(self, state: ElementsState, name: str, tag: str, types: Mapping[str, Any], said: Said) -> None:
        closing = name.startswith("/")
        if state.phase == _MEMBERS:
            if not closing:
                self._begin(state, name, types)
            elif state.frames:
                self._shut(state, said)
            else:
                said.dropped += len(tag)
            return
        if state.phase == _FRESH:
            if closing:
                self._empty(state, said)
                return
            if not isinstance(state.of, str):
                said.arguments.append(state.before + ("[" if "a" in letters(state.of) else "{"))
                state.frames.append(state.of)
                state.phase, state.begun, state.blank = _MEMBERS, False, ""
                self._begin(state, name, types)
                return
            self._open(state, False, said)
        if closing and not state.inner:
            self._finish(state, said)
            return
        state.inner += -1 if closing else 1
        self._writer(state).write(state, tag, said)

    def _begin(self, state: ElementsState, name: str, types: Mapping[str, Any]) -> None:
        """An element begins among the members of the innermost frame."""
        around = state.frames[-1] if state.frames else None
        in_list = around is not None and "a" in letters(around)
        if around is None:
            state.of = types.get(name, "s")
        elif in_list:
            state.of = around[2] or "s"
        else:
            state.of = around[1].get(name, "s")
        separator = ", " if state.begun else "" if state.frames else "{"
        state.before = separator + ("" if in_list else json.dumps(name, ensure_ascii=False) + ": ")
        state.phase, state.inner, state.blank = _FRESH, 0, ""

    def _open(self, state: ElementsState, streams: bool, said: Said) -> None:
        """The element's value begins: text that streams, or anything that is held."""
        blank, state.blank = state.blank, ""
        state.phase = _STRING if streams else _HELD
        self._writer(state).open(
            state, state.before, "s" if streams else "o", said
        )  # an object is never text
        self._writer(state).write(state, blank, said)

    def _finish(self, state: ElementsState, said: Said) -> None:
        state.node = state.of
        self._writer(state).finish(state, said)
        state.phase, state.begun = _MEMBERS, True

    def _empty(self, state: ElementsState, said: Said) -> None:
        """The element ends with nothing but whitespace in it."""
        codes = letters(state.of)
        written = "[]" if "a" in codes else "{}" if "o" in codes else coerce(state.blank, state.of)
        said.arguments.append(state.before + written)
        state.phase, state.begun, state.blank = _MEMBERS, True, ""

    def _shut(self, state: ElementsState, said: Said) -> None:
        frame = state.frames.pop()
        said.arguments.append("]" if "a" in letters(frame) else "}")
        state.begun = True

    def _close(self, state: ElementsState, said: Said) -> None:
        """The call is complete, whatever is still open in it."""
        if state.phase == _FRESH:
            self._empty(state, said)
        elif state.phase in (_STRING, _HELD):
            self._finish(state, said)
        while state.frames:
            self._shut(state, said)
        said.arguments.append("}" if state.begun else "{}")

    def _writer(self, state: ElementsState) -> Values:
        return self._held if state.phase == _HELD else self.values


class _Reader:
    """Reads the inside of one element that was held."""

    def __init__(self, prefix: str) -> None:
        self._pattern = re.compile(re.escape(prefix) + r"<(/?)([^>]*)>")

    def value(self, text: str, node: Node) -> str:
        """The JSON text of an element's inside."""
        pieces = list(self._pieces(text))
        root: list[Any] = [None, [], []]
        stack = [root]
        for word, tag, name in pieces:
            if tag == "":
                stack[-1][1].append(word)
            elif tag == "<" and len(stack) <= _DEEPEST:
                child: list[Any] = [name, [], []]
                stack[-1][2].append(child)
                stack.append(child)
            elif tag == "/" and len(stack) > 1:
                stack.pop()
        return json.dumps(self._build(root, node), ensure_ascii=False)

    def _pieces(self, text: str) -> list[tuple[str, str, str]]:
        found = []
        at = 0
        for match in self._pattern.finditer(text):
            found.append((text[at : match.start()], "", ""))
            found.append((match.group(), match.group(1) or "<", match.group(2)))
            at = match.end()
        found.append((text[at:], "", ""))
        return found

    def _build(self, element: list[Any], node: Node) -> Any:
        _, texts, children = element
        text = "".join(texts)
        codes = letters(node)
        if not children:
            if not text.strip() and ("a" in codes or "o" in codes):
                return [] if "a" in codes else {}
            return json.loads(coerce(text, node)) if codes else text
        known: Mapping[str, Node] = {} if isinstance(node, str) else node[1]
        if "a" in codes:
            items: Node = "s" if isinstance(node, str) else node[2] or "s"
            listed = [self._build(child, items) for child in children]
            return listed + ([text] if text.strip() else [])
        found: dict[str, list[Any]] = {}
        for child in children:
            found.setdefault(child[0], []).append(self._build(child, known.get(child[0], "s")))
        built = {key: values if len(values) > 1 else values[0] for key, values in found.items()}
        if text.strip():
            key = "$text"
            while key in built:
                key = "$" + key
            built[key] = text
        return built
