"""Messages of the Anthropic API, whole and streamed. What they say is read as a chat answer's is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from renderd.derender.batch import BatchDerenderer
from renderd.derender.blocks import BlockWriter, Progress, blocks_of, stop_reason_of
from renderd.derender.context import Context
from renderd.derender.ids import CallIds
from renderd.derender.message import FAILURES
from renderd.derender.requests import read_object
from renderd.derender.route import MessageRoute, finished_prompt_tokens, streamed_prompt_tokens
from renderd.derender.stream import News, StreamDerenderer, guarded
from renderd.wire.anthropic_answers import (
    EndDelta,
    ErrorEvent,
    Failure,
    MessageAnswer,
    MessageDelta,
    MessageEvent,
    MessagesStreamAnswer,
    MessageStart,
    MessageStop,
    MessageUsage,
    message_usage,
)
from renderd.wire.chat import ChatCompletionRequest
from renderd.wire.derender import DerenderMessagesRequest, DerenderMessagesStreamRequest, is_null
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import GenerateResponse

Reader = Callable[[dict[str, Any], str], ChatCompletionRequest]
"""A messages request in JSON, and its dotted place -> the chat request that it is. Raises ApiError."""


def unread(raw: dict[str, Any], loc: str) -> ChatCompletionRequest:
    """The reader of a server that has none."""
    raise bad_request(f"{loc}: messages requests cannot be read here")


class MessagesDerenderer:
    """Derenders messages. Raises ApiError."""

    def __init__(self, batch: BatchDerenderer, stream: StreamDerenderer, read: Reader) -> None:
        self._batch = batch
        self._stream = stream

        def read_request(value: Raw, loc: str) -> ChatCompletionRequest | None:
            return None if is_null(value) else read(read_object(value, loc), loc)

        self._route = MessageRoute("Messages", "messages_request", read_request, lambda request: request)

    def batch(self, body: DerenderMessagesRequest) -> MessageAnswer:
        """The message of a finished answer."""
        model, context, seed = self._batch.open(body, self._route)
        return message_answer(
            self._batch, body.generate_response, model, context, seed, finished_prompt_tokens(body)
        )

    def stream(self, body: DerenderMessagesStreamRequest) -> MessagesStreamAnswer:
        """The events for an event of the engine, and the state to bring with the next."""
        return guarded(self._events, body, "derender failed")

    def _events(self, body: DerenderMessagesStreamRequest) -> MessagesStreamAnswer:
        if body.stream_state is not None and body.stream_state.parser_state is None:
            raise bad_request("stream_state has lost its parser_state. Send stream_state back unchanged.")
        stream, chunk = self._stream.opening.message(body, self._route), body.generate_chunk
        memory = stream.memory
        events: list[MessageEvent] = []
        if memory.answer is None:
            progress = Progress(streamed_prompt_tokens(body, memory.prompt_tokens))
            events.append(start_event(chunk.request_id, stream.model, progress.input_tokens))
        else:
            progress = msgspec.convert(memory.answer, Progress)
        for choice in [] if memory.ended else chunk.choices:
            news = self._stream.advance(stream, choice)
            memory.ended = memory.ended or news.finish_reason is not None
            self._stream.save(stream, choice)
            events += events_of(news, progress, stream.context, chunk.request_id, memory.tokens)
        memory.answer = progress
        return MessagesStreamAnswer(events, self._stream.opening.close(stream))


def message_answer(
    batch: BatchDerenderer,
    response: GenerateResponse,
    model: str,
    context: Context,
    seed: Sequence[int],
    prompt_tokens: int,
) -> MessageAnswer:
    """The message of a finished answer to a compiled request. `seed`: the ids before the output. Raises
    ApiError."""
    if len(response.choices) != 1:
        raise bad_request(f"a message is one choice (got {len(response.choices)}).")
    choice = response.choices[0]
    if (failure := FAILURES.get(choice.finish_reason or "")) is not None:
        raise ApiError(500, "InternalServerError", failure)
    decoded = batch.decode(choice, context, seed)
    progress = Progress(prompt_tokens)
    writer = BlockWriter(progress, context, _call_ids(context, response.request_id), response.request_id)
    writer.feed(decoded.events)
    writer.end()
    end = _end(decoded.finish_reason, decoded.stop_reason, progress)
    return MessageAnswer(
        id=response.request_id,
        content=blocks_of(writer.take()),
        model=model,
        stop_reason=end.stop_reason,
        stop_sequence=end.stop_sequence,
        usage=message_usage(
            prompt_tokens,
            len(choice.token_ids or ()),
            response.usage.prompt_tokens_details if response.usage else None,
        ),
    )


def start_event(request_id: str, model: str, prompt_tokens: int) -> MessageStart:
    """The first event of a message."""
    return MessageStart(
        MessageAnswer(
            id=request_id,
            content=[],
            model=model,
            stop_reason=None,
            stop_sequence=None,
            usage=MessageUsage(prompt_tokens, 0),
        )
    )


def events_of(
    news: News, progress: Progress, context: Context, request_id: str, tokens: int
) -> list[MessageEvent]:
    """What news of an answer are to its client. `tokens`: of the output so far."""
    writer = BlockWriter(progress, context, _call_ids(context, request_id), request_id)
    writer.feed(news.events)
    writer.feed(news.rest)
    if news.finish_reason is None:
        return writer.take()
    writer.end()
    if (failure := FAILURES.get(news.finish_reason)) is not None:
        return [*writer.take(), ErrorEvent(Failure("api_error", failure))]
    end = _end(news.finish_reason, news.stop_reason, progress)
    usage = MessageUsage(progress.input_tokens, tokens)
    return [*writer.take(), MessageDelta(end, usage), MessageStop()]


def broken_off(
    progress: Progress, context: Context, request_id: str, error: ErrorEvent
) -> list[MessageEvent]:
    """The end of a message of which no more comes."""
    writer = BlockWriter(progress, context, _call_ids(context, request_id), request_id)
    writer.end()
    return [*writer.take(), error]


def _call_ids(context: Context, request_id: str) -> CallIds:
    return CallIds(request_id, 0, context.first_call, nine=context.nine)


def _end(finish_reason: str | None, stop_reason: int | str | None, progress: Progress) -> EndDelta:
    return EndDelta(
        stop_reason_of(finish_reason, stop_reason, progress.called),
        stop_reason if isinstance(stop_reason, str) else None,
    )
