"""What surrounds every route: API keys, request id header, CORS, the operator's own (contract A.7)."""

from __future__ import annotations

import hashlib
import hmac
import importlib
import inspect
import uuid
from collections.abc import Sequence
from typing import Any, cast

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from renderd.server.config import ServerConfig, StartupError
from renderd.server.endpoint import respond
from renderd.server.metrics import path_below_root

_GUARDED = ("/v1", "/v2", "/inference", "/cohere")


class ApiKeyMiddleware:
    """Refuses guarded paths to requests without one of the keys, before they are routed."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode("utf-8", "surrogateescape")) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = (
            scope["type"] in ("http", "websocket")
            and scope.get("method") != "OPTIONS"
            and path_below_root(scope).startswith(_GUARDED)
        )
        if guarded and not self._admits(Headers(scope=scope).get("authorization", "")):
            await respond(send, 401, b'{"error":"Unauthorized"}')
        else:
            await self._app(scope, receive, send)

    def _admits(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False
        digest = _digest(key.encode("latin-1"))  # the bytes of the header
        # Every key is compared, in constant time, so that the time taken says nothing about any of them.
        return any([hmac.compare_digest(digest, known) for known in self._digests])


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class RequestIdMiddleware:
    """Answers with the request's X-Request-Id, or a fresh one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = Headers(scope=scope).get("x-request-id") or uuid.uuid4().hex

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


def add_middleware(app: FastAPI, config: ServerConfig) -> None:
    """Put the middleware around the application, innermost first. Raises StartupError for an unknown one."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=config.allowed_origins,
        allow_credentials=config.allow_credentials,
        allow_methods=config.allowed_methods,
        allow_headers=config.allowed_headers,
    )
    if config.api_key:
        app.add_middleware(ApiKeyMiddleware, keys=config.api_key)
    if config.enable_request_id_headers:
        app.add_middleware(RequestIdMiddleware)
    for path in config.middleware:
        _add_by_name(app, path)


def _add_by_name(app: FastAPI, path: str) -> None:
    """A class is ASGI middleware; a coroutine function takes a request and what to call next."""
    middleware: Any
    module, _, name = path.rpartition(".")
    try:
        middleware = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise StartupError(f"--middleware {path} cannot be imported: {error}") from error
    if inspect.isclass(middleware):
        app.add_middleware(cast(Any, middleware))
    elif inspect.iscoroutinefunction(middleware):
        app.middleware("http")(middleware)
    else:
        raise StartupError(f"--middleware {path} is neither a class nor a coroutine function")
