"""A real server with an engine behind it."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from golden.models import model_path
from tests.server.running import Running, running

PARSERS = ("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice")


@dataclass
class Deployment:
    """A gateway and the engine that it asks."""

    gateway: Running
    engine: str

    def script(self) -> dict[str, Any]:
        """What the engine tells of itself."""
        told: dict[str, Any] = httpx2.get(f"{self.engine}/script", trust_env=False).json()
        return told

    def tell(self, **what: Any) -> None:
        """Say something to the engine that holds for all requests."""
        httpx2.post(f"{self.engine}/script", json=what, trust_env=False).raise_for_status()


@contextmanager
def engine(*flags: str, model: str = "qwen3") -> Iterator[str]:
    """The URL of a scripted engine in a process of its own."""
    command = [sys.executable, "-m", "renderd", "engine", str(model_path(model)), "--port", "0"]
    process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = None
    for line in process.stderr:
        if found := re.search(r"running on (http://\S+)", line):
            break
    # What it says is read, or it would wait to say more.
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    reader.start()
    try:
        assert found is not None, process.wait()
        yield found[1]
    finally:
        process.kill()
        process.wait()


@contextmanager
def deployed(*flags: str) -> Iterator[Deployment]:
    """Qwen3 with parsers, in front of a scripted engine that takes grammars."""
    with (
        engine("--served-model-name", "qwen3", "--take-grammars") as url,
        running(
            str(model_path("qwen3")), "--served-model-name", "qwen3", *PARSERS, "--engine-url", url, *flags
        ) as gateway,
    ):
        yield Deployment(gateway, url)
