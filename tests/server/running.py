"""A real `renderd serve` on a free port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import httpx2

START_SECONDS = 60


@dataclass
class Running:
    """A server that answers. `log` grows while it runs."""

    process: subprocess.Popen[str]
    url: str
    log: list[str] = field(default_factory=list)

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        """POST bytes as they are, anything else as JSON."""
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        return httpx2.post(
            self.url + path, headers={"content-type": "application/json"} | headers, timeout=60, **content
        )

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return httpx2.get(self.url + path, headers=headers, timeout=60)

    def stop(self) -> int:
        """Ask it to end and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def running(*flags: str, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Start a server with these flags on a free port; it is gone afterwards."""
    command = [sys.executable, "-m", "renderd", "serve", *flags]
    if "--uds" not in flags:
        command += ["--host", "127.0.0.1", *(() if "--port" in flags else ("--port", "0"))]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert process.stdout is not None
    log: list[str] = []
    ready = threading.Event()
    reader = threading.Thread(target=_follow, args=(process.stdout, log, ready), daemon=True)
    reader.start()
    try:
        assert ready.wait(START_SECONDS), "".join(log)
        found = re.search(r'ready on ([^\s"]+)', "".join(log))
        assert found, "".join(log)
        yield Running(process, found[1], log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join(timeout=10)
        process.stdout.close()


def _follow(output: IO[str], log: list[str], ready: threading.Event) -> None:
    for line in output:
        log.append(line)
        if "ready on " in line:
            ready.set()
    ready.set()


def refused(*flags: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit status and last line of a server that does not start."""
    result = subprocess.run(
        [sys.executable, "-m", "renderd", "serve", "--port", "0", *flags],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        env={**os.environ, **(env or {})},
    )
    assert "Traceback" not in result.stderr
    return result.returncode, result.stderr.splitlines()[-1]
