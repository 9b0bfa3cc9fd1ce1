"""`/v1/completions`: a request in, the answer or the chunks of the coupled server out (contract F.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renderd import telemetry
from renderd.derender import checks
from renderd.derender.live import is_cut
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
from renderd.render.completion import render_completion
from renderd.wire.answers import CompletionLogprobs
from renderd.wire.completion import decode_completion_request
from renderd.wire.decode import parse_object
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import (
    ChoiceLogprobs,
    GenerateChunk,
    GenerateResponse,
    GenerateUsage,
    TokenLogprob,
    TopLogprob,
)


class CompletionFace:
    """See Face."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def prepare(self, body: bytes, request_id: str | None) -> Prepared:
        """A completion whose prompts are rendered."""
        desk = self._desk
        began = telemetry.clock()
        raw = parse_object(body)
        request = decode_completion_request(raw)
        telemetry.spent("decode", began)
        if request.use_beam_search:
            raise bad_request("Beam search is not supported by the gateway")
        context = desk.setup.completion_context(request)
        echoes = desk.setup.echoes(request) or [""] * len(request.prompts)
        generates = render_completion(desk.server.model, request, request_id)
        prompts, left, repeated = [], desk.setup.options.max_answer_bytes, 0
        for generate, echo in zip(generates, echoes, strict=True):
            prompt = prompt_of(generate, echo)
            prompts.append(prompt)
            left -= len(prompt.ids)
            if left < 0 and len(prompts) > 1:
                most = desk.setup.options.max_answer_bytes
                raise bad_request(
                    f"The {len(request.prompts)} prompts have more than {most} bytes as token ids "
                    "(--max-answer-bytes): send fewer at a time."
                )
            repeated += request.n * (len(echo) + (len(prompt.ids) if echo or context.return_token_ids else 0))
        checks.check_repeated(desk.setup, repeated)
        first = prompts[0].generate.request_id
        usage, continuous = usage_options(request.stream, request.stream_options)
        return Prepared(
            request_id=first if len(prompts) == 1 else first.removesuffix("-0"),
            model=desk.setup.model_name(request.model),
            context=context,
            choices=request.n,
            streams=bool(request.stream),
            include_usage=usage,
            continuous_usage=continuous,
            session=session_of(raw),
            prompts=prompts,
            weight_versions=request.return_weight_versions,
            stage_times=wants_times(raw),
            silent=bool(request.echo) and request.max_tokens == 0,
        )

    def finish(self, prepared: Prepared, responses: Sequence[GenerateResponse]) -> bytes:
        """The completion."""
        desk, context, prompts = self._desk, prepared.context, prepared.prompts
        for response, prompt in zip(responses, prompts, strict=True):
            response.request_id = prepared.request_id
            response.prompt_token_ids = list(known_ids(prompt)) if context.return_token_ids else None
        echoes = [prompt.echo for prompt in prompts]
        tails = [prompt.tail for prompt in prompts]
        answer = desk.batch.completion_answer(
            responses, prepared.model, context, tails, echoes, prepared.prompt_tokens
        )
        answer.system_fingerprint = desk.system_fingerprint
        if len(responses) == 1:
            answer.ec_transfer_params = responses[0].ec_transfer_params
        shown = iter(answer.choices)
        for response, echo, prompt in zip(responses, echoes, prompts, strict=True):
            prompt_logprobs = named_tokens(desk.setup, response.prompt_logprobs)
            for generated in response.choices:
                choice = next(shown)
                if echo and choice.logprobs is not None and prompt_logprobs is not None:
                    of_prompt = _echoed_logprobs(desk, known_ids(prompt), prompt_logprobs)
                    choice.logprobs = of_prompt if prepared.silent else _joined(of_prompt, choice.logprobs)
                choice.prompt_logprobs = prompt_logprobs
                choice.routed_experts = generated.routed_experts
                if prepared.silent:
                    choice.text = echo
                if prepared.weight_versions:
                    choice.weight_versions = generated.weight_versions
        return answer_json(answer)

    def writer(self, prepared: Prepared) -> CompletionWriter:
        """Writes the chunks."""
        return CompletionWriter(self._desk, prepared)

    def failure(self, error: ApiError) -> bytes:
        """The envelope."""
        return error.body()


def _echoed_logprobs(
    desk: Desk, ids: Sequence[int], logprobs: Sequence[dict[str, dict[str, Any]] | None]
) -> CompletionLogprobs:
    """Log probabilities of the tokens of a prompt. Nothing precedes the first, so it has none."""
    entries = []
    for token_id, entry in zip(ids[1:], logprobs[1:], strict=True):
        tops = [TopLogprob(int(name), candidate["logprob"]) for name, candidate in (entry or {}).items()]
        own = next((top.logprob for top in tops if top.token_id == token_id), 0.0)
        entries.append(TokenLogprob(token_id, own, top_logprobs=tops))
    decoder = desk.setup.logprobs
    first = decoder.completion(ChoiceLogprobs([TokenLogprob(ids[0], 0.0)]), None, ())
    assert first is not None
    first.token_logprobs = [None]
    rest = decoder.completion(ChoiceLogprobs(entries), None, ids[:1])
    assert rest is not None
    return _joined(first, rest)


def _joined(first: CompletionLogprobs, second: CompletionLogprobs) -> CompletionLogprobs:
    """Those of a text that goes on. The second count from its beginning."""
    offset = first.text_offset[-1] + len(first.tokens[-1])
    return CompletionLogprobs(
        [*first.text_offset, *(offset + one for one in second.text_offset)],
        [*first.token_logprobs, *second.token_logprobs],
        [*first.tokens, *second.tokens],
        [*first.top_logprobs, *second.top_logprobs],
    )


class CompletionWriter:
    """See Writer. The choices of all prompts are numbered through."""

    def __init__(self, desk: Desk, prepared: Prepared) -> None:
        self._prepared = prepared
        lives = [desk.live(prepared, at) for at in range(len(prepared.prompts))]
        self._choices = [choice for live in lives for choice in live.choices]
        self._silent = set(range(len(self._choices)))
        self._metrics: dict[str, Any] = {}
        self._chunks = Chunks(prepared, "text_completion", desk.setup.now(), desk.system_fingerprint)

    @property
    def cut(self) -> bool:
        return is_cut(self._choices)

    def begin(self) -> bytes:
        return b""

    def read(self, event: GenerateChunk) -> bytes:
        prepared, pieces = self._prepared, b""
        if event.metrics is not None:
            self._metrics = {**self._metrics, **event.metrics}
        for news in event.choices:
            choice = self._choices[news.index]
            if choice.ended:
                continue
            said = choice.text(news)
            prompt, echo, ids = prepared.prompts[news.index // prepared.choices], "", b"null"
            if prepared.silent:
                said = said._replace(text="")
            if news.index in self._silent:
                self._silent.discard(news.index)
                echo = prompt.echo
                if prepared.context.return_token_ids or echo:
                    ids = prompt.ids
            usage = self._chunks.usage(prompt.count, choice.tokens) if prepared.continuous_usage else b""
            weights = news.weight_versions if prepared.weight_versions else None
            pieces += self._chunks.text(news.index, said, echo, ids, weights, usage)
        return pieces

    def end(self) -> bytes:
        prompt, tokens = self._prepared.prompt_tokens, sum(choice.tokens for choice in self._choices)
        usage = GenerateUsage(prompt, prompt + tokens, tokens)
        return self._chunks.total(usage, self._metrics) + DONE

    def failure(self, error: ApiError) -> bytes:
        return error_event(error)
