"""Servers as processes of their own: started on a free port, awaited, ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx

REPOSITORY = Path(__file__).resolve().parent.parent
LOGS = REPOSITORY / ".cache" / "logs"
STARTUP_SECONDS = 300


@contextlib.contextmanager
def server(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server that takes --host and --port and answers /health. Yields its base URL.

    Raises RuntimeError naming the log when it does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        # A session of its own, so that its worker processes end with it.
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_healthy(process, url, log)
        yield url
    finally:
        _end(process)


def renderd_serve(
    model: Path, flags: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> contextlib.AbstractContextManager[str]:
    """`renderd serve` as a server."""
    return server([sys.executable, "-m", "renderd", "serve", relative(model), *flags], log, environment)


def relative(model: Path) -> str:
    """Answers name the model's path: none should depend on where the repository lies."""
    return os.path.relpath(model, REPOSITORY) if model.is_relative_to(REPOSITORY) else str(model)


def _wait_until_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/health").status_code == 200:
                return
        time.sleep(0.5)
    raise RuntimeError(f"the server did not start, see {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
