"""Prometheus metrics: vLLM's HTTP families under vLLM's names (contract A.6), and what the parsers met.

All numbers are those of all processes of the server, whichever of them is asked.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, PlatformCollector, generate_latest
from starlette.responses import Response

from renderd.server.families import Registry, Series
from renderd.server.process_metrics import ProcessesCollector

_BUCKETS = (0.1, 0.5, 1.0)
_FINE_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5),
    *(3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0),
)


class _Request(NamedTuple):
    """The series of one handler, method and group of statuses."""

    requests: Series
    request_bytes: Series
    response_bytes: Series
    seconds: Series


class Metrics:
    """The metrics of one server.

    `processes`: how many there may be at a time, each of which enters a region of `registry`. `pids`: of all
    that run, for their time and memory. Families are declared here, before anything is forked; `registry` has
    what to count with.
    """

    def __init__(self, processes: int = 1, pids: Callable[[], list[int]] = lambda: [os.getpid()]) -> None:
        self._shown = CollectorRegistry()
        ProcessesCollector(pids, self._shown)
        PlatformCollector(registry=self._shown)
        registry = self.registry = Registry(processes)
        self._shown.register(registry)
        self._requests = registry.counter(
            "http_requests_total",
            "Requests by method, group of statuses and handler.",
            ("method", "status", "handler"),
        )
        self._request_bytes = registry.summary(
            "http_request_size_bytes", "Content-Length of requests by handler.", ("handler",)
        )
        self._response_bytes = registry.summary(
            "http_response_size_bytes", "Content-Length of responses by handler.", ("handler",)
        )
        self._seconds = registry.histogram(
            "http_request_duration_seconds",
            "Time to the end of the response, in few buckets, by handler and method.",
            ("handler", "method"),
            bounds=_BUCKETS,
        )
        self._fine_seconds = registry.histogram(
            "http_request_duration_highr_seconds",
            "Time to the end of the response, in many buckets, of all requests.",
            bounds=_FINE_BUCKETS,
        ).labels()
        self._anomalies = registry.counter(
            "renderd_parser_anomalies",
            "Times that a parser met output that belongs to no part of the message, by kind.",
            ["kind"],
        )
        self._anomaly_characters = registry.counter(
            "renderd_parser_anomaly_characters", "Characters of that output, by kind.", ["kind"]
        )
        self._restarts = registry.counter(
            "renderd_worker_restarts", "Workers that ended unasked and were replaced."
        ).labels()
        self._follow_garbage_collector()
        self._known: dict[tuple[str, str, int], _Request] = {}
        self.answered = 0

    def _follow_garbage_collector(self) -> None:
        for name, text, field in (
            ("python_gc_objects_collected", "Objects collected during gc", "collected"),
            ("python_gc_objects_uncollectable", "Uncollectable objects found during GC", "uncollectable"),
            ("python_gc_collections", "Number of times this generation was collected", "collections"),
        ):
            family = self.registry.counter(name, text, ["generation"])
            for generation in range(3):
                self.registry.follow(
                    family.labels(str(generation)), _statistic(generation, field), grows=True
                )

    def on_anomaly(self, kind: str, characters: int) -> None:
        """A parser met an anomaly of this kind and length."""
        self._anomalies.labels(kind).inc()
        self._anomaly_characters.labels(kind).inc(characters)

    def on_restart(self) -> None:
        """A worker ended unasked."""
        self._restarts.inc()

    def on_response(
        self, handler: str, method: str, status: int, request_bytes: int, response_bytes: int, seconds: float
    ) -> None:
        """A request was answered. `answered` counts them in this process."""
        self.answered += 1
        key = (handler, method, status // 100)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Request(
                self._requests.labels(method, f"{status // 100}xx", handler),
                self._request_bytes.labels(handler),
                self._response_bytes.labels(handler),
                self._seconds.labels(handler, method),
            )
        with self.registry.lock:
            known.requests.inc_unlocked()
            known.request_bytes.observe_unlocked(request_bytes)
            known.response_bytes.observe_unlocked(response_bytes)
            known.seconds.observe_unlocked(seconds)
            self._fine_seconds.observe_unlocked(seconds)

    def exposition(self) -> Response:
        """The answer of /metrics."""
        self.registry.refresh()
        return Response(generate_latest(self._shown), media_type=CONTENT_TYPE_LATEST)


def _statistic(generation: int, field: str) -> Callable[[], float]:
    return lambda: float(gc.get_stats()[generation][field])
