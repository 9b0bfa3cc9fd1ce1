"""Traces, as a collector in the test receives them."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.gateway.scripted import scripted
from tests.server.running import Running, refused, running

SECRET = "xyzzy-plugh"
CHAT = {"messages": [{"role": "user", "content": SECRET}]}
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """What came, by the path it was sent to."""

    def __init__(self) -> None:
        self.received: queue.Queue[tuple[str, bytes]] = queue.Queue()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.received.put((self.path, body))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self, traces: int = 1) -> tuple[list[Span], dict[str, str]]:
        """The spans of that many requests, and the attributes of who sent them."""
        spans: list[Span] = []
        resource: dict[str, str] = {}
        deadline = time.monotonic() + 20
        while sum(span.kind == Span.SPAN_KIND_SERVER for span in spans) < traces:
            path, body = self.received.get(timeout=max(deadline - time.monotonic(), 0.1))
            assert path == "/v1/traces" and SECRET.encode() not in body
            for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = {a.key: a.value.string_value for a in sent.resource.attributes}
                spans += [span for scope in sent.scope_spans for span in scope.spans]
        return spans, resource


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        thread.join()
        collector.server.server_close()


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def server(collector: Collector) -> Iterator[Running]:
    with running("--otlp-traces-endpoint", collector.url, "--workers", "2", env=SOON) as server:
        yield server


def attributes(span: Span) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def test_a_request_is_a_span_with_one_a_stage(server: Running, collector: Collector) -> None:
    before = time.time_ns()
    answer = server.post("/v1/chat/completions/render", CHAT, **{"x-request-id": "my-id"})
    spans, resource = collector.spans()
    assert resource["service.name"] == "renderd" and resource["service.instance.id"]
    parent = next(span for span in spans if span.kind == Span.SPAN_KIND_SERVER)
    assert parent.name == "POST /v1/chat/completions/render" and not parent.parent_span_id
    assert attributes(parent) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/v1/chat/completions/render",
        "url.path": "/v1/chat/completions/render",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "client.address": "127.0.0.1",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "demo",
        "gen_ai.usage.input_tokens": len(answer.json()["token_ids"]),
        "renderd.request_id": "my-id",
    }
    children = [span for span in spans if span is not parent and span.name != "wait"]
    assert [span.name for span in children] == ["decode", "template", "tokenize", "encode"]
    assert before < parent.start_time_unix_nano < parent.end_time_unix_nano < time.time_ns()
    for span in children:
        assert (span.trace_id, span.parent_span_id) == (parent.trace_id, parent.span_id)
        assert parent.start_time_unix_nano <= span.start_time_unix_nano + 10**6
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= parent.end_time_unix_nano + 10**6


def test_the_callers_trace_is_continued(server: Running, collector: Collector) -> None:
    server.post("/tokenize", {"prompt": "a"}, traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="a=b")
    spans, _ = collector.spans()
    parent = next(span for span in spans if span.kind == Span.SPAN_KIND_SERVER)
    assert (parent.trace_id.hex(), parent.parent_span_id.hex()) == (TRACE, PARENT)
    assert parent.trace_state == "a=b"
    assert {span.trace_id.hex() for span in spans} == {TRACE}


def test_what_the_caller_does_not_sample_is_not_sent(server: Running, collector: Collector) -> None:
    server.post("/tokenize", {"prompt": "a"}, traceparent=f"00-{TRACE}-{PARENT}-00")
    server.get("/health")
    server.post("/tokenize", {"prompt": "a"}, traceparent="00-nonsense-01", tracestate="=,=" * 200)
    spans, _ = collector.spans()
    assert len({span.trace_id for span in spans}) == 1 and spans[0].trace_id.hex() != TRACE


def test_errors_and_unknown_paths(server: Running, collector: Collector) -> None:
    server.post("/v1/chat/completions/render", {"messages": SECRET})
    server.post("/nowhere", {})
    spans, _ = collector.spans(2)
    told = {attributes(s)["url.path"]: s for s in spans if s.kind == Span.SPAN_KIND_SERVER}
    refused, unknown = told["/v1/chat/completions/render"], told["/nowhere"]
    assert attributes(refused)["http.response.status_code"] == 400
    assert refused.status.code == 0  # a client's fault is none of the server's (HTTP conventions)
    assert unknown.name == "POST" and "http.route" not in attributes(unknown)


def test_a_derender(server: Running, collector: Collector) -> None:
    chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [40, 41]}]}
    server.post("/v1/completions/derender", {"stream": True, "generate_chunk": chunk, "stream_state": None})
    spans, _ = collector.spans()
    parent = next(span for span in spans if span.kind == Span.SPAN_KIND_SERVER)
    said = attributes(parent)
    assert said["gen_ai.operation.name"] == "text_completion"
    assert said["gen_ai.usage.output_tokens"] == 2 and said["renderd.state_bytes"] > 0
    assert "gen_ai.usage.input_tokens" not in said


def test_a_gateway() -> None:
    with (
        collecting() as collector,
        scripted() as engines,
        running("--engine-url", engines[0].url, "--otlp-traces-endpoint", collector.url, env=SOON) as server,
    ):
        for stream in (False, True):
            assert server.post("/v1/chat/completions", CHAT | {"stream": stream}).status_code == 200
            spans, _ = collector.spans()
            parent = next(span for span in spans if span.kind == Span.SPAN_KIND_SERVER)
            assert attributes(parent)["gen_ai.operation.name"] == "chat"
            assert attributes(parent)["gen_ai.request.model"] == "demo"
            stages = [span for span in spans if span.name.startswith("engine.")]
            names = ["queue", "first_token", "decode"] if stream else ["queue", "decode"]
            assert [span.name for span in stages] == [f"engine.{name}" for name in names]
            for span in stages:
                assert span.parent_span_id == parent.span_id
                assert attributes(span) == {"renderd.engine": engines[0].url.removeprefix("http://")}
                assert parent.start_time_unix_nano <= span.start_time_unix_nano + 10**6


def test_the_last_spans_are_sent_at_the_end() -> None:
    with (
        collecting() as collector,
        running("--otlp-traces-endpoint", f"{collector.url}/v1/traces") as server,
    ):
        server.post("/tokenize", {"prompt": "a"})
        assert server.stop() == 0
        collector.spans()


def test_a_collector_that_is_away_costs_no_request() -> None:
    flags = ("--otlp-traces-endpoint", "http://127.0.0.1:9", "--log-format", "json")
    with running(*flags, env=SOON) as server:
        for _ in range(3):
            assert server.post("/tokenize", {"prompt": "a"}).status_code == 200
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 10
        said = {json.loads(line)["logger"] for line in server.log}
        assert any(name.startswith("opentelemetry") for name in said)


@pytest.mark.parametrize("url", ["collector:4318", "grpc://collector:4317", "http://"])
def test_an_endpoint_that_is_none(url: str) -> None:
    status, said = refused("--otlp-traces-endpoint", url)
    assert status == 1 and f"--otlp-traces-endpoint {url}" in said


def test_without_the_extra() -> None:
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None; from renderd.server.main import serve;"
        "sys.exit(serve(['--port', '0', '--otlp-traces-endpoint', 'http://collector:4318']))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "renderd serve: error: --otlp-traces-endpoint needs OpenTelemetry: pip install 'renderd[otel]'"
    )


def test_nothing_of_opentelemetry_is_loaded_unasked() -> None:
    program = "import sys, renderd.server.main; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
