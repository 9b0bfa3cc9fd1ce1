"""Log lines: formats, the request's id, what is in none of them, what a line costs in characters."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from renderd import telemetry
from renderd.server.config import ServerConfig
from renderd.server.logs import AccessLog, HumanFormatter, JsonFormatter, RequestLog
from tests.server.running import Running, running

SECRET = "xyzzy-plugh"
SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/v1/x",
    "raw_path": b"/v1/x",
    "query_string": b"a=1",
    "http_version": "1.1",
    "client": ("10.0.0.1", 5),
}


def line(config: ServerConfig, **scope: Any) -> str:
    """What is written for a request."""
    written: list[bytes] = []
    AccessLog(config, written.append).write({**SCOPE, **scope}, 200, 0.00123, "the-id", 42)
    return b"".join(written).decode()


def test_access_line_to_read() -> None:
    expected = 'INFO:     10.0.0.1:5 - "POST /v1/x?a=1 HTTP/1.1" 200 1.2ms 42B [the-id]\n'
    assert line(ServerConfig()) == expected


def test_access_line_in_json() -> None:
    written = json.loads(line(ServerConfig(log_format="json")))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", written.pop("timestamp"))
    assert written == {
        "level": "INFO",
        "logger": "renderd.access",
        "message": "POST /v1/x 200",
        "request_id": "the-id",
        "client": "10.0.0.1:5",
        "method": "POST",
        "path": "/v1/x",
        "status": 200,
        "duration_ms": 1.23,
        "bytes": 42,
    }


@pytest.mark.parametrize(
    "config",
    [
        ServerConfig(disable_uvicorn_access_log=True),
        ServerConfig(disable_access_log_for_endpoints=["/v1/x"]),
        ServerConfig(uvicorn_log_level="warning"),
    ],
)
def test_no_access_line(config: ServerConfig) -> None:
    assert line(config) == ""


@pytest.mark.parametrize("log_format", ["human", "json"])
@pytest.mark.parametrize("path", [b"/a\nb\x1b[0m", "/é\u2028".encode(), b"/" + b"x" * 70000, b"\xff"])
def test_a_request_is_one_line_and_not_too_long(log_format: Any, path: bytes) -> None:
    written = line(ServerConfig(log_format=log_format), raw_path=path, query_string=path, client=None)
    assert written.count("\n") == 1 and written.isascii() and len(written) < 4096


def failing() -> logging.LogRecord:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"cannot use {SECRET}") from error
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    return logging.LogRecord("renderd.server", logging.ERROR, __file__, 1, "failed\nhere", None, info)


@pytest.mark.parametrize("formatter", [HumanFormatter, JsonFormatter])
def test_tracebacks_of_requests_are_without_messages(formatter: Any) -> None:
    record = telemetry.Record("the-id")
    private = record.run(formatter(private=True).format, failing())
    assert SECRET not in private and "KeyError" in private and "ValueError" in private
    assert "in failing" in private and "the-id" in private
    assert SECRET in record.run(formatter(private=False).format, failing())
    outside = formatter(private=True).format(failing())
    assert SECRET in outside and "the-id" not in outside


def test_a_message_of_a_request_is_one_line() -> None:
    record = logging.LogRecord("renderd", logging.INFO, "", 1, "a\nb\x1b[2J", None, None)
    shown = telemetry.Record("i\nd").run(HumanFormatter(private=True).format, record)
    assert "\n" not in shown and "\x1b" not in shown


def test_json_lines_hold_any_text() -> None:
    record = logging.LogRecord("renderd", logging.INFO, "", 1, "\ud800 ü\n", None, None)
    assert json.loads(JsonFormatter(private=True).format(record))["message"] == "\\ud800 ü\n"


def test_bodies_are_cut(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("renderd"), "propagate", True)
    caplog.set_level(logging.INFO)
    RequestLog(3).received("äöü€x".encode())
    RequestLog(None).answered(b"\xffabc")
    assert [record.getMessage() for record in caplog.records] == ["received äöü", "answered \\xffabc"]


@pytest.fixture(scope="module")
def json_server() -> Iterator[Running]:
    with running("--log-format", "json", "--enable-request-id-headers") as server:
        yield server


def ask(server: Running) -> None:
    chat = {"messages": [{"role": "user", "content": SECRET}]}
    assert server.post("/v1/chat/completions/render", chat, **{"x-request-id": "my-id"}).status_code == 200
    bad = {"messages": [{"role": "user", "content": [SECRET]}]}
    assert server.post("/v1/chat/completions/render", bad).status_code == 400


def test_a_server_logs_json_alone(json_server: Running) -> None:
    ask(json_server)
    answered = json_server.get("/v1/models")
    json_server.stop()
    lines = [json.loads(text) for text in json_server.log]
    assert all(entry.keys() >= {"timestamp", "level", "logger", "message"} for entry in lines)
    access = [entry for entry in lines if entry["logger"] == "renderd.access"]
    assert [(entry["method"], entry["path"], entry["status"]) for entry in access] == [
        ("POST", "/v1/chat/completions/render", 200),
        ("POST", "/v1/chat/completions/render", 400),
        ("GET", "/v1/models", 200),
    ]
    assert access[0]["request_id"] == "my-id"
    assert access[2]["request_id"] == answered.headers["x-request-id"]
    assert access[2]["bytes"] == len(answered.content)
    assert all(entry["request_id"] for entry in access)
    assert SECRET not in "".join(json_server.log)


def test_bodies_are_logged_on_request() -> None:
    with running("--enable-log-requests", "--max-log-len", "60") as server:
        ask(server)
        server.stop()
        lines = [text for text in server.log if "received" in text or "answered" in text]
        assert len(lines) == 4 and all(SECRET in text for text in lines[::2])
        assert "[my-id]" in lines[0] and "[my-id]" in lines[1]
