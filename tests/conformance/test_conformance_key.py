"""A server that wants an API key."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import fake
import pytest

from renderd.conformance import main

KEY = "sk-of-a-test"


@pytest.fixture
def url() -> Iterator[str]:
    answered = fake.replying(fake.Fake())

    def reply(path: str, headers: Message, sent: bytes) -> tuple[int, bytes] | None:
        allowed = headers["Authorization"] == f"Bearer {KEY}"
        return answered(path, headers, sent) if allowed else (401, b'{"error": "Unauthorized"}')

    with fake.listening(reply) as url:
        yield url


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
