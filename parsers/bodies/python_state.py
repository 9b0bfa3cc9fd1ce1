"""What is remembered of a Python literal that streams in, and where its JSON goes."""

from __future__ import annotations

import json
import re

import msgspec

VALUE, QUOTE, STRING, CLOSED, PEEK, WORD, DIGITS, RAW, AFTER, SKIP = range(10)

CLOSERS = {"l": "]", "t": ")", "g": ")", "p": ")", "s": "}", "b": "}", "d": "}", "v": "}"}
_LONGEST_HELD = 4096  # characters that wait for a bracket to be understood


class PythonText(msgspec.Struct, array_like=True):
    """State between two pieces.

    `stack`: a letter for each open bracket: l list, t tuple, s set, d and v dict before and after the colon,
    g parentheses around one value, p and b parenthesis and brace that may still be either. `held`: output
    since the first of these, `holes` where each begins in it. `pending`: the prefix, quotes, escape, word or
    whitespace that is being read. `depth`, `inner`: of brackets, and the quote, inside an expression. `gap`:
    a comma is due.
    """

    mode: int = VALUE
    stack: str = ""
    quote: str = ""
    raw: bool = False
    pending: str = ""
    gap: bool = False
    holes: list[int] = []
    held: str = ""
    depth: int = 0
    inner: str = ""
    dropped: int = 0
    done: bool = False

    @property
    def certain(self) -> bool:
        """Whether what was read begins a literal, for sure."""
        return bool(self.stack) or self.mode in (QUOTE, STRING, CLOSED, PEEK, DIGITS, AFTER, SKIP)


def put(state: PythonText, out: list[str], text: str) -> None:
    if not state.holes:
        out.append(text)
        return
    state.held += text
    if len(state.held) > _LONGEST_HELD:
        while state.holes:  # from the inside, so that positions stay right
            at = state.holes.pop()
            where = max(state.stack.rfind("p"), state.stack.rfind("b"))
            text_first = state.held.startswith('"', at)
            letter = "s" if state.stack[where] == "b" else "g" if text_first else "t"
            state.stack = state.stack[:where] + letter + state.stack[where + 1 :]
            if letter != "g":
                state.held = state.held[:at] + "[" + state.held[at:]
        out.append(state.held)
        state.held = ""


def decide(state: PythonText, out: list[str], letter: str, opening: str) -> None:
    """The innermost bracket is understood."""
    at = state.holes.pop()
    inside = state.held[at:]
    if letter == "v" and not inside.startswith('"'):
        inside = f'"{inside}"'  # keys of JSON are strings
    state.stack = state.stack[:-1] + letter
    state.held = state.held[:at] + opening + inside
    if not state.holes:
        out.append(state.held)
        state.held = ""


def escaped(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", written)
