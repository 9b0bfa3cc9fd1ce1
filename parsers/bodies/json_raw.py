"""JSON as it streams in, passed on as it came.

Only its extent is found: braces and brackets are counted, strings are not looked into. Shares the state of
`json_text`, so that a body may choose between the two.
"""

from __future__ import annotations

import re

from parsers.bodies.json_text import JsonText

_STRUCTURE = re.compile(r'["{}\[\]]')
_STRUCTURE_OR_STOP = re.compile(r'["{}\[\]<]')
_STRING_END = re.compile(r'["\\]')
_BARE_END = re.compile(r'[\s,:\[\]{}"]')
_BARE_END_OR_STOP = re.compile(r'[\s,:\[\]{}"<]')
STOP = "<"


def feed(state: JsonText, text: str, out: list[str], at: int = 0, stops: bool = False) -> int:
    """Read one JSON value from `text[at:]`, append it to `out` without whitespace around it, return where it
    stopped: at its end, or, if `stops`, at a `STOP` outside strings, which no JSON has.
    """
    size = len(text)
    start = at
    while at < size and not state.done:
        if state.in_string:
            at = _string(state, text, at)
        elif stops and text[at] == STOP:
            break
        elif state.pending:  # a word without quotes
            end = (_BARE_END_OR_STOP if stops else _BARE_END).search(text, at)
            at = end.start() if end else size
            state.done = end is not None and not (stops and end.group() == STOP)
        elif state.depth:
            at = _structure(state, text, at, _STRUCTURE_OR_STOP if stops else _STRUCTURE)
        elif text[at].isspace():
            at += 1
            start = at
        elif text[at] in ",:}]":  # no value at all
            state.done = True
        else:
            at = _begin(state, text[at], at)
    if at > start:
        out.append(text[start:at])
    return at


def _begin(state: JsonText, char: str, at: int) -> int:
    if char == '"':
        state.in_string = True
    elif char in "{[":
        state.depth = 1
    else:
        _remember(state, "#")
    return at + 1


def _string(state: JsonText, text: str, at: int) -> int:
    if state.pending:
        _remember(state, "")
        return at + 1
    end = _STRING_END.search(text, at)
    if end is None:
        return len(text)
    if end.group() == "\\":
        _remember(state, "\\")
    else:
        state.in_string = False
        state.done = state.depth == 0
    return end.end()


def _structure(state: JsonText, text: str, at: int, marks: re.Pattern[str]) -> int:
    mark = marks.search(text, at)
    if mark is None:
        return len(text)
    char = mark.group()
    if char == STOP:
        return mark.start()
    if char == '"':
        state.in_string = True
    elif char in "{[":
        state.depth += 1
    else:
        state.depth -= 1
        state.done = state.depth == 0
    return mark.end()


def _remember(state: JsonText, pending: str) -> None:
    """What is pending was passed on already: only that it is there matters."""
    state.pending = pending
    state.sent = len(pending)
