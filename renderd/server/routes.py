"""The routes and what they answer with (contract A.1). One table makes the routes and their documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import FastAPI, Response
from starlette.routing import Route as HttpRoute

import renderd
from renderd.server.admission import Admission
from renderd.server.config import ServerConfig
from renderd.server.endpoint import Brief, Endpoint
from renderd.server.logs import RequestLog
from renderd.server.long_work import Handler, LongWork
from renderd.server.metrics import Metrics
from renderd.server.probes import readiness
from renderd.server.services import Services
from renderd.wire import answers, anthropic_answers, api, derender, response_answers
from renderd.wire.anthropic import MessagesRequest
from renderd.wire.chat import ChatCompletionRequest
from renderd.wire.completion import CompletionRequest
from renderd.wire.generate import GenerateRequest
from renderd.wire.responses import ResponsesRequest

if TYPE_CHECKING:
    from renderd.gateway.route import Route


@dataclass(frozen=True)
class Post:
    """A POST route. `requests` and `responses` are the types that its bodies may have, for documentation.

    `brief`: see Endpoint.
    """

    path: str
    summary: str
    requests: tuple[Any, ...]
    responses: tuple[Any, ...]
    handler: Callable[[Services], Handler]
    brief: Brief


@dataclass(frozen=True)
class Get:
    """A GET route. `response` is None for an answer without a body; `methods` names further methods;
    `wanted` says whether a server has it; `status` is of the answer now."""

    path: str
    summary: str
    response: Any
    answer: Callable[[Services], Any]
    methods: tuple[str, ...] = ()
    wanted: Callable[[ServerConfig], bool] = lambda config: True
    status: Callable[[Services], int] = lambda services: 200


def _brief_derender(body: bytes) -> bool:
    """A few hundred tokens, or a chunk of a stream that has begun, whose prompt need not be read again."""
    return len(body) <= 2048 or (len(body) <= 2**20 and b'"parser_state":"' in body)


def _brief_render(body: bytes) -> bool:
    """A conversation most of which is likely to be remembered. What is new in it may turn out to be long."""
    return len(body) <= 512 * 1024


def _brief_list(body: bytes) -> bool:
    """Some prompts or ids: each of them costs more than a character of text."""
    return len(body) <= 2048


POSTS = (
    Post(
        "/v1/chat/completions/derender",
        "Token ids to a chat answer, or a streamed event to a chunk and the state for the next call.",
        (derender.DerenderChatRequest, derender.DerenderChatStreamRequest),
        (answers.ChatCompletion, answers.ChatStreamAnswer),
        lambda services: _without_id(services.derenderer.chat),
        brief=_brief_derender,
    ),
    Post(
        "/v1/completions/derender",
        "Token ids to a completion, or a streamed event to a chunk and the state for the next call.",
        (derender.DerenderCompletionRequest, derender.DerenderCompletionStreamRequest),
        (answers.Completion, answers.CompletionStreamAnswer),
        lambda services: _without_id(services.derenderer.completion),
        brief=_brief_derender,
    ),
    Post(
        "/v1/chat/completions/render",
        "Chat request to token ids and sampling parameters.",
        (ChatCompletionRequest,),
        (GenerateRequest,),
        lambda services: services.renderer.chat,
        brief=_brief_render,
    ),
    Post(
        "/v1/completions/render",
        "Completion request to token ids and sampling parameters, one object a prompt.",
        (CompletionRequest,),
        (list[GenerateRequest],),
        lambda services: services.renderer.completion,
        brief=_brief_list,
    ),
    Post(
        "/v1/messages/derender",
        "Token ids to a message, or a streamed event to its events and the state for the next call.",
        (derender.DerenderMessagesRequest, derender.DerenderMessagesStreamRequest),
        (anthropic_answers.MessageAnswer, anthropic_answers.MessagesStreamAnswer),
        lambda services: _without_id(services.derenderer.messages),
        brief=_brief_derender,
    ),
    Post(
        "/v1/messages/render",
        "Anthropic messages request to token ids and sampling parameters.",
        (MessagesRequest,),
        (GenerateRequest,),
        lambda services: services.renderer.messages,
        brief=_brief_render,
    ),
    Post(
        "/v1/responses/derender",
        "Token ids to a response, or a streamed event to the response's events and the state for the next "
        "call.",
        (derender.DerenderResponsesRequest, derender.DerenderResponsesStreamRequest),
        (response_answers.Response, response_answers.ResponsesStreamAnswer),
        lambda services: _without_id(services.derenderer.responses),
        brief=_brief_derender,
    ),
    Post(
        "/v1/responses/render",
        "Responses request to token ids and sampling parameters.",
        (ResponsesRequest,),
        (GenerateRequest,),
        lambda services: services.renderer.responses,
        brief=_brief_render,
    ),
    Post(
        "/tokenize",
        "Text or a conversation to token ids.",
        (api.TokenizeCompletionRequest, api.TokenizeChatRequest),
        (api.TokenizeResponse,),
        lambda services: _without_id(services.renderer.tokenize),
        brief=_brief_list,
    ),
    Post(
        "/detokenize",
        "Token ids to text.",
        (api.DetokenizeRequest,),
        (api.DetokenizeResponse,),
        lambda services: _without_id(services.renderer.detokenize),
        brief=_brief_list,
    ),
)


def _health(services: Services) -> int:
    # Until all is ready, the next connection may still come to the process that says so.
    return 503 if services.not_ready() == "loading" else 200


GETS = (
    Get("/v1/models", "The served names.", api.ModelList, lambda services: api.model_list(services.model)),
    Get("/health", "Whether the server is up.", None, lambda services: None, status=_health),
    Get("/ping", "The same as /health.", None, lambda services: None, methods=("POST",), status=_health),
    Get("/health/live", "Always 200.", api.Liveness, lambda services: api.Liveness("live")),
    Get(
        "/health/ready",
        "Whether requests should be sent here: 200, or 503 with the reason.",
        api.Readiness,
        lambda services: readiness(services.not_ready()),
        status=lambda services: 200 if services.not_ready() is None else 503,
    ),
    Get(
        "/version",
        "Releases of the protocol and of renderd, and the fingerprint of the configuration.",
        api.VersionResponse,
        lambda services: api.VersionResponse(
            api.VLLM_VERSION, renderd.__version__, services.fingerprint, services.fingerprint_parts
        ),
    ),
    Get(
        "/load",
        "Load of the engine, of which there is none.",
        api.LoadResponse,
        lambda services: api.LoadResponse(server_load=0),
    ),
    Get(
        "/tokenizer_info",
        "The tokenizer's configuration. Only with --enable-tokenizer-info-endpoint.",
        dict[str, Any],
        lambda services: services.renderer.tokenizer_info(),
        wanted=lambda config: config.enable_tokenizer_info_endpoint,
    ),
)


def handlers(services: Services) -> dict[str, Handler]:
    """What answers the POST routes, by path."""
    found = {post.path: post.handler(services) for post in POSTS}
    return found if services.gateway is None else found | services.gateway.handlers()


def add_routes(
    app: FastAPI,
    config: ServerConfig,
    services: Services,
    metrics: Metrics,
    admission: Admission,
    long_work: LongWork,
    route: Route | None = None,
) -> dict[str, Endpoint]:
    """Register the routes that `config` wants, answered by `services`. Returns the endpoints of the POST
    routes by path. `route`: to the engines of a gateway."""
    answered_by = handlers(services)
    log = RequestLog(config.max_log_len) if config.enable_log_requests else None
    endpoints = {
        post.path: Endpoint(
            post.path,
            answered_by[post.path],
            post.brief,
            long_work,
            admission,
            config.max_body_bytes,
            log,
        )
        for post in POSTS
    }
    if services.gateway is not None and route is not None:
        from renderd.gateway.gateway import COUNT_TOKENS
        from renderd.server.gateway_endpoint import GatewayEndpoint

        endpoints[COUNT_TOKENS] = Endpoint(
            COUNT_TOKENS,
            answered_by[COUNT_TOKENS],
            _brief_render,
            long_work,
            admission,
            config.max_body_bytes,
            log,
            services.gateway.messages.failure,
        )
        for path in services.gateway.faces:
            endpoints[path] = GatewayEndpoint(
                path,
                services.gateway,
                route,
                _brief_render,
                long_work,
                admission,
                config.max_body_bytes,
                log,
            )
    for path, endpoint in endpoints.items():
        app.router.routes.append(HttpRoute(path, endpoint, methods=["POST"]))
    app.add_api_route("/metrics", metrics.exposition, methods=["GET"], include_in_schema=False)
    for get in GETS:
        if not get.wanted(config):
            continue
        app.add_api_route(
            get.path, _answer(get, services), methods=["GET", *get.methods], include_in_schema=False
        )
    return endpoints


def _answer(get: Get, services: Services) -> Callable[[], Any]:
    async def answer() -> Response:
        if get.response is None:
            return Response(status_code=get.status(services))
        body = msgspec.json.encode(get.answer(services))
        return Response(body, get.status(services), media_type="application/json")

    return answer


def _without_id(handler: Callable[[bytes], bytes]) -> Handler:
    return lambda body, request_id: handler(body)
