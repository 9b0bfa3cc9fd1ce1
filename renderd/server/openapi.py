"""The OpenAPI document, from the wire's own types: what is documented is what is decoded and encoded."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, NamedTuple

import msgspec

import renderd
from renderd.server.routes import GETS, POSTS
from renderd.wire import answers, anthropic_answers, derender
from renderd.wire.anthropic import CountTokensRequest, MessagesRequest
from renderd.wire.chat import ChatCompletionRequest
from renderd.wire.completion import CompletionRequest
from renderd.wire.errors import ErrorResponse
from renderd.wire.responses import ResponsesRequest

_REF = "#/components/schemas/{name}"

# Fields that are decoded only when they are needed, and what they hold then.
_RAW = (
    (derender.DerenderChatRequest, "chat_request", ChatCompletionRequest),
    (derender.DerenderChatStreamRequest, "chat_request", ChatCompletionRequest),
    (derender.DerenderChatStreamRequest, "prompt_token_ids", list[int]),
    (derender.DerenderCompletionRequest, "completion_request", CompletionRequest),
    (derender.DerenderCompletionStreamRequest, "completion_request", CompletionRequest),
    (derender.DerenderCompletionStreamRequest, "prompt_token_ids", list[int]),
    (derender.DerenderMessagesRequest, "messages_request", MessagesRequest),
    (derender.DerenderMessagesStreamRequest, "messages_request", MessagesRequest),
    (derender.DerenderMessagesStreamRequest, "prompt_token_ids", list[int]),
    (derender.DerenderResponsesRequest, "responses_request", ResponsesRequest),
    (derender.DerenderResponsesStreamRequest, "responses_request", ResponsesRequest),
    (derender.DerenderResponsesStreamRequest, "prompt_token_ids", list[int]),
)


class WholeRoute(NamedTuple):
    """A route of a gateway. `failure`: the body of an error; `streams`: the answer may be an event stream."""

    path: str
    summary: str
    request: Any
    response: Any
    failure: Any = ErrorResponse
    streams: bool = True


WHOLE = (
    WholeRoute(
        "/v1/chat/completions",
        "Chat request to its answer, or with `stream` to an event stream of chunks. Only with --engine-url.",
        ChatCompletionRequest,
        answers.ChatCompletion,
    ),
    WholeRoute(
        "/v1/completions",
        "Completion request to its answer, or with `stream` to an event stream of chunks. Only with "
        "--engine-url.",
        CompletionRequest,
        answers.Completion,
    ),
    WholeRoute(
        "/v1/messages",
        "Anthropic messages request to its message, or with `stream` to its events. Only with --engine-url.",
        MessagesRequest,
        anthropic_answers.MessageAnswer,
        anthropic_answers.ErrorEvent,
    ),
    WholeRoute(
        "/v1/messages/count_tokens",
        "Anthropic messages request to the number of its prompt's tokens. Only with --engine-url.",
        CountTokensRequest,
        anthropic_answers.TokenCount,
        anthropic_answers.ErrorEvent,
        streams=False,
    ),
)

_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_PROMPTS = [
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    _IDS,
    {"type": "array", "items": _IDS},
    {"type": "null"},
]

_ERRORS = {
    "400": "The body does not fit its schema, or breaks a rule.",
    "404": "The model is not served here.",
    "413": "The body is too large.",
}
_ENGINE_ERRORS = {
    "500": "An engine could not answer.",
    "502": "An engine was lost.",
    "503": "No engine is healthy.",
}


def document(root_path: str = "", whole: Container[str] = ()) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the server's routes. `whole`: those of WHOLE that it has."""
    types = {repr(kind): kind for kind in _types()}
    schemas, components = msgspec.json.schema_components(types.values(), ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))

    def content(*kinds: Any) -> dict[str, Any]:
        schema = [schema_of[repr(kind)] for kind in kinds]
        return {"application/json": {"schema": schema[0] if len(schema) == 1 else {"anyOf": schema}}}

    del components[CompletionRequest.__name__]["properties"]["prompts"]  # made of `prompt`, not sent
    components[CompletionRequest.__name__]["properties"]["prompt"] = {"anyOf": _PROMPTS}
    for owner, name, kind in _RAW:
        components[owner.__name__]["properties"][name] = {**schema_of[repr(kind | None)], "default": None}
    paths: dict[str, Any] = {}
    for post in POSTS:
        operation = _operation(post.summary, content(*post.responses))
        operation["requestBody"] = {"required": True, "content": content(*post.requests)}
        for status, description in _ERRORS.items():
            operation["responses"][status] = {"description": description, "content": content(ErrorResponse)}
        paths[post.path] = {"post": operation}
    for route in WHOLE:
        if route.path in whole:
            stream: dict[str, Any] = {"text/event-stream": {}} if route.streams else {}
            operation = _operation(route.summary, content(route.response) | stream)
            operation["requestBody"] = {"required": True, "content": content(route.request)}
            for status, description in (_ERRORS | (_ENGINE_ERRORS if route.streams else {})).items():
                operation["responses"][status] = {
                    "description": description,
                    "content": content(route.failure),
                }
            paths[route.path] = {"post": operation}
    for get in GETS:
        answer = None if get.response is None else content(get.response)
        methods = ("GET", *get.methods)
        paths[get.path] = {method.lower(): _operation(get.summary, answer) for method in methods}
    text = {"text/plain": {"schema": {"type": "string"}}}
    paths["/metrics"] = {"get": _operation("Prometheus metrics.", text)}
    result: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "renderd", "version": renderd.__version__, "description": renderd.__doc__},
        "paths": paths,
        "components": {"schemas": components},
    }
    if root_path:
        result["servers"] = [{"url": root_path}]
    return result


def _types() -> Iterator[Any]:
    for post in POSTS:
        yield from (*post.requests, *post.responses)
    for route in WHOLE:
        yield from (route.request, route.response, route.failure)
    for get in GETS:
        if get.response is not None:
            yield get.response
    for _, _, kind in _RAW:
        yield kind | None
    yield ErrorResponse


def _operation(summary: str, content: dict[str, Any] | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Success."}
    if content is not None:
        answer["content"] = content
    return {"summary": summary, "responses": {"200": answer}}
