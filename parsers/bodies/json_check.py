"""Whether a text that comes in pieces is one JSON value. Nothing of the text is kept."""

from __future__ import annotations

import re

import msgspec

_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _COLON, _NEXT = range(6)

_DEEPEST = 512  # containers inside one another; few readers take more
_LONGEST_WORD = 64  # of a number that is looked at; a longer one is taken for right
_TEXT = re.compile(r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')  # in a string
_SPACE = re.compile(r"[ \t\r\n]*")
_SIGNS = frozenset('{}[]":, \t\r\n')
_WORD = re.compile(r"[-+.\w]+", re.ASCII)
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_BEGINS = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")


class JsonCheck(msgspec.Struct, array_like=True):
    """State between two pieces.

    `open`: the containers around this place, by their brackets. `expects`: what may come next. `word`: the
    number, the literal or the escape that is being read. `broken`: it is no JSON, whatever comes.
    """

    open: str = ""
    expects: int = _VALUE
    in_string: bool = False
    word: str = ""
    broken: bool = False


def feed(check: JsonCheck, text: str) -> None:
    """Read the next piece."""
    at, size = 0, len(text)
    while at < size and not check.broken:
        at = _string(check, text, at) if check.in_string else _structure(check, text, at)


def whole(check: JsonCheck) -> bool:
    """Whether all that was read is one JSON value. Nothing may be fed after it."""
    if check.word and not check.in_string:
        _scalar(check)
    return not check.broken and not check.open and not check.in_string and check.expects == _NEXT


def _string(check: JsonCheck, text: str, at: int) -> int:
    if check.word:
        check.word += text[at]
        if _ESCAPE.fullmatch(check.word):
            check.word = ""
        elif not _ESCAPE_BEGINS.fullmatch(check.word):
            check.broken = True
        return at + 1
    seen = _TEXT.match(text, at)
    at = seen.end() if seen else at
    if at == len(text):
        return at
    char = text[at]
    if char == '"':
        check.in_string = False
        check.expects = _COLON if check.expects in (_KEY, _FIRST_KEY) else _NEXT
    elif char == "\\":
        check.word = char
    else:
        check.broken = True
    return at + 1


def _structure(check: JsonCheck, text: str, at: int) -> int:
    char, expects = text[at], check.expects
    if char not in _SIGNS:
        word = _WORD.match(text, at)
        check.broken = word is None or expects not in (_VALUE, _FIRST_VALUE)
        check.word = (check.word + word.group())[: _LONGEST_WORD + 1] if word else ""
        return word.end() if word else at
    if check.word:
        _scalar(check)
        return at
    if char == '"':
        check.in_string = True
        check.broken = expects in (_COLON, _NEXT)
    elif char in " \t\r\n":
        space = _SPACE.match(text, at)
        return space.end() if space else at
    elif char in "{[":
        check.open += char
        check.expects = _FIRST_KEY if char == "{" else _FIRST_VALUE
        check.broken = expects not in (_VALUE, _FIRST_VALUE) or len(check.open) > _DEEPEST
    elif char in "}]":
        empty, opened = (_FIRST_KEY, "{") if char == "}" else (_FIRST_VALUE, "[")
        check.broken = expects not in (_NEXT, empty) or check.open[-1:] != opened
        check.open = check.open[:-1]
        check.expects = _NEXT
    elif char == ",":
        check.broken = expects != _NEXT or not check.open
        check.expects = _KEY if check.open[-1:] == "{" else _VALUE
    else:
        check.broken = char != ":" or expects != _COLON
        check.expects = _VALUE
    return at + 1


def _scalar(check: JsonCheck) -> None:
    """A number or a literal ended."""
    if len(check.word) <= _LONGEST_WORD and _SCALAR.fullmatch(check.word) is None:
        check.broken = True
    check.word = ""
    check.expects = _NEXT
