"""What an operator puts around the routes: CORS, and middleware of his own (contract A.7)."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, cast

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.types import ASGIApp

from renderd.server.config import ServerConfig, StartupError


def add_cors(app: FastAPI, config: ServerConfig) -> None:
    """Answer requests that name an origin as the flags want it."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=config.allowed_origins,
        allow_credentials=config.allow_credentials,
        allow_methods=config.allowed_methods,
        allow_headers=config.allowed_headers,
    )


def wrapped(app: ASGIApp, config: ServerConfig) -> ASGIApp:
    """The application inside the middleware of --middleware, the first innermost. Raises StartupError for one
    that cannot be used.

    A class is ASGI middleware; a coroutine function takes a request and what to call next.
    """
    for path in config.middleware:
        middleware: Any
        module, _, name = path.rpartition(".")
        try:
            middleware = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise StartupError(f"--middleware {path} cannot be imported: {error}") from error
        if inspect.isclass(middleware):
            app = cast(Any, middleware)(app)
        elif inspect.iscoroutinefunction(middleware):
            app = BaseHTTPMiddleware(app, dispatch=middleware)
        else:
            raise StartupError(f"--middleware {path} is neither a class nor a coroutine function")
    return app
