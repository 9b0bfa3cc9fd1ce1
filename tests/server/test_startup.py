"""What is done before requests come."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from renderd.server.app import create_app
from renderd.server.config import ServerConfig
from renderd.server.metrics import Metrics
from renderd.server.startup import load, rehearse


def test_a_rehearsal_answers_and_leaves_nothing() -> None:
    services, faster = load(ServerConfig())
    encoder = faster.encoder
    counts = encoder.hits, encoder.misses, encoder.cached_bytes
    chunks: list[bytes] = []
    derender = services.derenderer.chat

    class Derenderer:
        @staticmethod
        def chat(body: bytes) -> bytes:
            chunks.append(derender(body))
            return chunks[-1]

    rehearse(replace(services, derenderer=Derenderer()), encoder)  # type: ignore[arg-type]
    assert chunks and all(b'"stream_state"' in chunk for chunk in chunks)
    assert (encoder.hits, encoder.misses, encoder.cached_bytes) == counts


def test_a_rehearsal_that_fails_keeps_no_server_from_serving() -> None:
    services, faster = load(ServerConfig())

    class Broken:
        @staticmethod
        def chat(body: bytes, request_id: str | None) -> bytes:
            raise KeyError

    broken = replace(services, renderer=Broken())  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        broken.renderer.chat(b"", None)
    rehearse(broken, faster.encoder)


def saying(reason: str | None) -> Callable[[], str | None]:
    return lambda: reason


def test_health_says_no_until_all_is_ready() -> None:
    services, _ = load(ServerConfig())
    reasons = {"loading": 503, "draining": 200, None: 200}
    for reason, status in reasons.items():
        app = create_app(ServerConfig(), replace(services, not_ready=saying(reason)), Metrics())
        for path in ("/health", "/ping"):
            assert TestClient(app).get(path).status_code == status


def test_standard_streams_that_are_closed() -> None:
    script = 'exec "$0" -c "$1" >&- 2>&- <&-'
    code = (
        "import os, sys\n"
        "from renderd.server.main import _open_streams\n"
        "_open_streams()\n"
        "print('x'); os.write(2, b'x')\n"
        "assert os.open('/dev/null', os.O_RDONLY) > 2\n"
    )
    assert subprocess.run(["sh", "-c", script, sys.executable, code]).returncode == 0
