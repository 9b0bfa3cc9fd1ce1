"""Metrics of the engines behind a server, and the route to them as the flags say."""

from __future__ import annotations

from renderd.engine.client import Timeouts
from renderd.gateway.engines import Engine, Engines
from renderd.gateway.route import EngineRoute, KvEvent, Outcome, RouteOptions
from renderd.server.config import ServerConfig
from renderd.server.families import Registry

_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class EngineMetrics:
    """What a Route tells, in families. Made before anything is forked."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._requests = registry.counter(
            "renderd_engine_requests_total",
            "Requests to engines, by how they ended.",
            ("engine", "outcome"),
        )
        self._seconds = registry.histogram(
            "renderd_engine_stage_seconds",
            "Time that requests spent in each stage of their way through engines.",
            ("engine", "stage"),
            bounds=_BUCKETS,
        )
        self._in_flight = registry.gauge(
            "renderd_engine_in_flight", "Requests that an engine works on.", ("engine",)
        )
        self._healthy = registry.gauge(
            "renderd_engine_healthy", "Workers that find the engine healthy.", ("engine",)
        )
        self._kv = registry.counter(
            "renderd_engine_kv_total", "What happened between prefill and decode.", ("event",)
        )

    def follow(self, engines: Engines) -> None:
        """Show what these do. Called before the workers are forked."""
        for engine in engines.all:
            self._follow(engine)

    def _follow(self, engine: Engine) -> None:
        follow = self._registry.follow
        follow(self._in_flight.labels(engine.label), lambda: engine.in_flight, grows=False)
        follow(self._healthy.labels(engine.label), lambda: engine.alive, grows=False)

    def on_end(self, engine: str, outcome: Outcome) -> None:
        """A request to an engine has ended."""
        self._requests.labels(engine, outcome).inc()

    def on_stage(self, engine: str, stage: str, seconds: float) -> None:
        """A stage of a request is over."""
        self._seconds.labels(engine, stage).observe(seconds)

    def on_kv(self, event: KvEvent) -> None:
        """Something happened between prefill and decode."""
        self._kv.labels(event).inc()


def engine_route(config: ServerConfig, registry: Registry) -> EngineRoute:
    """The route to the engines of the flags, watched by metrics. Made before the workers are forked; each
    starts and closes its own."""
    metrics = EngineMetrics(registry)
    timeouts = Timeouts(
        config.engine_connect_seconds, config.engine_first_token_seconds, config.engine_idle_seconds
    )
    options = RouteOptions(
        config.engine_url,
        config.prefill_url,
        config.engine_retries,
        timeouts,
        config.kv_failure,
        config.engine_api_key,
    )
    route = EngineRoute(options, metrics)
    metrics.follow(route.engines)
    metrics.follow(route.prefill)
    return route
