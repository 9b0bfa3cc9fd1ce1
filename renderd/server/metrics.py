"""Prometheus metrics: vLLM's HTTP families under vLLM's names (contract A.6), and what the parsers met."""

from __future__ import annotations

import time
from collections.abc import Container
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    Summary,
    generate_latest,
)
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NOT_INSTRUMENTED = ("/metrics", "/health", "/load", "/ping", "/version", "/server_info")
_UNKNOWN = "none"
"""The handler of paths that no route has."""
_BUCKETS = (0.1, 0.5, 1)
_FINE_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5),
    *(3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60),
)


class _Series(NamedTuple):
    """The series of one handler, method and group of statuses."""

    requests: Counter
    request_bytes: Summary
    response_bytes: Summary
    seconds: Histogram


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self._requests = Counter(
            "http_requests_total",
            "Requests by method, group of statuses and handler.",
            ("method", "status", "handler"),
            registry=registry,
        )
        self._request_bytes = Summary(
            "http_request_size_bytes",
            "Content-Length of requests by handler.",
            ("handler",),
            registry=registry,
        )
        self._response_bytes = Summary(
            "http_response_size_bytes",
            "Content-Length of responses by handler.",
            ("handler",),
            registry=registry,
        )
        self._seconds = Histogram(
            "http_request_duration_seconds",
            "Time to the end of the response, in few buckets, by handler and method.",
            ("handler", "method"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._fine_seconds = Histogram(
            "http_request_duration_highr_seconds",
            "Time to the end of the response, in many buckets, of all requests.",
            buckets=_FINE_BUCKETS,
            registry=registry,
        )
        self._anomalies = Counter(
            "renderd_parser_anomalies",
            "Times that a parser met output that belongs to no part of the message, by kind.",
            ["kind"],
            registry=registry,
        )
        self._anomaly_characters = Counter(
            "renderd_parser_anomaly_characters",
            "Characters of that output, by kind.",
            ["kind"],
            registry=registry,
        )
        self._series: dict[tuple[str, str, int], _Series] = {}

    def on_anomaly(self, kind: str, characters: int) -> None:
        """A parser met an anomaly of this kind and length."""
        self._anomalies.labels(kind).inc()
        self._anomaly_characters.labels(kind).inc(characters)

    def on_response(
        self, handler: str, method: str, status: int, request_bytes: int, response_bytes: int, seconds: float
    ) -> None:
        """A request was answered."""
        key = (handler, method, status // 100)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(
                self._requests.labels(method, f"{status // 100}xx", handler),
                self._request_bytes.labels(handler),
                self._response_bytes.labels(handler),
                self._seconds.labels(handler, method),
            )
        series.requests.inc()
        series.request_bytes.observe(request_bytes)
        series.response_bytes.observe(response_bytes)
        series.seconds.observe(seconds)
        self._fine_seconds.observe(seconds)

    def exposition(self) -> Response:
        """The answer of /metrics."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class MetricsMiddleware:
    """Reports requests. `handlers`: paths of the routes, which are the values of the label."""

    def __init__(self, app: ASGIApp, metrics: Metrics, handlers: Container[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = path_below_root(scope)
        if any(part in path for part in _NOT_INSTRUMENTED):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, length = 500, 0

        async def observe(message: Message) -> None:
            nonlocal status, length
            if message["type"] == "http.response.start":
                status = message["status"]
                length = _content_length(message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, observe)
        finally:
            self._metrics.on_response(
                path if path in self._handlers else _UNKNOWN,
                scope["method"],
                status,
                _content_length(scope["headers"]),
                length,
                time.perf_counter() - began,
            )


def path_below_root(scope: Scope) -> str:
    """The path below the application's root path, as the router sees it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if path == root or path.startswith(root + "/") else path


def _content_length(headers: list[tuple[bytes, bytes]]) -> int:
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
