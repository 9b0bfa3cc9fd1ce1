"""Streamed answers: one event of the engine and the stream state in, one chunk and the next state out.

Work depends on the event alone: parser, detokenizer and the compiled request come out of `parser_state`. The
request and the prompt are looked at only when there is none: at the first event, or when vLLM made the state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET

from parsers.events import CallStart, Content, Event
from renderd import telemetry
from renderd.derender.ids import CallIds
from renderd.derender.logprobs import CONTEXT_TOKENS
from renderd.derender.memory import Memory
from renderd.derender.message import delta_of, finish_reason_of, text_of
from renderd.derender.opening import Opening, Stream
from renderd.derender.route import CHAT
from renderd.derender.setup import Setup
from renderd.derender.stops import End, drop_stop_token
from renderd.model.hurry import takes_long
from renderd.wire.answers import (
    ChatChunk,
    ChatChunkChoice,
    ChatStreamAnswer,
    CompletionChunk,
    CompletionChunkChoice,
    CompletionStreamAnswer,
)
from renderd.wire.derender import DerenderChatStreamRequest, DerenderCompletionStreamRequest, StreamedEvent
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import GenerateChunk, GenerateChunkChoice, GenerateUsage

_LOG = logging.getLogger(__name__)

E = TypeVar("E", bound=StreamedEvent)
T = TypeVar("T")

_BRIEF_TOKENS, _BRIEF_LOGPROBS = 500, 50
"""Tokens of an event that are read in a millisecond or less, and those of one that has their candidates."""


class News(msgspec.Struct):
    """What an event says of its choice. `rest`: what was held back and is said because no token follows."""

    events: Sequence[Event] = ()
    rest: Sequence[Event] = ()
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class StreamDerenderer:
    """Derenders events of streamed answers. Raises ApiError."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.opening = Opening(setup)

    def chat(self, body: DerenderChatStreamRequest) -> ChatStreamAnswer:
        """The chunk for an event of a chat stream, and the state to bring with the next."""
        return guarded(self._chat, body, "derender failed")

    def completion(self, body: DerenderCompletionStreamRequest) -> CompletionStreamAnswer:
        """The chunk for an event of a completion stream, and the state to bring with the next."""
        return guarded(self._completion, body, "detokenization failed")

    def _chat(self, body: DerenderChatStreamRequest) -> ChatStreamAnswer:
        stream, chunk = self.opening.message(body, CHAT), body.generate_chunk
        # An engine that knows no stop strings runs on behind one: nothing comes after the finish.
        news = [] if stream.memory.ended else chunk.choices
        choices = [self._chat_choice(stream, choice, chunk.request_id) for choice in news]
        usage = None if chunk.usage is None else _usage(chunk.usage, body.prompt_tokens)
        family, context = self._setup.family, stream.context
        if usage and family and family.has_reasoning and (context.single or choices):
            usage.completion_tokens_details = {"reasoning_tokens": stream.memory.reasoning_tokens}
        return ChatStreamAnswer(
            ChatChunk(
                id=chunk.request_id,
                created=stream.memory.created,
                model=stream.model,
                choices=choices,
                usage=usage,
                prompt_token_ids=chunk.prompt_token_ids if context.return_token_ids else None,
                metrics=chunk.metrics,
            ),
            self.opening.close(stream),
        )

    def _chat_choice(self, stream: Stream, choice: GenerateChunkChoice, request_id: str) -> ChatChunkChoice:
        state, context = stream.state, stream.context
        news = self.advance(stream, choice)
        ids = CallIds(request_id, choice.index, context.first_call, state.last_tool_call_ids, context.nine)
        delta = delta_of([*stream.missed, *news.events, *news.rest], context, ids)
        if not state.role_sent:
            delta.role = context.role
            state.role_sent = True
        if delta.tool_calls is not UNSET:
            state.tools_streamed = True
            if stream.keeps_history:
                state.last_tool_call_ids += [call.id for call in delta.tool_calls if call.id is not None]
        finish_reason = news.finish_reason
        if finish_reason is not None and context.parser is not None:
            finish_reason = finish_reason_of(finish_reason, context, state.tools_streamed)
        logprobs, token_ids = None, None
        if not context.hidden:
            if choice.logprobs is not None:
                before = state.logprob_context_token_ids
                logprobs = self._setup.logprobs.chat(choice.logprobs, context.candidates, before)
            token_ids = choice.token_ids if context.return_token_ids else None
        answer = ChatChunkChoice(
            index=choice.index,
            delta=delta,
            logprobs=logprobs,
            finish_reason=finish_reason,
            stop_reason=news.stop_reason,
            token_ids=token_ids,
        )
        self.save(stream, choice)
        return answer

    def _completion(self, body: DerenderCompletionStreamRequest) -> CompletionStreamAnswer:
        stream, chunk = self.opening.completion(body), body.generate_chunk
        news = [] if stream.memory.ended else chunk.choices
        choices = [self._completion_choice(stream, choice, chunk) for choice in news]
        return CompletionStreamAnswer(
            CompletionChunk(
                id=chunk.request_id,
                created=stream.memory.created,
                model=stream.model,
                choices=choices,
                usage=None if chunk.usage is None else _usage(chunk.usage, body.prompt_tokens),
                metrics=chunk.metrics,
            ),
            self.opening.close(stream),
        )

    def _completion_choice(
        self, stream: Stream, choice: GenerateChunkChoice, chunk: GenerateChunk
    ) -> CompletionChunkChoice:
        state, context = stream.state, stream.context
        news = self.advance(stream, choice)
        text = text_of([*news.events, *news.rest])
        logprobs = self._setup.logprobs.completion(
            choice.logprobs,
            context.candidates,
            state.logprob_context_token_ids,
            state.logprob_text_offset,
        )
        if logprobs is not None and logprobs.tokens:
            state.logprob_text_offset = logprobs.text_offset[-1] + len(logprobs.tokens[-1])
        else:
            state.logprob_text_offset += len(text)
        shown = context.return_token_ids
        answer = CompletionChunkChoice(
            index=choice.index,
            text=stream.echo + text,
            logprobs=logprobs,
            finish_reason=news.finish_reason,
            stop_reason=news.stop_reason,
            prompt_token_ids=chunk.prompt_token_ids if shown else None,
            token_ids=choice.token_ids if shown else None,
        )
        self.save(stream, choice)
        return answer

    def advance(self, stream: Stream, choice: GenerateChunkChoice) -> News:
        """Read the event's ids and note in the memory how far the answer is."""
        memory, context = stream.memory, stream.context
        count = len(choice.token_ids or ())
        if count > (_BRIEF_TOKENS if choice.logprobs is None else _BRIEF_LOGPROBS):
            takes_long()
        final, before = choice.finish_reason is not None, memory.tokens - len(memory.pending)
        end = self._end(stream, choice)
        events = self._feed(stream, end.text_ids, before)
        rest: Sequence[Event] = ()
        if final and stream.decoder.search.matched is None:
            rest = self._feed(stream, (), before + len(end.text_ids), final=True, end_token=end.by_token)
        memory.tokens += count
        telemetry.derendered(count)
        matched = stream.decoder.search.matched
        # A plain stream goes on as long as its client wants, as with vLLM; a parser has said its last word.
        memory.ended = matched is not None or (final and context.parser is not None)
        if matched is not None:
            return News(events, rest, "stop", matched)
        return News(events, rest, choice.finish_reason, end.stop_reason)

    def _end(self, stream: Stream, choice: GenerateChunkChoice) -> End:
        """Which ids are text. An engine may say only with the next event that it stopped at the last one, so
        a parsed stream, in which that token would be seen, keeps it until then."""
        memory, context, model = stream.memory, stream.context, self._setup.model
        ids = [*memory.pending, *(choice.token_ids or ())]
        memory.pending = []
        if choice.finish_reason is None and context.parser is not None:
            if ids and ids[-1] in stream.plan.stop_ids:
                memory.pending = [ids.pop()]
            return End(ids, choice.stop_reason)
        eos = model.tokenizer.eos_token_id
        return drop_stop_token(
            ids, choice.finish_reason, choice.stop_reason, context, eos, model.eos_token_ids
        )

    def _feed(
        self, stream: Stream, ids: Sequence[int], before: int, final: bool = False, end_token: bool = False
    ) -> list[Event]:
        events = stream.decoder.feed(ids, before, final, end_token)
        self._setup.report(events)
        memory = stream.memory
        return _unsent(events, memory) if memory.blank_sent or memory.calls_sent else events

    @staticmethod
    def save(stream: Stream, choice: GenerateChunkChoice) -> None:
        """Complete the state for the next call."""
        state, memory, ids = stream.state, stream.memory, choice.token_ids or []
        state.logprob_context_token_ids = [*state.logprob_context_token_ids, *ids][-CONTEXT_TOKENS:]
        memory.save(stream.decoder)
        if stream.context.parser is None:
            window = stream.plan.detokenizer.spelled(stream.decoder.window)
            state.prev_tokens = window.pieces
            state.prefix_offset, state.read_offset = window.prefix, window.read
        elif stream.keeps_history and ids:
            state.output_token_ids += ids
            state.output_chunk_lens.append(len(ids))


def _unsent(events: Sequence[Event], memory: Memory) -> list[Event]:
    """Events without what vLLM has sent of them already."""
    news: list[Event] = []
    for event in events:
        if isinstance(event, CallStart):
            memory.blank_sent = ""
            if event.index < memory.calls_sent:
                continue
        elif isinstance(event, Content):
            sent, memory.blank_sent = memory.blank_sent, memory.blank_sent[len(event.text) :]
            event = Content(event.text.removeprefix(sent))
        news.append(event)
    return news


def guarded(answer: Callable[[E], T], body: E, failure: str) -> T:
    """`answer(body)`. A state is the client's: whatever goes wrong with one that was given is a 400."""
    try:
        return answer(body)
    except ApiError:
        raise
    except ValueError as error:
        if body.stream_state is None:
            raise
        raise bad_request(f"invalid stream_state: {error}") from None
    except Exception as error:
        if body.stream_state is None:
            raise
        _LOG.warning("A given stream_state could not be used", exc_info=True)
        raise bad_request(f"invalid stream_state: {failure}") from error


def _usage(usage: GenerateUsage, prompt_tokens: int | None) -> GenerateUsage:
    prompt = usage.prompt_tokens if prompt_tokens is None else prompt_tokens
    completion = usage.completion_tokens or 0
    return GenerateUsage(prompt, prompt + completion, completion)
