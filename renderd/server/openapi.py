"""The OpenAPI document, from the wire's own types: what is documented is what is decoded and encoded."""

from __future__ import annotations

from typing import Any

import msgspec

import renderd
from renderd.server.routes import GETS, POSTS
from renderd.wire import derender
from renderd.wire.chat import ChatCompletionRequest
from renderd.wire.completion import CompletionRequest
from renderd.wire.errors import ErrorResponse

_REF = "#/components/schemas/{name}"

# Fields that are decoded only when they are needed, and what they hold then.
_RAW = (
    (derender.DerenderChatRequest, "chat_request", ChatCompletionRequest),
    (derender.DerenderChatStreamRequest, "chat_request", ChatCompletionRequest),
    (derender.DerenderChatStreamRequest, "prompt_token_ids", list[int]),
    (derender.DerenderCompletionRequest, "completion_request", CompletionRequest),
    (derender.DerenderCompletionStreamRequest, "completion_request", CompletionRequest),
    (derender.DerenderCompletionStreamRequest, "prompt_token_ids", list[int]),
)

_ERRORS = {
    "400": "The body does not fit its schema, or breaks a rule.",
    "404": "The model is not served here.",
    "413": "The body is too large.",
}


def document(root_path: str = "") -> dict[str, Any]:
    """The OpenAPI 3.1 document of the server's routes."""
    types = [kind for post in POSTS for kind in (post.request, post.response)]
    types += [get.response for get in GETS if get.response is not None]
    types += [kind | None for _, _, kind in _RAW] + [ErrorResponse]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    for owner, name, kind in _RAW:
        described = components[owner.__name__]["properties"][name]
        described.update(schema_of[repr(kind | None)])
    paths: dict[str, Any] = {}
    for post in POSTS:
        operation = _operation(post.summary, _content(schema_of[repr(post.response)]))
        operation["requestBody"] = {"required": True, "content": _content(schema_of[repr(post.request)])}
        for status, description in _ERRORS.items():
            error = {"description": description, "content": _content(schema_of[repr(ErrorResponse)])}
            operation["responses"][status] = error
        paths[post.path] = {"post": operation}
    for get in GETS:
        content = None if get.response is None else _content(schema_of[repr(get.response)])
        methods = ("GET", *get.methods)
        paths[get.path] = {method.lower(): _operation(get.summary, content) for method in methods}
    paths["/metrics"] = {
        "get": _operation("Prometheus metrics.", {"text/plain": {"schema": {"type": "string"}}})
    }
    result: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "renderd", "version": renderd.__version__, "description": renderd.__doc__},
    }
    if root_path:
        result["servers"] = [{"url": root_path}]
    return result | {"paths": paths, "components": {"schemas": components}}


def _operation(summary: str, content: dict[str, Any] | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Success."}
    if content is not None:
        answer["content"] = content
    return {"summary": summary, "responses": {"200": answer}}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
