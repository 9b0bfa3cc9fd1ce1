"""The ASGI application: routes, errors, documentation, metrics and middleware put together."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from starlette.routing import Route

import renderd
from renderd.server import openapi
from renderd.server.config import ServerConfig
from renderd.server.endpoint import internal_error, worker_pool
from renderd.server.metrics import Metrics, MetricsMiddleware
from renderd.server.middleware import add_middleware
from renderd.server.routes import ShortcutMiddleware, add_routes
from renderd.server.services import Services


def create_app(config: ServerConfig, services: Services, metrics: Metrics) -> FastAPI:
    """The application that answers with `services` and reports to `metrics`.

    Raises StartupError for a middleware that cannot be imported.
    """
    documented = not config.disable_fastapi_docs
    app = FastAPI(
        title="renderd",
        version=renderd.__version__,
        openapi_url="/openapi.json" if documented else None,
        exception_handlers={Exception: _on_defect},
    )
    app.root_path = config.root_path
    endpoints = add_routes(app, config, services, metrics, worker_pool(config.renderer_num_workers))
    if documented:
        described = openapi.document(config.root_path)
        app.openapi = lambda: described  # type: ignore[method-assign]
    handlers = frozenset(route.path for route in app.routes if isinstance(route, Route))
    app.add_middleware(ShortcutMiddleware, endpoints=endpoints)
    app.add_middleware(MetricsMiddleware, metrics=metrics, handlers=handlers)
    add_middleware(app, config)
    return app


async def _on_defect(request: Request, error: Exception) -> Response:
    """The server logs the exception; the client gets the envelope."""
    return Response(internal_error().body(), 500, media_type="application/json")
