"""`/v1/messages`: a request of Anthropic's API in, the message or its events out (contract D.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renderd import telemetry
from renderd.derender.blocks import Progress
from renderd.derender.messages import broken_off, events_of, message_answer, start_event
from renderd.gateway.desk import Desk, answer_json, encoded
from renderd.gateway.prepared import Prepared, prompt_of, session_of
from renderd.render.chat import count_chat, render_chat
from renderd.render.messages import MessagesReader
from renderd.wire.anthropic_answers import (
    ContextManagement,
    MessageDelta,
    MessageEvent,
    MessageStop,
    TokenCount,
    error_event,
    message_usage,
)
from renderd.wire.decode import parse_object
from renderd.wire.errors import ApiError
from renderd.wire.generate import GenerateChunk, GenerateResponse


class MessagesFace:
    """See Face."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._reader = MessagesReader(desk.server)

    def prepare(self, body: bytes, request_id: str | None) -> Prepared:
        """A message that is rendered."""
        desk = self._desk
        began = telemetry.clock()
        raw = parse_object(body)
        request = self._reader.read(raw)
        telemetry.spent("decode", began)
        generate = render_chat(desk.server, request, request_id)
        verdict = desk.setup.prompt_verdict(request, generate.token_ids)
        return Prepared(
            request_id=generate.request_id,
            model=desk.setup.model_name(request.model),
            context=desk.setup.chat_context(request, verdict),
            verdict=verdict,
            streams=bool(request.stream),
            include_usage=True,
            session=session_of(raw),
            prompts=[prompt_of(generate)],
        )

    def finish(self, prepared: Prepared, responses: Sequence[GenerateResponse]) -> bytes:
        """The message."""
        response, prompt = responses[0], prepared.prompts[0]
        response.request_id = prepared.request_id
        answer = message_answer(
            self._desk.batch, response, prepared.model, prepared.context, prompt.tail, prompt.count
        )
        return answer_json(answer)

    def count(self, body: bytes, request_id: str | None) -> bytes:
        """How many tokens the prompt of a message has. Raises ApiError."""
        began = telemetry.clock()
        request = self._reader.read_to_count(parse_object(body))
        telemetry.spent("decode", began)
        tokens = count_chat(self._desk.server, request)
        return encoded(TokenCount(tokens, ContextManagement(tokens)))

    def writer(self, prepared: Prepared) -> MessageWriter:
        """Writes the events."""
        return MessageWriter(self._desk, prepared)

    def failure(self, error: ApiError) -> bytes:
        """An error as Anthropic's API says it."""
        return encoded(error_event(error))


class MessageWriter:
    """See Writer. The last events wait for what the engine says of its cache, which comes behind them."""

    def __init__(self, desk: Desk, prepared: Prepared) -> None:
        self._prepared = prepared
        self._live = desk.live(prepared)
        self._progress = Progress(prepared.prompts[0].count)
        self._last: list[MessageEvent] = []
        self._details: dict[str, Any] | None = None

    @property
    def cut(self) -> bool:
        return self._live.cut

    def begin(self) -> bytes:
        prepared = self._prepared
        return _written([start_event(prepared.request_id, prepared.model, self._progress.input_tokens)])

    def read(self, event: GenerateChunk) -> bytes:
        prepared, choice, pieces = self._prepared, self._live.choices[0], b""
        if event.usage is not None:
            self._details = event.usage.prompt_tokens_details
        for said in event.choices:
            if choice.ended:
                break
            news = choice.read(said)
            events = events_of(news, self._progress, prepared.context, prepared.request_id, choice.tokens)
            if events and isinstance(events[-1], MessageStop):
                self._last = events[-2:]
                del events[-2:]
            pieces += _written(events)
        return pieces

    def end(self) -> bytes:
        last, self._last = self._last, []  # if they cannot be written, an error is
        for event in last:
            if isinstance(event, MessageDelta):
                tokens = self._live.choices[0].tokens
                event.usage = message_usage(self._progress.input_tokens, tokens, self._details)
        return _written(last)

    def failure(self, error: ApiError) -> bytes:
        if self._last:  # all was said
            return self.end()
        prepared = self._prepared
        return _written(broken_off(self._progress, prepared.context, prepared.request_id, error_event(error)))


def _written(events: Sequence[MessageEvent]) -> bytes:
    """Events as server-sent ones."""
    return b"".join([b"event: %b\ndata: %b\n\n" % (_kind(event), encoded(event)) for event in events])


def _kind(event: MessageEvent) -> bytes:
    return str(event.__struct_config__.tag).encode()
