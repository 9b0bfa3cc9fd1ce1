"""Random texts and argument values for model outputs, and the tools whose schemas they follow.

A text is made of numbered words, each used once in an output, and of what stands between words: whitespace,
punctuation, any character of Unicode, beginnings of markers. What became of a word says what became of the
text around it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

WORD = re.compile(r"q\d{4}z")


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS: list[dict[str, Any]] = [
    _tool("ping"),
    _tool("get_weather", city={"type": "string"}, days={"type": "integer"}),
    _tool("write_note", path={"type": "string"}, text={"type": "string"}),
    _tool(
        "set_all",
        s={"type": "string"},
        i={"type": "integer"},
        n={"type": "number"},
        b={"type": "boolean"},
        o={"type": "object", "properties": {"k": {"type": "string"}, "m": {"type": "integer"}}},
        a={"type": "array", "items": {"type": "integer"}},
        z={"type": "null"},
    ),
]

PROPERTIES: dict[str, dict[str, str]] = {
    tool["function"]["name"]: {
        key: node["type"] for key, node in tool["function"]["parameters"]["properties"].items()
    }
    for tool in TOOLS
}
"""Types of the parameters, by function."""

_BETWEEN = (" ", " ", " ", "\n", ", ", ". ", "\n\n", "\t", " - ", "  ")
_ODD = (
    "'",
    '"',
    "\\",
    "/",
    "=",
    "&",
    "#",
    "*",
    "\\n",
    "%",
    "(",
    ")",
    "`",
    ":",
    ";",
    "|",
    "🙂",
    "é",
    "汉字",
    "\u200b",
)


class Words:
    """A source of texts for one output.

    `near`: beginnings of markers, and what else looks like markup and is none. `avoid`: what no
    text contains.
    """

    def __init__(self, rng: random.Random, near: Sequence[str] = (), avoid: Sequence[str] = ()) -> None:
        self.rng = rng
        self.near = tuple(near)
        self.avoid = tuple(avoid)
        self.number = 0

    def word(self) -> str:
        self.number += 1
        return f"q{self.number:04}z"

    def prose(self, size: int) -> str:
        """A text that begins and ends with a word."""
        rng = self.rng
        while True:
            parts = [self.word()]
            for _ in range(rng.randrange(size + 1)):
                parts.append(rng.choice(_BETWEEN))
                kind = rng.random()
                if kind < 0.15 and self.near:
                    parts.append(rng.choice(self.near) + rng.choice((" ", "")))
                elif kind < 0.3:
                    parts.append(rng.choice(_ODD))
                elif kind < 0.36:
                    parts.append(_character(rng))
                parts.append(self.word())
            text = "".join(parts)
            if not any(word in text for word in self.avoid):
                return text

    def long_prose(self, size: int) -> str:
        """Words, and little else that could be markup."""
        return "".join(self.word() + self.rng.choice(_BETWEEN) for _ in range(size)) + self.word()

    def edge(self) -> str:
        """Whitespace, or none."""
        return self.rng.choice(("", "", "", "\n", " ", "\n\n", " \n"))


def _character(rng: random.Random) -> str:
    while True:
        character = chr(rng.choice((rng.randrange(0x21, 0x800), rng.randrange(0x800, 0x1_0000), 0x1_F600)))
        if not 0xD800 <= ord(character) < 0xE000 and character.isprintable() and character not in "{}[]<>":
            return character


def value(words: Words, kind: str, avoid: Sequence[str] = (), text_only: bool = False) -> Any:
    """A value of a parameter of type `kind`; its strings contain nothing of `avoid`.

    `text_only`: strings that cannot be mistaken for a value of another type.
    """
    rng = words.rng
    match kind:
        case "string":
            return _string(words, avoid, text_only)
        case "integer":
            return rng.choice((0, 7, -3, 42, 10**9, rng.randrange(-1000, 1000)))
        case "number":
            return rng.choice((0.5, -2.25, 3, 1e-05, 12.75, 1e22))
        case "boolean":
            return rng.random() < 0.5
        case "object":
            return {"k": _string(words, avoid, text_only=True), "m": rng.randrange(100)}
        case "array":
            return [rng.randrange(100) for _ in range(rng.randrange(1, 4))]
    return None


def _string(words: Words, avoid: Sequence[str], text_only: bool) -> str:
    rng = words.rng
    while True:
        kind = rng.random()
        if kind < 0.15 and not text_only:
            text = rng.choice(("42", "true", "null", "[1, 2]", "007", "3.0", '{"a": 1}'))
        elif kind < 0.3:
            text = rng.choice(
                ("{}", "[]", '"', "\\", "<b>", "a\nb", "{", "😀", "'", "<", "&lt;", ",", "k: v", "}")
            )
            text = words.word() + text + words.word()
        else:
            text = words.prose(4)
        if not any(word in text for word in avoid):
            return text


def arguments(words: Words, name: str, avoid: Sequence[str] = (), text_only: bool = False) -> dict[str, Any]:
    """Arguments of a function: some of its parameters, in any order."""
    known = list(PROPERTIES[name].items())
    words.rng.shuffle(known)
    kept = [pair for pair in known if words.rng.random() < 0.8]
    return {key: value(words, kind, avoid, text_only) for key, kind in kept}


def dumps(rng: random.Random, value: Any) -> str:
    """JSON, as models write it: dense, spaced or indented, escaped or not."""
    style: dict[str, Any] = rng.choice(
        ({}, {}, {"separators": (",", ":")}, {"indent": 2}, {"indent": 1, "ensure_ascii": True})
    )
    return json.dumps(value, **{"ensure_ascii": False, **style})
