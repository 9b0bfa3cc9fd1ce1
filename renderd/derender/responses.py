"""Responses, whole and streamed (contract D.4 and E). What they say is read as a chat answer's is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from renderd.derender.batch import BatchDerenderer, Decoded
from renderd.derender.context import Context
from renderd.derender.echo import Told, echo_of, tell, told_by
from renderd.derender.ids import CallIds
from renderd.derender.items import Answer, ItemWriter
from renderd.derender.message import FAILURES
from renderd.derender.opening import Stream
from renderd.derender.requests import read_object
from renderd.derender.route import MessageRoute, finished_prompt_tokens, streamed_prompt_tokens
from renderd.derender.setup import Setup
from renderd.derender.stream import News, StreamDerenderer, guarded
from renderd.wire.answers import ChatTokenLogprob
from renderd.wire.derender import DerenderResponsesRequest, DerenderResponsesStreamRequest, is_null
from renderd.wire.errors import bad_request
from renderd.wire.generate import ChoiceLogprobs, GenerateChoice, GenerateChunkChoice
from renderd.wire.response_answers import (
    CandidateLogprob,
    IncompleteDetails,
    InputTokensDetails,
    OutputItem,
    OutputLogprob,
    OutputTokensDetails,
    Response,
    ResponseError,
    ResponsesStreamAnswer,
    ResponseStatus,
    ResponseUsage,
)
from renderd.wire.responses import ResponsesRequest, as_chat, decode_responses_request


def _read(value: Raw, loc: str) -> ResponsesRequest | None:
    return None if is_null(value) else decode_responses_request(read_object(value, loc), loc)


_ROUTE: MessageRoute[ResponsesRequest] = MessageRoute("Responses", "responses_request", _read, as_chat, tell)


class ResponsesDerenderer:
    """Derenders responses. Raises ApiError."""

    def __init__(self, setup: Setup, batch: BatchDerenderer, stream: StreamDerenderer) -> None:
        self._setup = setup
        self._batch = batch
        self._stream = stream
        self._in_harmony = setup.model.harmony is not None

    def batch(self, body: DerenderResponsesRequest) -> Response:
        """The Response of a finished answer."""
        response = body.generate_response
        model, context, seed = self._batch.open(body, _ROUTE)
        if len(response.choices) != 1:
            raise bad_request(f"a response is one choice (got {len(response.choices)}).")
        choice = response.choices[0]
        answer = Answer(finished_prompt_tokens(body))
        told = told_by(context)
        writer = self._writer(answer, context, told, response.request_id)
        decoded, read = self._read_choice(choice, context, seed, writer)
        status = _status(decoded.finish_reason)
        writer.end(cut=status != "completed")
        return _response(
            echo_of(told, model),
            response.request_id,
            self._setup.now(),
            status,
            writer.output(),
            self._usage(answer, read, decoded.reasoning_tokens),
            cut_off=decoded.finish_reason == "length",
        )

    def stream(self, body: DerenderResponsesStreamRequest) -> ResponsesStreamAnswer:
        """The events for an event of the engine, and the state to bring with the next."""
        return guarded(self._events, body, "derender failed")

    def _events(self, body: DerenderResponsesStreamRequest) -> ResponsesStreamAnswer:
        if body.stream_state is not None and body.stream_state.parser_state is None:
            raise bad_request("stream_state has lost its parser_state. Send stream_state back unchanged.")
        stream, chunk = self._stream.opening.message(body, _ROUTE), body.generate_chunk
        memory, told = stream.memory, told_by(stream.context)
        first = memory.answer is None
        answer = (
            Answer(streamed_prompt_tokens(body, memory.prompt_tokens)) if first else _answer(memory.answer)
        )
        writer = self._writer(answer, stream.context, told, chunk.request_id)
        if first:
            for kind in ("created", "in_progress"):
                begun = _response(
                    echo_of(told, stream.model), chunk.request_id, memory.created, "in_progress", [], None
                )
                writer.send(f"response.{kind}", response=begun)
        for choice in [] if memory.ended else chunk.choices:
            self._choice(stream, choice, writer, told, chunk.request_id)
        memory.answer = answer
        return ResponsesStreamAnswer(writer.take(), self._stream.opening.close(stream))

    def _choice(
        self, stream: Stream, choice: GenerateChunkChoice, writer: ItemWriter, told: Told, request_id: str
    ) -> None:
        memory, state = stream.memory, stream.state
        entries = self._entries(choice.logprobs, stream.context, state.logprob_context_token_ids)
        news = News()
        for part, logprobs in _parts(choice, stream.context, entries):
            news = self._stream.advance(stream, part)
            writer.feed(news.events, logprobs)
            writer.feed(news.rest, None if logprobs is None else [])
            if news.finish_reason is not None:
                break
        self._stream.save(stream, choice)
        if news.finish_reason is None:
            return
        memory.ended = True
        status = _status(news.finish_reason)
        writer.end(cut=status != "completed")
        ended = _response(
            echo_of(told, stream.model),
            request_id,
            memory.created,
            status,
            writer.output(),
            self._usage(writer.answer, memory.tokens, memory.reasoning_tokens),
            cut_off=news.finish_reason == "length",
        )
        writer.send(f"response.{status}", response=ended)

    def _read_choice(
        self, choice: GenerateChoice, context: Context, seed: Sequence[int], writer: ItemWriter
    ) -> tuple[Decoded, int]:
        """A choice, and the number of its ids up to where it ends."""
        entries, count = self._entries(choice.logprobs, context, ()), len(choice.token_ids or ())
        if not _one_by_one(context, entries):
            decoded = self._batch.decode(choice, context, seed)
            writer.feed(decoded.events)
            return decoded, count
        decoder, end = self._batch.begin(choice, context, seed)
        for index, token_id in enumerate(end.text_ids):
            events = decoder.feed([token_id], tokens_before=index, final=False)
            self._setup.report(events)
            writer.feed(events, _entry_of(entries, index))
            if decoder.search.matched is not None:
                return Decoded([], "stop", decoder.search.matched, decoder.reasoning_tokens), index + 1
        rest = decoder.feed([], tokens_before=len(end.text_ids), final=True, end_token=end.by_token)
        self._setup.report(rest)
        writer.feed(rest, None if entries is None else [])
        return Decoded([], choice.finish_reason, end.stop_reason, decoder.reasoning_tokens), count

    def _entries(
        self, logprobs: ChoiceLogprobs | None, context: Context, before: Sequence[int]
    ) -> list[OutputLogprob] | None:
        """An entry a token, None where nobody asked. `before`: the last ids before the first of them."""
        if logprobs is None or context.hidden or not context.with_logprobs:
            return None
        decoded = self._setup.logprobs.chat(logprobs, context.candidates, before)
        return [_entry(token) for token in (decoded.content if decoded else None) or ()]

    def _usage(self, answer: Answer, output: int, reasoning: int) -> ResponseUsage:
        """Of a model that is spoken to in Harmony with what each turn took: there is one."""
        family = self._setup.family
        of_input, of_output = InputTokensDetails(), OutputTokensDetails()
        if family is not None and family.has_reasoning:
            of_output.reasoning_tokens = reasoning
        if self._in_harmony:
            of_input.input_tokens_per_turn, of_input.cached_tokens_per_turn = [answer.input_tokens], [0]
            of_output.output_tokens_per_turn, of_output.tool_output_tokens_per_turn = [output], [0]
        return ResponseUsage(answer.input_tokens, of_input, output, of_output, answer.input_tokens + output)

    def _writer(self, answer: Answer, context: Context, told: Told, request_id: str) -> ItemWriter:
        prefix = "call_" if self._in_harmony else "chatcmpl-tool-"
        ids = CallIds(request_id, 0, context.first_call, nine=context.nine, prefix=prefix)
        return ItemWriter(answer, context, told, ids, request_id)


def _one_by_one(context: Context, entries: list[OutputLogprob] | None) -> bool:
    """Tokens are read one at a time where it matters which of them is text of a message, or the last."""
    return entries is not None or bool(context.stop)


def _entry_of(entries: list[OutputLogprob] | None, index: int) -> list[OutputLogprob] | None:
    return None if entries is None else entries[index : index + 1]


def _parts(
    choice: GenerateChunkChoice, context: Context, entries: list[OutputLogprob] | None
) -> Iterable[tuple[GenerateChunkChoice, list[OutputLogprob] | None]]:
    """The choice in the parts in which it is read, each with the logprobs of its tokens."""
    ids = choice.token_ids or []
    if len(ids) < 2 or not _one_by_one(context, entries):
        yield choice, entries
        return
    for index, token_id in enumerate(ids):
        one = msgspec.structs.replace(choice, token_ids=[token_id])
        if index < len(ids) - 1:
            one = msgspec.structs.replace(one, finish_reason=None, stop_reason=None)
        yield one, _entry_of(entries, index)


def _answer(value: Any) -> Answer:
    """Raises ValueError for what is none."""
    return msgspec.convert(value, Answer)


def _entry(token: ChatTokenLogprob) -> OutputLogprob:
    tops = [CandidateLogprob(top.token, top.bytes or [], top.logprob) for top in token.top_logprobs]
    return OutputLogprob(token.token, token.bytes or [], token.logprob, tops)


def _status(finish_reason: str | None) -> ResponseStatus:
    """How an answer ended: failed with the engine, incomplete where it was cut or aborted."""
    if finish_reason == "error":
        return "failed"
    return "incomplete" if finish_reason in ("length", "abort") else "completed"


def _response(
    echo: msgspec.Struct,
    name: str,
    created: int,
    status: ResponseStatus,
    output: list[OutputItem],
    usage: ResponseUsage | None,
    cut_off: bool = False,
) -> Response:
    return Response(
        id=name,
        created_at=created,
        error=ResponseError("server_error", FAILURES["error"]) if status == "failed" else UNSET,
        incomplete_details=IncompleteDetails("max_output_tokens") if cut_off else None,
        output=output,
        status=status,
        usage=usage,
        **msgspec.structs.asdict(echo),
    )
