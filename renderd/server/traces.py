"""OpenTelemetry traces: a server span a request, a child span a stage. Nothing a request says is in them.

The stages' spans are written when the request is answered, from its record, so the work itself knows nothing
of them. Engines get the server span as their parent. Needs the extra `otel`. Attributes bear the names of
OpenTelemetry's semantic conventions for HTTP and for generative AI.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.types import Scope

import renderd
from renderd.server.config import ServerConfig, StartupError
from renderd.telemetry import Record

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Tracer, TracerProvider
    from opentelemetry.trace import Span

_PATH = "/v1/traces"
_OPERATIONS = {
    "/v1/chat/completions/": "chat",
    "/v1/messages/": "chat",
    "/v1/responses/": "chat",
    "/v1/completions/": "text_completion",
}
_STOP_SECONDS = 2.0
"""What the last spans get to be sent when the server ends."""


class Traces:
    """Reports requests to a collector.

    The thread that sends them starts with the first request: in the process that answers, behind any fork. At
    most 2,048 spans wait for it (OTEL_BSP_MAX_QUEUE_SIZE); more are dropped.
    """

    def __init__(self, endpoint: str, model: str) -> None:
        """`endpoint`: URL of a collector for OTLP over HTTP; `model`: what answers call the model. Raises
        StartupError."""
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise StartupError(
                f"--otlp-traces-endpoint {endpoint} is no http or https URL such as http://collector:4318{_PATH}"
            )
        try:
            import opentelemetry.exporter.otlp.proto.http.trace_exporter
            import opentelemetry.sdk.trace.export  # noqa: F401 - loaded once, before the processes are forked
        except ImportError:
            raise StartupError(
                "--otlp-traces-endpoint needs OpenTelemetry: pip install 'renderd[otel]'"
            ) from None
        self._endpoint = endpoint if parts.path.strip("/") else endpoint.rstrip("/") + _PATH
        self._model = model
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def begin(
        self, scope: Scope, headers: Mapping[bytes, bytes], route: str, began: float, record: Record
    ) -> Span:
        """The server span of a request. `route`: its path as routes spell it, if it has one; `began`: by
        `telemetry.clock`."""
        from opentelemetry.trace import SpanKind, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        tracer, propagator = self._tracer or self._start(), TraceContextTextMapPropagator()
        carrier = {
            name: headers[name.encode()].decode("latin-1")
            for name in ("traceparent", "tracestate")
            if name.encode() in headers
        }
        span: Span = tracer.start_span(
            f"{scope['method']} {route}" if route.startswith("/") else scope["method"],
            context=propagator.extract(carrier),
            kind=SpanKind.SERVER,
            start_time=_nanoseconds(_zero() + began),
        )
        trace: dict[str, str] = {}
        propagator.inject(trace, set_span_in_context(span))
        record.trace = trace
        return span

    def end(self, span: Span, scope: Scope, route: str, status: int, record: Record) -> None:
        """The request was answered."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        tracer = self._tracer
        assert tracer is not None
        zero = _zero()
        if span.is_recording():
            span.set_attributes(self._attributes(scope, route, status, record))
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))
            inside = set_span_in_context(span)
            stages: list[tuple[str, float, float, dict[str, Any]]] = [
                (stage, first, last, {"renderd.stage.seconds": seconds})
                for stage, (first, last, seconds) in record.stages.items()
            ]
            stages += [
                (f"engine.{stage}", first, last, {"renderd.engine": engine})
                for stage, engine, first, last in record.visits
            ]
            for stage, first, last, attributes in stages:
                child = tracer.start_span(
                    stage, context=inside, attributes=attributes, start_time=_nanoseconds(zero + first)
                )
                child.end(_nanoseconds(zero + last))
        span.end(_nanoseconds(zero + perf_counter()))

    def stop(self) -> None:
        """Send what is left, if the collector takes it soon."""
        if self._provider is not None:
            sending = Thread(target=self._provider.shutdown, daemon=True)  # its own limit is half a minute
            sending.start()
            sending.join(_STOP_SECONDS)

    def _start(self) -> Tracer:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create(
            {
                "service.name": os.environ.get("OTEL_SERVICE_NAME", "renderd"),
                "service.version": renderd.__version__,
                "service.instance.id": str(uuid.uuid4()),
            }
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(self._endpoint)))
        self._tracer = self._provider.get_tracer("renderd", renderd.__version__)  # type: ignore[assignment]
        return self._tracer  # type: ignore[return-value]

    def _attributes(self, scope: Scope, route: str, status: int, record: Record) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "http.request.method": scope["method"],
            "http.response.status_code": status,
            "url.path": scope["path"],
            "url.scheme": scope["scheme"],
            "network.protocol.version": scope["http_version"],
            "renderd.request_id": record.request_id,
        }
        if route.startswith("/"):
            attributes["http.route"] = route
        if peer := scope.get("client"):
            attributes["client.address"] = peer[0]
        if status >= 500:
            attributes["error.type"] = str(status)
        for beginning, operation in _OPERATIONS.items():
            if f"{route}/".startswith(beginning):
                attributes |= {"gen_ai.operation.name": operation, "gen_ai.request.model": self._model}
        if record.tokens_rendered:
            attributes["gen_ai.usage.input_tokens"] = record.tokens_rendered
        if record.tokens_derendered:
            attributes["gen_ai.usage.output_tokens"] = record.tokens_derendered
        if record.state_bytes:
            attributes["renderd.state_bytes"] = record.state_bytes
        if record.anomalies:
            attributes["renderd.parser_anomalies"] = sum(times for times, _ in record.anomalies.values())
        return attributes


def traces_of(config: ServerConfig, model: str) -> Traces | None:
    """What `--otlp-traces-endpoint` asks for. Raises StartupError."""
    return Traces(config.otlp_traces_endpoint, model) if config.otlp_traces_endpoint else None


def _zero() -> float:
    """Unix time when `telemetry.clock` said 0."""
    return time.time() - perf_counter()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
