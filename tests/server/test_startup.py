"""What is done before requests come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from renderd.server.config import ServerConfig
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
