"""Outputs of models, made without looking at how they are parsed.

Every family's format is stated here a second time, as a small writer: from an answer to the text and the
tokens that a model of the family would write. What a parser makes of them has to be the answer again. Nothing
here imports `parsers`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tests.parsers.generator.calls_json import JSON_CALLS
from tests.parsers.generator.calls_markup import MARKUP_CALLS
from tests.parsers.generator.formats import (
    Answer,
    Calling,
    Framing,
    Pieces,
    Thinking,
    Token,
    answer,
    long_answer,
)
from tests.parsers.generator.framed import FRAMED
from tests.parsers.generator.templated import TEMPLATED_CALLS, TEMPLATED_THINKING
from tests.parsers.generator.thinking import THINKING
from tests.parsers.generator.words import TOOLS, WORD, Words

__all__ = ["TOOLS", "WORD", "Format", "Pieces", "Sample", "Token", "Words", "formats", "sample"]


@dataclass(frozen=True)
class Format:
    """A pair of formats, or one of them alone, or a framing."""

    thinking: Thinking | None
    calling: Calling | None
    framing: Framing | None = None

    @property
    def tokens(self) -> frozenset[str]:
        """The markers that are one token each."""
        parts = (self.thinking, self.calling)
        return frozenset(token for part in parts if part for token in part.tokens)

    @property
    def facts(self) -> dict[str, Any]:
        """What the model has: `config` of its tokenizer, and `without`, tokens that it lacks."""
        parts = (self.thinking, self.calling)
        return {key: value for part in parts if part for key, value in part.facts.items()}

    @property
    def tags(self) -> str:
        """A regular expression for markup in which anything may stand, "" where there is none."""
        return "|".join(part.tag for part in (self.thinking, self.calling) if part and part.tag)

    @property
    def kwargs(self) -> dict[str, object]:
        """Template kwargs that turn reasoning on."""
        return dict(self.thinking.kwargs) if self.thinking else {}


@dataclass
class Sample:
    """An output, and how it is to be read. `loose`: what became of text behind the calls is left open."""

    pieces: Pieces
    answer: Answer
    verdict: Literal["open", "over", "unknown"]
    reasoning: str
    content: str
    loose: bool = False


def formats(reasoning: str | None, tools: str | None) -> Iterator[Format]:
    """The formats of a pair of parser names: several where a name stands for several, none for a pair that
    no model has."""
    framed = [
        framing for framing in FRAMED if reasoning in framing.thinking.names or tools in framing.calling.names
    ]
    for framing in framed:
        own_reasoning = reasoning is None or reasoning in framing.thinking.names
        own_tools = tools is None or tools in framing.calling.names
        if own_reasoning and own_tools:
            yield Format(framing.thinking if reasoning else None, framing.calling if tools else None, framing)
    if framed:
        return
    thinking = [one for one in THINKING + TEMPLATED_THINKING if reasoning in one.names]
    callings = [one for one in JSON_CALLS + MARKUP_CALLS + TEMPLATED_CALLS if tools in one.names]
    for first in thinking if reasoning else [None]:
        for second in callings if tools else [None]:
            yield Format(first, second)


def sample(
    rng: random.Random,
    size: int,
    form: Format,
    spelled: bool = False,
    words: Words | None = None,
    long: int = 0,
) -> Sample:
    """A random output.

    `size`: how many words a text has, at most. `spelled`: the vocabulary has no markers, all are text.
    `words`: goes on numbering where another output stopped. `long`: instead of a random answer, one with all
    parts, of so many words each.
    """
    thinking, calling = form.thinking, form.calling
    near = [text for part in (thinking, calling) if part for text in part.near]
    avoid = [*(thinking.pair if thinking else ()), *(calling.prose if calling else ())]
    if spelled:
        avoid += form.tokens
    else:
        near += form.tokens  # spelled with other tokens they are text
    source = Words(rng, near, avoid)
    if words is not None:
        source.number = words.number
    made = long_answer(source, long, thinking, calling) if long else answer(source, size, thinking, calling)
    if words is not None:
        words.number = source.number
    if form.framing is not None:
        if form.thinking is None:
            made.reasoning = None
        pieces = form.framing.write(rng, made)
    else:
        pieces = _write(rng, made, thinking, calling)
    pieces = [piece if not spelled else str(piece) for piece in pieces if piece]
    verdict: Literal["open", "over", "unknown"] = "unknown"
    if thinking is not None and thinking.begins == "inside":
        if form.framing is not None:
            verdict = "open"
        elif thinking.never:
            verdict = "unknown"
        else:
            verdict = "over" if made.reasoning is None else rng.choice(("open", "unknown"))
    return Sample(pieces, made, verdict, *_reading(made, thinking, calling))


def _write(rng: random.Random, made: Answer, thinking: Thinking | None, calling: Calling | None) -> Pieces:
    pieces: Pieces = []
    wrap = None
    if thinking is not None and made.reasoning is not None:
        pieces += thinking.write(rng, made.reasoning)
        wrap = thinking.wrap
    if made.content:
        pieces += wrap(rng, made.content) if wrap else [made.content]
    if calling is not None:
        pieces += calling.write(rng, made.calls)
    return [*pieces, made.after]


def _reading(made: Answer, thinking: Thinking | None, calling: Calling | None) -> tuple[str, str, bool]:
    """Reasoning and content as a reader should have them, and whether it is open what becomes of the end."""
    reasoning, content = made.reasoning or "", made.content
    if thinking is not None:
        if thinking.edges == "dropped":
            reasoning = reasoning.rstrip()
        content = content.lstrip(thinking.skips) if thinking.skips else content
    if made.calls:
        if calling is not None and calling.strips:
            content = content.rstrip()
        if not content.strip() and not (calling and calling.blank):
            content = ""
    lead = thinking.lead if thinking else ""
    loose = bool(made.after) and calling is not None and calling.after == "either"
    if made.after and calling is not None and calling.after == "content":
        content += made.after
    return reasoning, lead + content, loose
