"""The scripted engine on the wire: contract G for a `vllm serve --tokens-only`, answered from a script.

No model runs here. It is for tests and demonstrations of what stands around an engine.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakSet

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from renderd.engine.generation import Choice, Generation
from renderd.engine.request import EngineRequest, SamplingParams, check_params, check_prompt, decode_request
from renderd.engine.script import prompt_logprobs, scripts, token_logprob
from renderd.model import Model
from renderd.wire.api import VLLM_VERSION, LoadResponse, model_list
from renderd.wire.decode import check_content_type, parse_object
from renderd.wire.errors import ApiError, schema_error
from renderd.wire.generate import ChoiceLogprobs, GenerateChoice, GenerateChunkChoice, GenerateUsage

logger = logging.getLogger("renderd.engine")


class ScriptedEngine:
    """The model's limits and the requests that run. `delay` is the time a token takes, in seconds."""

    def __init__(self, model: Model, delay: float = 0.0) -> None:
        eos = model.tokenizer.eos_token_id
        if eos is None and not model.eos_token_ids:
            raise ValueError("the model names no EOS token, so a script has no end")
        self.model = model
        self.vocabulary = max(model.hf_config.get("vocab_size") or 0, len(model.tokenizer))
        self._end_token = eos if eos is not None else min(model.eos_token_ids)
        self._delay = delay
        self._running: WeakSet[Generation] = WeakSet()  # a request lives as long as its answer

    def start(self, request: EngineRequest, params: SamplingParams, header_id: str | None) -> Generation:
        """Begin a checked request. Raises ApiError 400 or 404."""
        self.model.check_name(request.model)
        check_params(params, request.output_mode, self.vocabulary)
        check_prompt(request, self.model.max_model_len, self.vocabulary)
        given = request.request_id if isinstance(request.request_id, str) else uuid.uuid4().hex[16:]
        room = self.model.max_model_len - len(request.token_ids)
        wanted = params.max_tokens if isinstance(params.max_tokens, int) else room
        generation = Generation(
            f"generate-tokens-{header_id or given}",
            params,
            scripts(params.extra_args, self.model.tokenizer),
            self._end_token,
            self.model.eos_token_ids,
            min(wanted, room),
            self._delay,
        )
        self._running.add(generation)
        return generation

    def abort(self, request_ids: list[Any]) -> None:
        """End the running requests of these ids, which are those of the answers."""
        for generation in self._running:
            if generation.request_id in request_ids:
                logger.info("aborting %s", generation.request_id)
                generation.abort()

    async def answer(self, generation: Generation, request: EngineRequest, params: SamplingParams) -> bytes:
        """Run to the end and answer in one body."""
        async for _ in generation.run():
            pass
        k = params.prompt_logprobs
        body = {
            "request_id": generation.request_id,
            "model": self.model.served_names[0],
            "created": int(time.time()),
            "usage": _usage(request, sum(len(choice.token_ids) for choice in generation.choices)),
            "prompt_logprobs": None if k is None else prompt_logprobs(request.token_ids, k, self.vocabulary),
            "prompt_token_id_logprobs": None,
            "prompt_token_ids": request.token_ids if request.return_token_ids else None,
            "mm_placeholders": None,
            "metrics": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "output_mode": "tokens",
            "choices": [
                GenerateChoice(
                    index=choice.index,
                    finish_reason=choice.finish_reason,
                    stop_reason=choice.stop_reason,
                    token_ids=choice.token_ids,
                    weight_versions=_weights(choice),
                    logprobs=self._logprobs(params, choice.token_ids),
                )
                for choice in generation.choices
            ],
        }
        return msgspec.json.encode(body)

    async def events(
        self, generation: Generation, request: EngineRequest, params: SamplingParams
    ) -> AsyncIterator[bytes]:
        """Run and answer as server-sent events, one choice an event."""
        options = request.stream_options
        counted = options is not None and options.include_usage
        continuous = options is not None and counted and options.continuous_usage_stats
        prompt_ids = request.token_ids if request.return_token_ids else None
        async for choice, token_ids in generation.run(params.stream_interval or 1):
            count = len(choice.token_ids)
            event: dict[str, Any] = {
                "request_id": generation.request_id,
                "usage": _usage(request, count) if continuous else None,
            }
            if prompt_ids is not None:  # on the first event alone
                event["prompt_token_ids"], prompt_ids = prompt_ids, None
            event["output_mode"] = "tokens"
            event["choices"] = [
                GenerateChunkChoice(
                    index=choice.index,
                    finish_reason=choice.finish_reason,
                    stop_reason=choice.stop_reason,
                    token_ids=token_ids,
                    weight_versions=_weights(choice) if choice.finish_reason else None,
                    logprobs=self._logprobs(params, token_ids),
                )
            ]
            yield _event(msgspec.json.encode(event))
        if counted:
            total = _usage(request, sum(len(choice.token_ids) for choice in generation.choices))
            usage = {key: value for key, value in msgspec.structs.asdict(total).items() if value is not None}
            last = {
                "request_id": generation.request_id,
                "usage": usage,
                "output_mode": "tokens",
                "choices": [],
            }
            yield _event(msgspec.json.encode(last))
        yield _event(b"[DONE]")

    def _logprobs(self, params: SamplingParams, token_ids: list[int]) -> ChoiceLogprobs | None:
        k = params.logprobs
        return (
            None if k is None else ChoiceLogprobs([token_logprob(t, k, self.vocabulary) for t in token_ids])
        )


def _usage(request: EngineRequest, completion: int) -> GenerateUsage:
    prompt = len(request.token_ids)
    return GenerateUsage(prompt, prompt + completion, completion)


def _weights(choice: Choice) -> list[dict[str, Any]]:
    return [{"version": "default", "start": 0, "end": len(choice.token_ids)}]


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def create_app(engine: ScriptedEngine) -> FastAPI:
    """The engine's routes: generate, abort, and what stands around them."""
    app = FastAPI(title="renderd engine (scripted)", openapi_url=None)

    @app.exception_handler(ApiError)
    async def refuse(_: Request, error: ApiError) -> Response:
        return _json(error.body(), error.status)

    @app.post("/inference/v1/generate")
    async def generate(http: Request) -> Response:
        check_content_type(http.headers.get("content-type"))
        request, params = decode_request(await http.body())
        generation = engine.start(request, params, http.headers.get("x-request-id"))
        if request.stream:
            return StreamingResponse(
                engine.events(generation, request, params), media_type="text/event-stream"
            )
        return _json(await engine.answer(generation, request, params))

    @app.post("/inference/v1/abort_requests")
    async def abort_requests(http: Request) -> Response:
        ids = parse_object(await http.body()).get("request_ids")
        if ids is None:
            raise schema_error("Missing 'request_ids' in request body")
        engine.abort(ids if isinstance(ids, list) else [ids])
        return Response()

    @app.get("/v1/models")
    async def models() -> Response:
        return _json(msgspec.json.encode(model_list(engine.model)))

    @app.get("/version")
    async def version() -> Response:
        return _json(msgspec.json.encode({"version": VLLM_VERSION}))

    @app.get("/load")
    async def load() -> Response:
        return _json(msgspec.json.encode(LoadResponse(server_load=0)))

    @app.get("/ping")
    @app.get("/health")
    async def health() -> Response:
        return Response()

    return app


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")
