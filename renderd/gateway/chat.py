"""`/v1/chat/completions`: a request in, the answer or the chunks of the coupled server out (contract F)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from renderd import telemetry
from renderd.derender import checks
from renderd.gateway.chunks import Chunks
from renderd.gateway.desk import DONE, Desk, answer_json, error_event, named_tokens
from renderd.gateway.prepared import (
    Prepared,
    known_ids,
    prompt_of,
    session_of,
    usage_options,
    wants_times,
)
from renderd.render.chat import render_chat
from renderd.wire.chat import ChatCompletionRequest, decode_chat_request
from renderd.wire.decode import parse_object
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import GenerateChunk, GenerateResponse, GenerateUsage


class ChatFace:
    """See Face."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def prepare(self, body: bytes, request_id: str | None) -> Prepared:
        """A chat that is rendered."""
        desk = self._desk
        began = telemetry.clock()
        raw = parse_object(body)
        request = decode_chat_request(raw)
        telemetry.spent("decode", began)
        if request.use_beam_search:
            raise bad_request("Beam search is not supported by the gateway")
        generate = render_chat(desk.server, request, request_id)
        verdict = desk.setup.prompt_verdict(request, generate.token_ids)
        usage, continuous = usage_options(request.stream, request.stream_options)
        prepared = Prepared(
            request_id=generate.request_id,
            model=desk.setup.model_name(request.model),
            context=desk.setup.chat_context(request, verdict),
            verdict=verdict,
            choices=request.n or 1,
            streams=bool(request.stream),
            include_usage=usage,
            continuous_usage=continuous,
            session=session_of(raw),
            prompts=[prompt_of(generate, self._echo(request) if request.echo else "")],
            prompt_text=None if generate.prompt_text is UNSET else generate.prompt_text,
            weight_versions=request.return_weight_versions,
            stage_times=wants_times(raw),
        )
        if prepared.streams:  # each choice begins with what a whole answer has once
            repeated = len(prepared.prompt_text or "")
            if prepared.context.return_token_ids:
                repeated += len(prepared.prompts[0].ids)
            checks.check_repeated(desk.setup, repeated * prepared.choices)
        return prepared

    def _echo(self, request: ChatCompletionRequest) -> str:
        """The text of the message that the answer goes on with."""
        last = request.messages[-1] if request.messages else {}
        if request.add_generation_prompt and last.get("role") != self._desk.setup.options.response_role:
            return ""
        content = last.get("content")
        if isinstance(content, list):
            return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
        return content if isinstance(content, str) else ""

    def finish(self, prepared: Prepared, responses: Sequence[GenerateResponse]) -> bytes:
        """The chat completion."""
        desk, context, prompt = self._desk, prepared.context, prepared.prompts[0]
        response = responses[0]
        response.request_id = prepared.request_id
        answer = desk.batch.chat_answer(response, prepared.model, context, prompt.tail, prompt.count)
        answer.system_fingerprint = desk.system_fingerprint
        answer.prompt_logprobs = named_tokens(desk.setup, response.prompt_logprobs)
        answer.prompt_token_ids = list(known_ids(prompt)) if context.return_token_ids else None
        answer.prompt_text = prepared.prompt_text
        answer.ec_transfer_params = response.ec_transfer_params
        if response.usage is not None:
            answer.usage.prompt_tokens_details = response.usage.prompt_tokens_details
        for choice, generated in zip(answer.choices, response.choices, strict=True):
            if prompt.echo:
                choice.message.content = prompt.echo + (choice.message.content or "")
            choice.routed_experts = generated.routed_experts
            if prepared.weight_versions:
                choice.weight_versions = generated.weight_versions
        return answer_json(answer)

    def writer(self, prepared: Prepared) -> ChatWriter:
        """Writes the chunks."""
        return ChatWriter(self._desk, prepared)

    def failure(self, error: ApiError) -> bytes:
        """The envelope."""
        return error.body()


class ChatWriter:
    """See Writer."""

    def __init__(self, desk: Desk, prepared: Prepared) -> None:
        self._prepared = prepared
        self._prompt = prepared.prompts[0]
        self._counts_reasoning = desk.counts_reasoning
        self._live = desk.live(prepared)
        self._parsed = prepared.context.parser is not None
        self._details: dict[str, Any] | None = None
        self._metrics: dict[str, Any] = {}
        self._chunks = Chunks(prepared, "chat.completion.chunk", desk.setup.now(), desk.system_fingerprint)

    @property
    def cut(self) -> bool:
        return self._live.cut

    def begin(self) -> bytes:
        """The role of each choice, and what the answer goes on with."""
        prepared, chunks, prompt = self._prepared, self._chunks, self._prompt
        ids = prompt.ids if prepared.context.return_token_ids else b"null"
        role, text = prepared.context.role, prepared.prompt_text
        usages = [self._usage(index) for index in range(prepared.choices)]
        pieces = [chunks.role(index, role, ids, text, usage) for index, usage in enumerate(usages)]
        if prompt.echo:
            pieces += [chunks.echo(index, prompt.echo, usage) for index, usage in enumerate(usages)]
        return b"".join(pieces)

    def read(self, event: GenerateChunk) -> bytes:
        if event.usage is not None:
            self._details = event.usage.prompt_tokens_details
        if event.metrics is not None:
            self._metrics = {**self._metrics, **event.metrics}
        pieces = b""
        for news in event.choices:
            choice = self._live.choices[news.index]
            if choice.ended:
                continue
            said = choice.chat(news)
            weights = news.weight_versions if self._prepared.weight_versions else None
            pieces += self._chunks.chat(news.index, said, self._parsed, weights, self._usage(news.index))
        return pieces

    def _usage(self, index: int) -> bytes:
        if not self._prepared.continuous_usage:
            return b""
        choice = self._live.choices[index]
        details = b',"completion_tokens_details":null'
        if self._counts_reasoning:
            details = b',"completion_tokens_details":{"reasoning_tokens":%d}' % choice.reasoning_tokens
        return self._chunks.usage(self._prompt.count, choice.tokens, details)

    def end(self) -> bytes:
        prompt, tokens = self._prompt.count, self._live.tokens
        usage = GenerateUsage(prompt, prompt + tokens, tokens, self._details)
        if self._counts_reasoning:
            usage.completion_tokens_details = {"reasoning_tokens": self._live.reasoning_tokens}
        return self._chunks.total(usage, self._metrics) + DONE

    def failure(self, error: ApiError) -> bytes:
        return error_event(error)
