"""A server that wants an API key."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fake
import pytest

from renderd.conformance import main

KEY = "sk-of-a-test"


@pytest.fixture
def url() -> Iterator[str]:
    toy = fake.Fake()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = toy.answer(self.path, json.loads(sent or b"{}"))
            if self.headers["Authorization"] != f"Bearer {KEY}":
                status, answer = 401, {"error": "Unauthorized"}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("mode", [[], ["--against"], ["record", "--name", "mine"]])
def test_a_key_is_sent(
    url: str,
    tmp_path: Path,
    mode: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    folder = fake.write(tmp_path, [fake.record("hello there")])
    arguments = [*mode, url] if mode == ["--against"] else mode
    arguments = [*arguments, "--url", url, "--cases", str(folder), "--server", "toy"]
    arguments += ["--into", str(tmp_path)] if "record" in mode else []
    assert main.main(arguments) == 2
    assert "401, does not say which model is served: --api-key is" in capsys.readouterr().err
    assert main.main([*arguments, "--api-key", KEY]) == 0
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert main.main(arguments) == 0
    assert main.main([*arguments, "--api-key", "another"]) == 2
