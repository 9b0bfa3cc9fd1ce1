"""Prometheus metrics: vLLM's HTTP families under vLLM's names (contract A.6), and renderd's own.

All numbers are those of all processes of the server, whichever of them is asked.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    PlatformCollector,
    generate_latest,
)
from starlette.responses import Response

from renderd.model.segments import Encoder
from renderd.server.families import Registry, Series
from renderd.server.process_metrics import ProcessesCollector
from renderd.server.sink import Sink
from renderd.telemetry import STAGES, Record

_METHODS, _OTHER = ("GET", "HEAD", "POST"), "other"
"""Methods that routes have, and what the others are called."""
_BUCKETS = (0.1, 0.5, 1.0)
_FINE_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5),
    *(3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0),
)
_STAGE_BUCKETS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
_STATE_BUCKETS = (256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0)

_Key = tuple[str, str, int]
"""Handler, method, and the first digit of the status."""


class _Request(NamedTuple):
    """The series of one handler, method and group of statuses."""

    requests: Series
    request_bytes: Series
    response_bytes: Series
    seconds: Series


class Metrics:
    """The metrics of one server.

    `processes`: how many there may be at a time, each of which enters a region of `registry`. `pids`: of all
    that run, for their time and memory. `ready`: what /health/ready says. Families are declared here, before
    anything is forked; `registry` has what to count with.
    """

    def __init__(
        self,
        processes: int = 1,
        pids: Callable[[], list[int]] = lambda: [os.getpid()],
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._shown = CollectorRegistry()
        ProcessesCollector(pids, self._shown)
        PlatformCollector(registry=self._shown)
        is_ready = Gauge("renderd_ready", "1 where /health/ready says so.", registry=self._shown)
        is_ready.set_function(lambda: float(ready()))
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
        self._stages = _stages(registry)
        self._tokens_rendered = registry.counter(
            "renderd_tokens_rendered_total", "Tokens of the prompts that were rendered."
        ).labels()
        self._tokens_derendered = registry.counter(
            "renderd_tokens_derendered_total", "Tokens of the outputs that were derendered."
        ).labels()
        self._replays = registry.counter(
            "renderd_replays_total",
            "Chunks whose stream_state held a history alone, which was read again from its beginning.",
        ).labels()
        self._state_bytes = registry.histogram(
            "renderd_state_bytes",
            "Bytes of parser_state in the states written.",
            bounds=_STATE_BUCKETS,
        ).labels()
        self._anomalies = registry.counter(
            "renderd_parser_anomalies_total",
            "Times that parsers met output that belongs to no part of the message, by parsers and kind.",
            ("parser", "kind"),
        )
        self._anomaly_characters = registry.counter(
            "renderd_parser_anomaly_characters_total",
            "Characters of that output, by parsers and kind.",
            ("parser", "kind"),
        )
        self._in_flight = registry.gauge(
            "renderd_requests_in_flight", "Requests whose answers are not sent."
        ).labels()
        self._queued = registry.gauge("renderd_requests_queued", "Requests whose work has to wait.").labels()
        self._hits = registry.counter(
            "renderd_cache_hits_total", "Segments of prompts whose ids were remembered."
        ).labels()
        self._misses = registry.counter(
            "renderd_cache_misses_total", "Segments of prompts that were tokenized."
        ).labels()
        self._evictions = registry.counter(
            "renderd_cache_evictions_total", "Segments that were forgotten for others."
        ).labels()
        self._cache_bytes = registry.gauge(
            "renderd_cache_bytes", "Bytes of the remembered segments."
        ).labels()
        self._fast = registry.gauge(
            "renderd_fast_encoder",
            "Processes that encode with fastokens, which proved exact on the tokenizer.",
        ).labels()
        self._restarts = registry.counter(
            "renderd_worker_restarts", "Workers that ended unasked and were replaced."
        ).labels()
        self._follow_garbage_collector()
        dropped = registry.counter(
            "renderd_log_lines_dropped_total", "Lines of the log that were dropped, as nobody read them."
        ).labels()
        registry.follow(dropped, lambda: Sink.dropped, grows=True)
        self._known: dict[_Key, _Request] = {}
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

    def follow_admission(self, in_flight: Callable[[], float], queued: Callable[[], float]) -> None:
        """Show what the workers have to do. Called before they are forked."""
        self.registry.follow(self._in_flight, in_flight, grows=False)
        self.registry.follow(self._queued, queued, grows=False)

    def follow_encoder(self, encoder: Encoder, fast: Callable[[], bool]) -> None:
        """Show what the cache of a tokenizer does, and whether it is `fast`. Called before the workers are
        forked."""
        follow = self.registry.follow
        follow(self._hits, lambda: encoder.hits, grows=True)
        follow(self._misses, lambda: encoder.misses, grows=True)
        follow(self._evictions, lambda: encoder.evictions, grows=True)
        follow(self._cache_bytes, lambda: encoder.cached_bytes, grows=False)
        follow(self._fast, fast, grows=False)

    def on_restart(self) -> None:
        """A worker ended unasked."""
        self._restarts.inc()

    def on_response(
        self,
        handler: str,
        method: str,
        status: int,
        request_bytes: int,
        response_bytes: int,
        seconds: float,
        record: Record,
    ) -> None:
        """A request was answered; `record`: what it took and met. `answered` counts them in this process."""
        self.answered += 1
        known = self._known.get((handler, method, status // 100)) or self._series(
            handler, method, status // 100
        )
        known.requests.inc()
        stages = self._stages
        events = [(stages[stage], times[2]) for stage, times in record.stages.items()]
        events += (
            (known.request_bytes, request_bytes),
            (known.response_bytes, response_bytes),
            (known.seconds, seconds),
            (self._fine_seconds, seconds),
        )
        if record.state_bytes:
            events.append((self._state_bytes, record.state_bytes))
        self.registry.observe(events)
        if record.tokens_rendered:
            self._tokens_rendered.inc(record.tokens_rendered)
        if record.tokens_derendered:
            self._tokens_derendered.inc(record.tokens_derendered)
        if record.replays:
            self._replays.inc(record.replays)
        for (parser, kind), (count, characters) in record.anomalies.items():
            self._anomalies.labels(parser, kind).inc(count)
            self._anomaly_characters.labels(parser, kind).inc(characters)

    def _series(self, handler: str, method: str, group: int) -> _Request:
        key = (handler, method, group)
        if method not in _METHODS:  # whoever asks could make series of their own
            method = _OTHER
        made = self._known[key] = _Request(
            self._requests.labels(method, f"{group}xx", handler),
            self._request_bytes.labels(handler),
            self._response_bytes.labels(handler),
            self._seconds.labels(handler, method),
        )
        return made

    def exposition(self) -> Response:
        """The answer of /metrics."""
        self.registry.refresh()
        return Response(generate_latest(self._shown), media_type=CONTENT_TYPE_LATEST)


def _stages(registry: Registry) -> dict[str, Series]:
    family = registry.histogram(
        "renderd_stage_seconds",
        "Time that requests spent in each stage of their work; wait is until it begins.",
        ["stage"],
        bounds=_STAGE_BUCKETS,
    )
    return {stage: family.labels(stage) for stage in STAGES}


def _statistic(generation: int, field: str) -> Callable[[], float]:
    return lambda: float(gc.get_stats()[generation][field])
