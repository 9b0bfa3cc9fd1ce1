"""Prometheus metrics: vLLM's HTTP families under vLLM's names (contract A.6), and what the parsers met."""

from __future__ import annotations

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
