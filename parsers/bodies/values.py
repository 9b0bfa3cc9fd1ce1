"""Arguments that markup gives one by one, as a key and a text: written as the JSON object that they are.

A value of type string streams, escaped, as it comes. Any other is held until its end says what it is. What a
body does with tags is its own; this writes what stands between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from parsers import schema
from parsers.bodies import BodyState, Said

_LONGEST_TYPED = 1 << 20  # characters of a typed value that are held at most; a longer one is a string
_LONGEST_BLANK = 1 << 16  # of whitespace that may be markup
_PIECE = 1024  # a held value is kept in pieces, so that adding to it costs the same however long it is
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_NUMERIC = frozenset("0123456789+-.eE \t\r\n")
_WORDS = ("true", "false", "null")
_LONGEST_WORD = 8  # of a value that is one of these; room for whitespace after it


class ValuesState(BodyState, array_like=True):
    """The object so far.

    `count`: of keys that were said; `key`: one that was not, as it will be. `node`: what the schema says
    of the open value (`parsers.schema`). `streams`: the open value is a string, and passed on; else `pieces`
    holds it, `size` characters, and `looks` is what it may be where the schema does not say. `blank`:
    whitespace at its end so far, which may be markup. `fresh`: nothing of it was read. `opened`: the brace
    was said before any key.
    """

    count: int = 0
    key: str = ""
    node: Any = "s"
    streams: bool = True
    pieces: list[str] = msgspec.field(default_factory=list)
    size: int = 0
    looks: str = ""
    blank: str = ""
    fresh: bool = True
    opened: bool = False


@dataclass(frozen=True)
class Values:
    """How a format writes values.

    `trim`: whitespace around a value that is markup: one newline on each side, all of it, or none. `json`:
    what the format does not call text is JSON, strings in quotes, or else text. `convert`: the text of a
    value that is no string, and its node, to JSON text. `keys_wait`: the key of such a value is said with it.
    `opens`: the opening brace does not wait for a key. `untyped`: the node of a value of which the schema
    says nothing; "" reads JSON, or else text.
    """

    trim: Literal["none", "newline", "blank"] = "none"
    json: bool = False
    convert: Callable[[str, schema.Node], str] = schema.coerce
    keys_wait: bool = False
    opens: bool = False
    untyped: schema.Node = "s"

    def enter(self, state: ValuesState, said: Said) -> None:
        """The call has begun."""
        if self.opens and not state.opened:
            state.opened = True
            said.arguments.append("{")

    def begin(
        self, state: ValuesState, key: str, node: schema.Node | None, said: Said, text: bool = False
    ) -> None:
        """A value of the object begins. `node`: what the schema says of it, None if nothing. `text`: the
        format says that it is a string."""
        if node is None:
            node = "" if self.json else self.untyped
        opening = ", " if state.count else "" if state.opened else "{"
        self.open(state, f"{opening}{json.dumps(key, ensure_ascii=False)}: ", node, said, text)

    def open(
        self, state: ValuesState, before: str, node: schema.Node, said: Said, text: bool = False
    ) -> None:
        """A value begins, wherever it stands; `before` is what is said before it."""
        state.key = before
        state.node = node
        state.streams = text or (not self.json and schema.letters(node) == "s")
        state.pieces, state.size, state.looks, state.blank, state.fresh = [], 0, "", "", True
        state.late = ""
        if state.streams or not self.keys_wait:
            self._say_key(state, said)
        if state.streams:
            said.arguments.append('"')

    def write(self, state: ValuesState, text: str, said: Said) -> None:
        """More of the open value."""
        if state.fresh and text:
            text = text.lstrip() if self.trim == "blank" else text
            text = text.removeprefix("\n") if self.trim == "newline" else text
            state.fresh = self.trim == "blank" and not text
        if not text:
            return
        if state.streams:
            self._stream(state, text, said)
            return
        if state.pieces and len(state.pieces[-1]) < _PIECE:
            state.pieces[-1] += text
        else:
            state.pieces.append(text)
        state.size += len(text)
        text_if_not_json = schema.letters(state.node) in ("", "s")
        if state.size > _LONGEST_TYPED or (text_if_not_json and not _may_be_json(state, text)):
            state.streams = True
            self._say_key(state, said)
            said.arguments.append('"')
            held, state.pieces = "".join(state.pieces), []
            self._stream(state, held, said)

    def finish(self, state: ValuesState, said: Said) -> None:
        """The open value is complete."""
        if state.streams:
            state.late = '"'
        else:
            text = "".join(state.pieces)
            text = text.rstrip() if self.trim == "blank" else text
            text = text.removesuffix("\n") if self.trim == "newline" else text
            state.late = self.convert(text, state.node)
            state.pieces = []
        state.blank = ""
        self._say_key(state, said)
        said.arguments.append(state.late)

    def cut(self, state: ValuesState, said: Said) -> None:
        """The output ended inside the open value: what is held of a string is said, a typed value is lost.
        Where its key was to come with it, the object is closed without either."""
        if state.streams:
            said.arguments.append(escape(state.blank))
        else:
            said.unfinished += state.size
            if self.keys_wait:
                self.close(state, said)
        state.blank, state.pieces, state.key = "", [], ""

    def close(self, state: ValuesState, said: Said) -> None:
        """The call is complete."""
        said.arguments.append("}" if state.count or state.opened else "{}")

    def _say_key(self, state: ValuesState, said: Said) -> None:
        if state.key:
            said.arguments.append(state.key)
            state.key = ""
            state.count += 1

    def _stream(self, state: ValuesState, text: str, said: Said) -> None:
        if self.trim == "blank" and text.isspace() and len(state.blank) < _LONGEST_BLANK:
            state.blank += text
            return
        text = state.blank + text
        end = len(text)
        if self.trim == "blank":
            end = len(text.rstrip())
        elif self.trim == "newline" and text.endswith("\n"):
            end -= 1
        state.blank = text[end:]
        if end:
            said.arguments.append(escape(text[:end]))


def escape(text: str) -> str:
    """Text as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1] if _ESCAPED.search(text) else text


def _may_be_json(state: ValuesState, added: str) -> bool:
    """Whether the held value may still become JSON; `added` is the last that came to it.

    Containers and strings are awaited; what cannot be a number or a word is text at once.
    """
    if not state.looks:
        added = added.lstrip()
        if not added:
            return True
        state.looks = "container" if added[0] in '{["' else "number" if added[0] in _NUMERIC else ""
        if not state.looks:
            state.looks, added = added[:1], added[1:]
    if state.looks == "container":
        return True
    if state.looks == "number":
        return _NUMERIC.issuperset(added)
    word = state.looks + added
    state.looks = word[:_LONGEST_WORD]
    return any(known.startswith(word.rstrip()) for known in _WORDS)
