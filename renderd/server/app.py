"""The ASGI application: routes, errors, documentation, metrics and middleware put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from starlette.routing import Route
from starlette.types import ASGIApp

import renderd
from renderd.server import openapi
from renderd.server.admission import Admission
from renderd.server.config import ServerConfig
from renderd.server.entrance import Entrance
from renderd.server.keys import KeyStore
from renderd.server.logs import AccessLog
from renderd.server.long_work import LongWork
from renderd.server.metrics import Metrics
from renderd.server.middleware import add_cors, wrapped
from renderd.server.routes import add_routes, handlers
from renderd.server.services import Services
from renderd.server.traces import Traces
from renderd.wire.errors import internal_error

if TYPE_CHECKING:
    from renderd.gateway.route import Route as EngineRoute


def create_app(
    config: ServerConfig,
    services: Services,
    metrics: Metrics,
    admission: Admission | None = None,
    long_work: LongWork | None = None,
    traces: Traces | None = None,
    route: EngineRoute | None = None,
) -> ASGIApp:
    """The application that answers with `services` and reports to `metrics`.

    `admission`, `long_work`: None makes one. Raises StartupError for a middleware that cannot be imported, or
    a file of keys that cannot be used. `route`: to the engines of a gateway.
    """
    admission = admission or Admission(config)
    long_work = long_work or LongWork(config, handlers(services))
    documented = not config.disable_fastapi_docs
    app = FastAPI(
        title="renderd",
        version=renderd.__version__,
        openapi_url="/openapi.json" if documented else None,
        exception_handlers={Exception: _on_defect},
    )
    app.root_path = config.root_path
    endpoints = add_routes(app, config, services, metrics, admission, long_work, route)
    if documented:
        described = openapi.document(config.root_path, services.gateway.paths if services.gateway else ())
        app.openapi = lambda: described  # type: ignore[method-assign]
    add_cors(app, config)
    entrance = Entrance(
        app,
        endpoints,
        routes=frozenset(route.path for route in app.routes if isinstance(route, Route)),
        keys=KeyStore(config.api_key, config.api_key_file),
        with_request_ids=config.enable_request_id_headers,
        headers=[(b"x-renderd-fingerprint", services.fingerprint.encode())],
        admission=admission,
        metrics=metrics,
        access_log=AccessLog(config),
        traces=traces,
        root_path=config.root_path,
    )
    return wrapped(entrance, config)


async def _on_defect(request: Request, error: Exception) -> Response:
    """The server logs the exception; the client gets the envelope."""
    return Response(internal_error().body(), 500, media_type="application/json")
