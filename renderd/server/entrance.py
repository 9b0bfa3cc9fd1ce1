"""What every request passes on its way in, and every answer on its way out: API keys, the request id,
metrics, the access line (contract A.6, A.7).

POST routes are reached from here without a way through the router, which costs more than a derender chunk.
Those whose answers are one piece are usually not even reached through ASGI, see `connection`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from renderd import telemetry
from renderd.server.admission import Admission
from renderd.server.endpoint import BROKEN_OFF, MAX_DIGITS, Answer, Endpoint, RawHeaders, respond
from renderd.server.keys import KeyStore, guards
from renderd.server.logs import AccessLog
from renderd.server.metrics import Metrics
from renderd.server.traces import Traces

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_NOT_INSTRUMENTED = ("/metrics", "/health", "/load", "/ping", "/version", "/server_info")
_UNKNOWN = "none"
"""The handler of paths that no route has."""
CLIENT_GONE = 499
"""What metrics and logs call an answer that was not sent, as nginx does."""
_CLOSE = (b"connection", b"close")
UNAUTHORIZED = Answer(401, b'{"error":"Unauthorized"}')


class Visit:
    """A request on its way through, from its head to the end of its answer.

    `refused`: it brings no key that it needs. `added`: headers of its answer. `closes`: its connection is to
    end with the answer. `counted`: in metrics, with `handler` as its path.
    """

    __slots__ = (
        "added",
        "began",
        "closes",
        "counted",
        "handler",
        "headers",
        "record",
        "refused",
        "scope",
        "span",
    )

    began: float
    scope: Scope
    headers: Mapping[bytes, bytes]
    added: RawHeaders
    closes: bool
    record: telemetry.Record
    refused: bool
    counted: bool
    handler: str
    span: Span | None


class Entrance:
    """The application as the HTTP server sees it.

    `app` answers whatever is no POST to one of `endpoints`. `routes`: all paths, which are the values of the
    metrics' label. `headers`: of every answer. `traces`: None where nobody wants any.
    """

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, Endpoint],
        routes: Iterable[str],
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
        self._routes = frozenset(routes)
        self._quiet = frozenset(filter(_is_quiet, routes))
        self._keys = keys
        self._with_request_ids = with_request_ids
        self._metrics = metrics
        self._access_log = access_log
        self._traces = traces
        self._headers = headers
        self._admission = admission
        self._root_path = root_path
        whole = {path: endpoint for path, endpoint in endpoints.items() if endpoint.whole}
        self.whole = {(root + path).encode(): whole[path] for root in ("", root_path) for path in whole}
        """The endpoints whose answers are one piece, by the targets of the requests that they answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["root_path"] = self._root_path
        path = path_below_root(scope)
        visit = self.enter(scope, dict(scope["headers"]), path)
        telemetry.begin(visit.record)
        answer = _Answer(send, [*visit.added, _CLOSE] if visit.closes else visit.added)
        try:
            if visit.refused:
                await respond(answer.send, *UNAUTHORIZED)
                return
            if scope["method"] == "POST" and b"origin" not in visit.headers and path in self._endpoints:
                await self._endpoints[path](scope, receive, answer.send)
            else:
                await self._app(scope, receive, answer.send)
        finally:
            self.leave(visit, answer.status, answer.length)

    def enter(self, scope: Scope, headers: Mapping[bytes, bytes], path: str) -> Visit:
        """The head of a request has come, to a path below the root. `leave` has to follow."""
        visit = Visit()
        visit.began = telemetry.clock()
        visit.scope, visit.headers = scope, headers
        method = scope["method"]
        added, request_id = self._headers, headers.get(b"x-request-id") or b"%032x" % random.getrandbits(128)
        if self._with_request_ids:
            added = [*added, (b"x-request-id", request_id)]
        visit.added, visit.closes = added, self._admission.draining
        visit.record = telemetry.Record(request_id.decode("latin-1"))
        visit.handler = path if path in self._routes else _UNKNOWN
        visit.refused = bool(self._keys) and self._refuses(path, method, headers)
        # The key comes before CORS and both before metrics: refused and preflight requests are not counted.
        visit.counted = not (
            visit.refused
            or path in self._quiet
            or (method == "OPTIONS" and b"access-control-request-method" in headers)
            or (visit.handler is _UNKNOWN and _is_quiet(path))
        )
        visit.span = None
        if self._traces is not None and visit.counted:
            visit.span = self._traces.begin(scope, headers, visit.handler, visit.began, visit.record)
        return visit

    def leave(self, visit: Visit, status: int, length: int) -> None:
        """A request was answered, with a body of `length` bytes, or its client is gone."""
        scope, record = visit.scope, visit.record
        seconds = telemetry.clock() - visit.began
        if visit.counted:
            size = _number(visit.headers.get(b"content-length"))
            self._metrics.on_response(visit.handler, scope["method"], status, size, length, seconds, record)
            if self._traces is not None and visit.span is not None:
                self._traces.end(visit.span, scope, visit.handler, status, record)
        self._access_log.write(scope, status, seconds, record.request_id, length)

    def _refuses(self, path: str, method: str, headers: Mapping[bytes, bytes]) -> bool:
        if not guards(method, path):
            return False
        return not self._keys.admits(headers.get(b"authorization", b"").decode("latin-1"))


class _Answer:
    """Watches an answer go out, and adds headers to it. `length`: of its body, in bytes: as it said, else as
    much as has gone."""

    def __init__(self, send: Send, added: RawHeaders) -> None:
        self._send = send
        self._added = added
        self.status = CLIENT_GONE
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


def _is_quiet(path: str) -> bool:
    """Whether requests to a path are not counted."""
    return any(part in path for part in _NOT_INSTRUMENTED)


def _number(text: bytes | None) -> int:
    return int(text) if text is not None and text.isdigit() and len(text) <= MAX_DIGITS else 0
