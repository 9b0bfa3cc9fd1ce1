"""Logprobs of a tokens-only engine -> logprobs of the OpenAI APIs: ids become text (contract E.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from renderd.wire.answers import CandidateLogprob, ChatLogprobs, ChatTokenLogprob, CompletionLogprobs
from renderd.wire.generate import ChoiceLogprobs, TokenLogprob, TopLogprob

CONTEXT_TOKENS = 4
"""Sampled tokens before a token by which an incomplete character is completed: no character is longer."""

_INCOMPLETE = "\ufffd"
_SPACE = "▁"
_CACHED_TOKENS = 65536


class TextDecoder(Protocol):
    """What logprobs need of a tokenizer."""

    def __len__(self) -> int:
        """Number of ids."""

    def piece(self, token_id: int) -> str | None:
        """The vocabulary entry of an id."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of consecutive ids, special tokens included."""


class TokenText(NamedTuple):
    """A token as text. `data` is None for an id outside the vocabulary."""

    text: str
    data: list[int] | None


class LogprobDecoder:
    """Decodes for one tokenizer."""

    def __init__(self, tokenizer: TextDecoder) -> None:
        self._tokenizer = tokenizer
        self._alone: Callable[[int], str | None] = lru_cache(_CACHED_TOKENS)(self._text_alone)

    def chat(
        self, logprobs: ChoiceLogprobs | None, candidates: int | None, context: Sequence[int]
    ) -> ChatLogprobs | None:
        """`context`: the ids sampled before the first entry; the last four matter."""
        if logprobs is None:
            return None
        if logprobs.content is None:
            return ChatLogprobs(None)
        recent = list(context[-CONTEXT_TOKENS:])
        content = []
        for entry in logprobs.content:
            token = self._text(entry.token_id, recent)
            tops = [self._candidate(top, recent) for top in _kept(entry, candidates)]
            content.append(ChatTokenLogprob(token.text, entry.logprob, token.data, tops))
            recent = [*recent, entry.token_id][-CONTEXT_TOKENS:]
        return ChatLogprobs(content)

    def completion(
        self, logprobs: ChoiceLogprobs | None, candidates: int | None, context: Sequence[int], offset: int = 0
    ) -> CompletionLogprobs | None:
        """As `chat`. `offset`: where the first token starts, in characters."""
        if logprobs is None:
            return None
        answer = CompletionLogprobs([], [], [], [])
        recent = list(context[-CONTEXT_TOKENS:])
        for entry in logprobs.content or ():
            token = self._text(entry.token_id, recent)
            answer.text_offset.append(offset)
            answer.token_logprobs.append(entry.logprob)
            answer.tokens.append(token.text)
            tops = {self._text(top.token_id, recent).text: top.logprob for top in _kept(entry, candidates)}
            answer.top_logprobs.append(tops if entry.top_logprobs else None)
            offset += len(token.text)
            recent = [*recent, entry.token_id][-CONTEXT_TOKENS:]
        return answer

    def _candidate(self, top: TopLogprob, recent: Sequence[int]) -> CandidateLogprob:
        token = self._text(top.token_id, recent)
        return CandidateLogprob(token.text, top.logprob, token.data)

    def _text(self, token_id: int, recent: Sequence[int]) -> TokenText:
        text = self._alone(token_id)
        if text is None:
            return TokenText("", None)
        if text.endswith(_INCOMPLETE):
            text = self._completed(token_id, recent)
        return TokenText(text, list(text.encode()))

    def _text_alone(self, token_id: int) -> str | None:
        if not 0 <= token_id < len(self._tokenizer):
            return None
        piece = self._tokenizer.piece(token_id)
        if piece is None:
            return None
        text = self._tokenizer.decode([token_id])
        if piece.startswith(_SPACE) and not text.startswith(_SPACE):
            # A Metaspace decoder drops the blank of what it takes for the first word.
            blanks = len(piece) - len(piece.lstrip(_SPACE))
            text = " " * blanks + text.lstrip(" ")
        return text

    def _completed(self, token_id: int, recent: Sequence[int]) -> str:
        """Text of a token that ends a character which tokens before it began; empty if it does not end it."""
        for count in range(1, len(recent) + 1):
            before = recent[-count:]
            text = self._decode([*before, token_id])
            if text.endswith(_INCOMPLETE):
                continue
            clean = list(before)
            while clean and (self._alone(clean[-1]) or "").endswith(_INCOMPLETE):
                clean.pop()
            known = self._decode(clean) if clean else ""
            return text[_common_prefix(text, known) :]
        return ""

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode([i for i in token_ids if 0 <= i < len(self._tokenizer)])


def _kept(entry: TokenLogprob, candidates: int | None) -> list[TopLogprob]:
    return entry.top_logprobs if candidates is None else entry.top_logprobs[:candidates]


def _common_prefix(a: str, b: str) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length
