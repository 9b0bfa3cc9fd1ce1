"""Prometheus metrics: vLLM's HTTP families under vLLM's names (contract A.6), and what the parsers met."""

from __future__ import annotations

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, GCCollector, PlatformCollector, ProcessCollector
from prometheus_fastapi_instrumentator import Instrumentator

_NOT_INSTRUMENTED = ["/metrics", "/health", "/load", "/ping", "/version", "/server_info"]


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._anomalies = Counter(
            "renderd_parser_anomalies",
            "Times that a parser met output that belongs to no part of the message, by kind.",
            ["kind"],
            registry=self._registry,
        )
        self._anomaly_characters = Counter(
            "renderd_parser_anomaly_characters",
            "Characters of that output, by kind.",
            ["kind"],
            registry=self._registry,
        )

    def on_anomaly(self, kind: str, characters: int) -> None:
        """A parser met an anomaly of this kind and length."""
        self._anomalies.labels(kind).inc()
        self._anomaly_characters.labels(kind).inc(characters)

    def instrument(self, app: FastAPI) -> None:
        """Measure the routes of `app` and serve /metrics."""
        instrumentator = Instrumentator(excluded_handlers=_NOT_INSTRUMENTED, registry=self._registry)
        instrumentator.add().instrument(app).expose(app, include_in_schema=False)
