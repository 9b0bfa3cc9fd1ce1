"""What every request passes on its way in, and every answer on its way out: API keys, the request id,
metrics, the access line (contract A.6, A.7).

POST routes are reached from here without a way through the router, which costs more than a derender chunk.
"""

from __future__ import annotations

import random
from collections.abc import Container, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from renderd import telemetry
from renderd.server.admission import Admission
from renderd.server.endpoint import BROKEN_OFF, MAX_DIGITS, Endpoint, RawHeaders, respond
from renderd.server.keys import KeyStore, guards
from renderd.server.logs import AccessLog
from renderd.server.metrics import Metrics
from renderd.server.traces import Traces

_NOT_INSTRUMENTED = ("/metrics", "/health", "/load", "/ping", "/version", "/server_info")
_UNKNOWN = "none"
"""The handler of paths that no route has."""
_CLIENT_GONE = 499
"""What metrics and logs call an answer that was not sent, as nginx does."""


class Entrance:
    """The application as the HTTP server sees it.

    `app` answers whatever is no POST to one of `endpoints`. `routes`: all paths, which are the values of the
    metrics' label. `headers`: of every answer. `traces`: None where nobody wants any.
    """

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, Endpoint],
        routes: Container[str],
        keys: KeyStore,
        with_request_ids: bool,
        headers: RawHeaders,
        admission: Admission,
        metrics: Metrics,
        access_log: AccessLog,
        traces: Traces | None,
        root_path: str,
    ) -> None:
        self._app = app
        self._endpoints = endpoints
        self._routes = routes
        self._keys = keys
        self._with_request_ids = with_request_ids
        self._metrics = metrics
        self._access_log = access_log
        self._traces = traces
        self._headers = headers
        self._admission = admission
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = telemetry.clock()
        scope["root_path"] = self._root_path
        path, method, headers = path_below_root(scope), scope["method"], dict(scope["headers"])
        added, request_id = self._headers, headers.get(b"x-request-id") or b"%032x" % random.getrandbits(128)
        record = telemetry.begin(request_id.decode("latin-1"))
        if self._with_request_ids:
            added = [*added, (b"x-request-id", request_id)]
        if self._admission.draining:
            added = [*added, (b"connection", b"close")]
        answer = _Answer(send, added)
        # The key comes before CORS and both before metrics: refused and preflight requests are not counted.
        counted = not (method == "OPTIONS" and b"access-control-request-method" in headers)
        counted = counted and not any(part in path for part in _NOT_INSTRUMENTED)
        handler, span = path if path in self._routes else _UNKNOWN, None
        try:
            if self._refuses(path, method, headers):
                counted = False
                await respond(answer.send, 401, b'{"error":"Unauthorized"}')
                return
            if self._traces is not None and counted:
                span = self._traces.begin(scope, headers, handler, began, record)
            if method == "POST" and b"origin" not in headers and path in self._endpoints:
                await self._endpoints[path](scope, receive, answer.send)
            else:
                await self._app(scope, receive, answer.send)
        finally:
            seconds = telemetry.clock() - began
            if counted:
                size = _number(headers.get(b"content-length"))
                self._metrics.on_response(handler, method, answer.status, size, answer.length, seconds)
                self._metrics.on_work(record)
                if self._traces is not None and span is not None:
                    self._traces.end(span, scope, handler, answer.status, record)
            self._access_log.write(scope, answer.status, seconds, record.request_id, answer.length)

    def _refuses(self, path: str, method: str, headers: Mapping[bytes, bytes]) -> bool:
        if not self._keys or not guards(method, path):
            return False
        return not self._keys.admits(headers.get(b"authorization", b"").decode("latin-1"))


class _Answer:
    """Watches an answer go out, and adds headers to it. `length`: of its body, in bytes: as it said, else as
    much as has gone."""

    def __init__(self, send: Send, added: RawHeaders) -> None:
        self._send = send
        self._added = added
        self.status = _CLIENT_GONE
        self.length = 0
        self._counting = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            self.status = message["status"]
            declared = next((v for n, v in headers if n == b"content-length"), None)
            self.length = _number(declared)
            self._counting = declared is None
            if self._added:
                message["headers"] = [*headers, *self._added]
        else:
            self.status = message.get(BROKEN_OFF, self.status)
            if self._counting:
                self.length += len(message.get("body", b""))
        await self._send(message)


def path_below_root(scope: Scope) -> str:
    """The path below the application's root path, as the router sees it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path


def _number(text: bytes | None) -> int:
    return int(text) if text is not None and text.isdigit() and len(text) <= MAX_DIGITS else 0
