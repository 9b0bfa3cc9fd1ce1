"""Where the text of an output ends: at a stop token, or before a stop string (contract E.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from parsers.events import Marker, Special
from renderd.derender.detokenizer import Lexeme, Rest


class StopRules(Protocol):
    """What a request says of its stopping."""

    @property
    def stop_token_ids(self) -> list[int]:
        """Ids that end the output."""

    @property
    def include_stop(self) -> bool:
        """What stopped the output stays in the text."""

    @property
    def ignore_eos(self) -> bool:
        """The model's own end tokens do not end the output."""


class End(msgspec.Struct):
    """The ids that are text, the stop reason to report, and whether an id that is no text came last."""

    text_ids: Sequence[int]
    stop_reason: int | str | None
    by_token: bool = False


def stop_ids(rules: StopRules, eos_token_id: int | None, eos_token_ids: frozenset[int]) -> frozenset[int]:
    """The ids that are no text where an output stops at one of them, if the engine does not say at what."""
    if rules.include_stop:
        return frozenset()
    ids = {*rules.stop_token_ids}
    if not rules.ignore_eos:
        ids |= eos_token_ids if eos_token_id is None else {*eos_token_ids, eos_token_id}
    return frozenset(ids)


def drop_stop_token(
    token_ids: Sequence[int],
    finish_reason: str | None,
    stop_reason: int | str | None,
    rules: StopRules,
    eos_token_id: int | None,
    eos_token_ids: frozenset[int],
) -> End:
    """Leave out the last id if the output stopped at it.

    `eos_token_id` is the tokenizer's own end token, `eos_token_ids` are all of the model's. The former is no
    stop reason, though an engine without a tokenizer reports it as one.
    """
    if finish_reason != "stop" or isinstance(stop_reason, str) or not token_ids:
        return End(token_ids, stop_reason)
    last = token_ids[-1]
    if stop_reason is not None and (stop_reason != eos_token_id or rules.ignore_eos):
        stopped, reported = last == stop_reason, stop_reason
    elif last == eos_token_id and not rules.ignore_eos:
        stopped, reported = True, None
    else:
        stopped = last in rules.stop_token_ids or (last in eos_token_ids and not rules.ignore_eos)
        reported = last if stopped else None
    if stopped and not rules.include_stop:
        return End(token_ids[:-1], reported, by_token=True)
    return End(token_ids, reported)


class StopSearch(msgspec.Struct):
    """Looks for stop strings in the text of consecutive lexemes, markers and all.

    A match has to end behind the first `min_tokens` tokens. Of several matches the one that ends first
    counts, of those that end together the one listed first. Text that may begin a match is held back until
    that is decided, so the answer is the same however the lexemes are grouped.

    Attributes:
        stops, min_tokens: none of the former is empty.
        include: a match stays in the text.
        held: what is held back, to go into the next chunk's search.
        matched: the stop string that was found; there is no text behind it.
    """

    stops: Sequence[str]
    min_tokens: int = 0
    include: bool = False
    held: list[Lexeme] = []
    matched: str | None = None

    def feed(self, lexemes: list[Lexeme], *, tokens_before: int, final: bool) -> list[Lexeme]:
        """The lexemes that no match can touch any more. `tokens_before`: tokens fed before."""
        floor = sum(map(len, self.held)) + _head_length(lexemes, self.min_tokens - tokens_before)
        lexemes = self.held + lexemes
        text = "".join(lexemes)
        found = self._find(text, floor)
        if found is not None:
            self.matched, end = found
            self.held = []
            return _cut(lexemes, end if self.include else end - len(self.matched), end)
        held = 0 if final else max(_overlap(text, stop) for stop in self.stops)
        released, self.held = _split(lexemes, len(text) - held)
        return released

    def _find(self, text: str, floor: int) -> tuple[str, int] | None:
        """The stop string that ends first behind `floor`, and where it ends."""
        best: tuple[str, int] | None = None
        for stop in self.stops:
            start = text.find(stop, max(floor - len(stop) + 1, 0))
            if start >= 0 and (best is None or start + len(stop) < best[1]):
                best = (stop, start + len(stop))
        return best


def _head_length(lexemes: list[Lexeme], tokens: int) -> int:
    """Characters of the first `tokens` tokens, 0 if there are none to skip."""
    length = 0
    for lexeme in lexemes:
        if tokens <= 0:
            break
        length += len(lexeme)
        tokens -= not isinstance(lexeme, Rest)
    return length


def _overlap(text: str, stop: str) -> int:
    """Length of the longest proper beginning of `stop` that ends `text`. Linear in the length of `stop`."""
    fallback = [0] * len(stop)
    matched = 0
    for at in range(1, len(stop)):
        while matched and stop[at] != stop[matched]:
            matched = fallback[matched - 1]
        matched += stop[at] == stop[matched]
        fallback[at] = matched
    matched = 0
    for character in text[max(len(text) - len(stop) + 1, 0) :]:
        while matched and character != stop[matched]:
            matched = fallback[matched - 1]
        matched += character == stop[matched]
    return matched


def _cut(lexemes: list[Lexeme], end: int, match_end: int) -> list[Lexeme]:
    """The lexemes before `end`. Text tokens from there to the match's end stay, empty: they count."""
    kept: list[Lexeme] = []
    position = 0
    for lexeme in lexemes:
        if position >= match_end:
            break
        if position + len(lexeme) <= end:
            kept.append(lexeme)
        elif position < end:
            part = lexeme[: end - position]
            kept.append(Rest(part) if isinstance(lexeme, Rest) else str(part))
        elif not isinstance(lexeme, Marker | Special | Rest):
            kept.append("")
        position += len(lexeme)
    return kept


def _split(lexemes: list[Lexeme], at: int) -> tuple[list[Lexeme], list[Lexeme]]:
    """The lexemes before and behind `at`; a marker that `at` lies in goes behind it whole."""
    position = 0
    for number, lexeme in enumerate(lexemes):
        if position + len(lexeme) > at:
            if position < at and not isinstance(lexeme, Marker | Special):
                before, behind = lexeme[: at - position], Rest(lexeme[at - position :])
                first = Rest(before) if isinstance(lexeme, Rest) else before
                return [*lexemes[:number], first], [behind, *lexemes[number + 1 :]]
            return lexemes[:number], lexemes[number:]
        position += len(lexeme)
    return lexemes, []
