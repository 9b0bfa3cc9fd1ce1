"""Every golden case against `renderd serve` or `renderd engine`, by HTTP: configuration by configuration."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from golden.models import model_path
from renderd.conformance import report
from renderd.conformance.cases import Golden
from renderd.conformance.client import Client
from renderd.conformance.divergences import Divergences
from renderd.conformance.main import GOLDEN
from renderd.conformance.runner import Result, replay, unneeded

golden = Golden(GOLDEN)
COMMAND = "import sys; from renderd.cli import main; sys.exit(main())"


@contextmanager
def serving(server: str, log: Path, *more: str) -> Iterator[str]:
    """The server that a configuration says, with more flags; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    table = golden.servers[server]
    kind = table.get("kind", "serve")
    # The scripted engine is tokens-only without being told.
    flags = [flag for flag in table["flags"] if kind == "serve" or flag != "--tokens-only"]
    command = [sys.executable, "-c", COMMAND, kind, str(model_path(table["model"])), *flags]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *more, "--host", "127.0.0.1", "--port", str(port)],
            cwd=GOLDEN.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **table.get("env", {})},
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if Client(url).get("/health").status == 200:
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


class Replays:
    """The results of configurations, asked a few at a time in the order in which they are given."""

    def __init__(self, logs: Path, servers: Iterable[str]) -> None:
        self.divergences = Divergences.load(GOLDEN / "divergences.toml")
        self._logs = logs
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._results = {server: self._pool.submit(self._replay, server) for server in servers}

    def _replay(self, server: str) -> list[Result]:
        with serving(server, self._logs / f"{server}.log") as url:
            return replay(Client(url), golden, self.divergences, server)

    def of(self, server: str) -> list[Result]:
        return self._results[server].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def replays(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replays]:
    here = [item for item in request.session.items if item.path == request.path]
    named = [item.callspec.params["server"] for item in here if hasattr(item, "callspec")]
    made = Replays(tmp_path_factory.mktemp("logs"), named if len(named) == len(here) else golden.servers)
    yield made
    made.close()


@pytest.mark.parametrize("server", list(golden.servers))
def test_every_case(replays: Replays, server: str) -> None:
    results = replays.of(server)
    assert results
    if any(result.outcome() not in ("pass", "declared") for result in results):
        shown = report.differences(results, verbose=any(r.outcome() in ("absent", "unfit") for r in results))
        pytest.fail(f"{shown}\n\n{report.table(results)}", pytrace=False)


def test_no_divergence_is_unneeded(replays: Replays) -> None:
    results = [result for server in golden.servers for result in replays.of(server)]
    assert unneeded(replays.divergences, golden, results) == []
