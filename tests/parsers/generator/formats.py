"""What a generator is: formats that write an answer as a model would, and what a reader should make of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.parsers.generator.words import PROPERTIES, Words, arguments


class Token(str):
    """A marker that the family's tokenizers have as one token."""

    __slots__ = ()


Pieces = list[str]
"""Text, and tokens in it."""


@dataclass
class Call:
    name: str
    arguments: dict[str, Any]
    id: str | None = None


@dataclass
class Answer:
    """What a model wants to say. `after`: content behind the calls."""

    reasoning: str | None = None
    content: str = ""
    calls: list[Call] = field(default_factory=list)
    after: str = ""


@dataclass(frozen=True)
class Thinking:
    """How a family marks reasoning.

    `write`: the section with its end, whatever the prompt opened. `pair`: spellings that no text of the
    answer may have. `begins`: where the output starts, "inside" the section or "before" it. `kwargs`:
    template kwargs that turn reasoning on. `edges`: whitespace at the section's end: "kept", "dropped", or
    "none" where this generator writes none. `wrap`: markup around the content. `skips`: whitespace that is
    dropped where content begins. `lead`: text that the reader puts before the content. `never`: there is no
    reasoning. `trims`: whitespace
    around content is dropped, and this generator writes none. `tag`: a regular expression for markup in which
    anything may stand, such as a header. `facts`: what the model must have, or not.
    """

    names: tuple[str, ...]
    write: Callable[[random.Random, str], Pieces]
    tokens: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()
    begins: str = "inside"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    edges: str = "kept"
    wrap: Callable[[random.Random, str], Pieces] | None = None
    skips: str = ""
    near: tuple[str, ...] = ()
    lead: str = ""
    never: bool = False
    trims: bool = False
    tag: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Calling:
    """How a family marks calls.

    `write`: all calls of an answer. `avoid`: what string values do not contain; `text_only`: nor anything
    that reads as another type; `values`: what makes a string one that the format can say. `strips`:
    whitespace before a call is dropped; `blank`: content that is nothing else is not. `before`: content may
    stand before the calls. `after`: what becomes of text behind them: "content", "dropped", or "either" of
    the two; "never": there is none. `most`: calls in an answer. `near`: texts that look like markup. `prose`:
    what no content contains. `functions`: that the format can call. `json_answers`: an answer in JSON stays
    one. `inside`: markers that a string value may contain as tokens.
    """

    names: tuple[str, ...]
    write: Callable[[random.Random, list[Call]], Pieces]
    tokens: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    text_only: bool = False
    values: Callable[[str], str] = str
    strips: bool = False
    blank: bool = False
    before: bool = True
    after: str = "dropped"
    most: int = 3
    near: tuple[str, ...] = ()
    prose: tuple[str, ...] = ()
    functions: tuple[str, ...] = tuple(PROPERTIES)
    json_answers: bool = True
    inside: tuple[str, ...] = ()
    trims: bool = False
    tag: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Framing:
    """A format in which reasoning, content and calls share one framing: it writes whole answers."""

    names: tuple[str, ...]
    write: Callable[[random.Random, Answer], Pieces]
    thinking: Thinking
    calling: Calling


_JSON_ANSWERS = ('{"answer": [1, {"b": "c"}]}', '["x", {"y": 1}] and so on', "{ not json", "[x]")


def tokenised(text: str, markers: Sequence[str]) -> Pieces:
    """A text in which some markers are tokens."""
    pieces: Pieces = [text]
    for marker in markers:
        split: Pieces = []
        for piece in pieces:
            if isinstance(piece, Token):
                split.append(piece)
                continue
            for number, part in enumerate(piece.split(marker)):
                split += [Token(marker)] if number else []
                split += [part] if part else []
        pieces = split
    return pieces


def answer(words: Words, size: int, thinking: Thinking | None, calling: Calling | None) -> Answer:
    """A random answer that the two formats can write."""
    rng = words.rng
    made = Answer()
    if thinking is not None and not thinking.never and rng.random() < 0.75:
        made.reasoning = words.prose(size)
        if thinking.edges != "none":
            made.reasoning = words.edge() + made.reasoning + words.edge()
    wanted = rng.randrange(calling.most + 1) if calling is not None else 0
    if calling is not None:
        for _ in range(wanted):
            name = rng.choice(calling.functions)
            values = arguments(words, name, calling.avoid, calling.text_only)
            values = {k: calling.values(v) if isinstance(v, str) else v for k, v in values.items()}
            made.calls.append(Call(name, values))
    before = calling is not None and calling.before and (thinking is None or thinking.wrap is None)
    if not wanted or (before and rng.random() < 0.5):
        made.content = words.prose(size) if rng.random() < 0.9 else ""
        trimmed = any(part.trims for part in (thinking, calling) if part)
        if made.content and not trimmed and (thinking is None or thinking.wrap is None):
            made.content = words.edge() + made.content + words.edge()
    if not wanted and calling is not None and calling.json_answers and rng.random() < 0.15:
        made.content = rng.choice(_JSON_ANSWERS)
    if wanted and calling is not None and calling.after != "never" and rng.random() < 0.3:
        made.after = words.edge() + words.prose(3)
    return made


def long_answer(words: Words, size: int, thinking: Thinking | None, calling: Calling | None) -> Answer:
    """An answer with all the parts that the formats have, each of about `size` words."""
    made = Answer()
    if thinking is not None and not thinking.never:
        made.reasoning = words.long_prose(size)
    before = calling is not None and calling.before and (thinking is None or thinking.wrap is None)
    if calling is None or before:
        made.content = words.long_prose(size)
    if calling is not None:
        values = {"text": calling.values(words.long_prose(size)), "path": words.word()}
        made.calls.append(Call("write_note", values))
    return made
