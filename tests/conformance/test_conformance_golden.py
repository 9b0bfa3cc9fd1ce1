"""Every golden case against `renderd serve` or `renderd engine`, by HTTP: configuration by configuration."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
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
def serving(server: str, log: Path) -> Iterator[str]:
    """The server that a configuration says; its URL."""
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
            [*command, "--host", "127.0.0.1", "--port", str(port)],
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
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if Client(url).get("/health").status == 200:
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


class Replays:
    """The results of each configuration, asked when they are first wanted."""

    def __init__(self, logs: Path) -> None:
        self.divergences = Divergences.load(GOLDEN / "divergences.toml")
        self._logs = logs
        self._results: dict[str, list[Result]] = {}

    def of(self, server: str) -> list[Result]:
        if server not in self._results:
            with serving(server, self._logs / f"{server}.log") as url:
                self._results[server] = replay(Client(url), golden, self.divergences, server)
        return self._results[server]


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> Replays:
    return Replays(tmp_path_factory.mktemp("logs"))


@pytest.mark.parametrize("server", list(golden.servers))
def test_every_case(replays: Replays, server: str) -> None:
    results = replays.of(server)
    assert results
    if any(result.outcome() == "fail" for result in results):
        shown = report.differences(results, verbose=False)
        pytest.fail(f"{shown}\n\n{report.table(results)}", pytrace=False)


def test_no_divergence_is_unneeded(replays: Replays) -> None:
    results = [result for server in golden.servers for result in replays.of(server)]
    assert unneeded(replays.divergences, golden, results) == []
