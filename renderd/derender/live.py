"""A streamed answer kept in memory: what whoever holds the connection needs in place of `stream_state`.

The decoders are those of the streaming routes. Nothing is written down between two events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET

from parsers import PromptVerdict
from renderd.derender.context import Context
from renderd.derender.ids import CallIds
from renderd.derender.logprobs import CONTEXT_TOKENS, LogprobDecoder
from renderd.derender.memory import Memory
from renderd.derender.message import delta_of, finish_reason_of, text_of
from renderd.derender.opening import Stream
from renderd.derender.setup import Setup
from renderd.derender.stream import News, StreamDerenderer
from renderd.wire.answers import ChatLogprobs, CompletionLogprobs, Delta
from renderd.wire.generate import GenerateChunkChoice
from renderd.wire.state import DerenderStreamState


class ChatNews(NamedTuple):
    """What an event says of a choice of a chat. `finish_reason` is None until the end."""

    delta: Delta
    logprobs: ChatLogprobs | None
    token_ids: list[int] | None
    finish_reason: str | None
    stop_reason: int | str | None


class TextNews(NamedTuple):
    """What an event says of a choice of a completion."""

    text: str
    logprobs: CompletionLogprobs | None
    token_ids: list[int] | None
    finish_reason: str | None
    stop_reason: int | str | None


class LiveChoice:
    """One choice of an answer.

    Attributes:
        stream: the decoder and what is known of the output.
        finished: the engine has said its last word of it.
    """

    def __init__(
        self, streams: StreamDerenderer, logprobs: LogprobDecoder, stream: Stream, ids: CallIds
    ) -> None:
        self.stream = stream
        self.finished = False
        self._streams = streams
        self._logprobs = logprobs
        self._ids = ids
        self._called = False

    @property
    def ended(self) -> bool:
        """The answer is over: at the engine's end, or at a stop string before."""
        return self.stream.memory.ended

    @property
    def tokens(self) -> int:
        """Tokens of the output so far."""
        return self.stream.memory.tokens

    @property
    def reasoning_tokens(self) -> int:
        """Those of them that are reasoning (contract F.2)."""
        return self.stream.decoder.reasoning_tokens

    def read(self, choice: GenerateChunkChoice) -> News:
        """What an event says of the choice, which has not ended."""
        stream = self.stream
        news = self._streams.advance(stream, choice)
        if choice.finish_reason is not None:
            self.finished = True
            stream.memory.ended = True
        return news

    def chat(self, choice: GenerateChunkChoice) -> ChatNews:
        """The same as news of a chat's message."""
        stream = self.stream
        context = stream.context
        news = self.read(choice)
        events = [*news.events, *news.rest] if news.rest else news.events
        delta = delta_of(events, context, self._ids)
        if delta.tool_calls is not UNSET:
            self._called = True
        finish_reason = news.finish_reason
        if finish_reason is not None and context.parser is not None:
            finish_reason = finish_reason_of(finish_reason, context, self._called)
        logprobs, token_ids = None, None
        if not context.hidden:
            if choice.logprobs is not None:
                sampled = self._sampled(choice)
                logprobs = self._logprobs.chat(choice.logprobs, context.candidates, sampled)
            if context.return_token_ids:
                token_ids = choice.token_ids
        return ChatNews(delta, logprobs, token_ids, finish_reason, news.stop_reason)

    def text(self, choice: GenerateChunkChoice) -> TextNews:
        """The same as news of a completion's text."""
        stream, state = self.stream, self.stream.state
        news = self.read(choice)
        text, logprobs = text_of([*news.events, *news.rest]), None
        if choice.logprobs is not None:
            logprobs = self._logprobs.completion(
                choice.logprobs, stream.context.candidates, self._sampled(choice), state.logprob_text_offset
            )
        if logprobs is not None and logprobs.tokens:
            state.logprob_text_offset = logprobs.text_offset[-1] + len(logprobs.tokens[-1])
        token_ids = choice.token_ids if stream.context.return_token_ids else None
        return TextNews(text, logprobs, token_ids, news.finish_reason, news.stop_reason)

    def _sampled(self, choice: GenerateChunkChoice) -> list[int]:
        """The last ids before the event."""
        state = self.stream.state
        before = state.logprob_context_token_ids
        state.logprob_context_token_ids = [*before, *(choice.token_ids or ())][-CONTEXT_TOKENS:]
        return before


def is_cut(choices: Sequence[LiveChoice]) -> bool:
    """Whether all choices have ended though the engine goes on with one: it should be told."""
    return all(choice.ended for choice in choices) and not all(choice.finished for choice in choices)


class Live:
    """The choices of one answer, by index.

    `request_id`: of the answer; ids of calls follow from it. `prompt`: its ids. `count`: of choices.
    """

    def __init__(
        self,
        setup: Setup,
        streams: StreamDerenderer,
        request_id: str,
        context: Context,
        prompt: Sequence[int],
        count: int,
        verdict: PromptVerdict = "unknown",
    ) -> None:
        self.context = context
        self.choices = [
            LiveChoice(
                streams,
                setup.logprobs,
                _stream(setup, context, prompt, verdict),
                CallIds(request_id, index, context.first_call, nine=context.nine),
            )
            for index in range(count)
        ]

    @property
    def cut(self) -> bool:
        """See `is_cut`."""
        return is_cut(self.choices)

    @property
    def tokens(self) -> int:
        """Of all choices."""
        return sum(choice.tokens for choice in self.choices)

    @property
    def reasoning_tokens(self) -> int:
        """Of all choices."""
        return sum(choice.reasoning_tokens for choice in self.choices)


def _stream(setup: Setup, context: Context, prompt: Sequence[int], verdict: PromptVerdict) -> Stream:
    plan = setup.plan(context)
    memory = Memory(b"", "live", 0, verdict, prompt_tokens=len(prompt))
    return Stream("", DerenderStreamState(), memory, plan, context, plan.decoder(prompt, context.stop))
