"""The scripted engine on the wire: contract G for a `vllm serve --tokens-only`, answered from a script.

No model runs here. It is for tests and demonstrations of what stands around an engine.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response

from renderd.engine import kv
from renderd.engine.faults import Droppable, Dropped, Fault, fault_of, overloaded, spoiled, strike
from renderd.engine.generation import Choice, Generation
from renderd.engine.request import EngineRequest, SamplingParams, check_params, check_prompt, decode_request
from renderd.engine.script import prompt_logprobs, scripts, token_logprob
from renderd.model import Model
from renderd.wire.api import VLLM_VERSION, LoadResponse, model_list
from renderd.wire.decode import check_content_type, parse_object
from renderd.wire.errors import ApiError, bad_request, schema_error
from renderd.wire.generate import ChoiceLogprobs, GenerateChoice, GenerateChunkChoice, GenerateUsage

logger = logging.getLogger("renderd.engine")


class ScriptedEngine:
    """The model's limits and the requests that run.

    `delay`: the time a token takes, in seconds. `has_kv`: it hands KV over and takes it. `fault`: of all
    requests. `is_healthy`: what /health says. `counts`: requests, ids to abort and hand-overs that it
    loaded.
    """

    def __init__(
        self, model: Model, delay: float = 0.0, has_kv: bool = False, grammars: bool = False
    ) -> None:
        eos = model.tokenizer.eos_token_id
        if eos is None and not model.eos_token_ids:
            raise ValueError("the model names no EOS token, so a script has no end")
        self.model = model
        self.vocabulary = max(model.hf_config.get("vocab_size") or 0, len(model.tokenizer))
        self._end_token = eos if eos is not None else min(model.eos_token_ids)
        self._delay = delay
        self._has_kv = has_kv
        self._grammars = grammars
        self._running: set[Generation] = set()
        self.fault: Fault | None = None
        self.is_healthy = True
        self.counts = {"requests": 0, "aborts": 0, "loaded": 0}

    @property
    def running(self) -> int:
        """Requests that are not answered."""
        return len(self._running)

    def start(self, request: EngineRequest, params: SamplingParams, header_id: str | None) -> Generation:
        """Begin a checked request. Raises ApiError 400 or 404."""
        self.model.check_name(request.model)
        check_params(params, request.output_mode, self.vocabulary, self._grammars)
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
            _delay(params.extra_args, self._delay),
        )
        self.counts["requests"] += 1
        return generation

    def fault_of(self, request: EngineRequest, params: SamplingParams) -> Fault | None:
        """What goes wrong with a request. Raises ApiError 400 for a fault that is none."""
        fault = fault_of((params.extra_args or {}).get("force_fault")) or self.fault
        if self._takes_kv(request, "do_remote_prefill"):
            if not kv.is_loaded(request.kv_transfer_params or {}, request.token_ids):
                return Fault("error")
            self.counts["loaded"] += 1
        return fault

    def _takes_kv(self, request: EngineRequest, key: str) -> bool:
        params = request.kv_transfer_params
        return self._has_kv and params is not None and params.get(key) is True

    def abort(self, request_ids: list[Any]) -> None:
        """End the running requests of these ids, which are those of the answers."""
        self.counts["aborts"] += len(request_ids)
        for generation in self._running:
            if generation.request_id in request_ids:
                logger.info("aborting %s", generation.request_id)
                generation.abort()

    async def _run(
        self, generation: Generation, interval: int = 1
    ) -> AsyncGenerator[tuple[Choice, list[int]], None]:
        self._running.add(generation)
        try:
            async for news in generation.run(interval):
                yield news
        finally:
            self._running.discard(generation)

    async def answer(self, generation: Generation, request: EngineRequest, params: SamplingParams) -> bytes:
        """Run to the end and answer in one body."""
        async for _ in self._run(generation):
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
            "kv_transfer_params": kv.offer(request.token_ids)
            if self._takes_kv(request, "do_remote_decode")
            else None,
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
    ) -> AsyncGenerator[bytes, None]:
        """Run and answer as server-sent events, one choice an event."""
        options = request.stream_options
        counted = options is not None and options.include_usage
        continuous = options is not None and counted and options.continuous_usage_stats
        prompt_ids = request.token_ids if request.return_token_ids else None
        async with aclosing(self._run(generation, params.stream_interval or 1)) as news:
            async for choice, token_ids in news:
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


def _delay(extra_args: dict[str, Any] | None, default: float) -> float:
    delay = (extra_args or {}).get("force_delay", default)
    if not isinstance(delay, int | float) or not 0 <= delay < 3600:
        raise bad_request("force_delay must be a number of seconds.", "force_delay")
    return delay


async def _with_errors(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Events, and an error as one more (contract G.2)."""
    try:
        async with aclosing(events):
            async for event in events:
                yield event
    except ApiError as error:
        yield _event(error.body())
        yield _event(b"[DONE]")


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
        after = None if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return _json(error.body(), error.status, after)

    @app.post("/inference/v1/generate")
    async def generate(http: Request) -> Response:
        check_content_type(http.headers.get("content-type"))
        request, params = decode_request(await http.body())
        generation = engine.start(request, params, http.headers.get("x-request-id"))
        fault = engine.fault_of(request, params)
        if fault is not None and fault.kind == "refuse":
            raise overloaded()
        if request.stream:
            events = engine.events(generation, request, params)
            return Droppable(
                _with_errors(spoiled(events, fault, generation) if fault is not None else events)
            )
        if fault is not None:
            try:
                await strike(fault, generation)
            except Dropped:
                events = engine.events(generation, request, params)
                return Droppable(spoiled(events, fault, generation))
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
        return Response(status_code=200 if engine.is_healthy else 503)

    @app.get("/script")
    async def script() -> Response:
        return _json(msgspec.json.encode(engine.counts | {"running": engine.running}))

    @app.post("/script")
    async def set_script(http: Request) -> Response:
        said = parse_object(await http.body())
        engine.fault = fault_of(said.get("fault"))
        engine.is_healthy = said.get("healthy", True) is True
        return Response()

    return app


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, "application/json")
