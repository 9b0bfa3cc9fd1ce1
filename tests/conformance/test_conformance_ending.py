"""A run that a signal ends, or a server that goes, says what it has, and writes its reports."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import fake
import pytest
from test_conformance_references import PAIRS, lines, recorded

from renderd.conformance import main

SIGNALS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Whoever runs tests in the background of a shell has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Ending(fake.Fake):
    """Sends a signal to whoever runs the test, at one of its calls. That nobody waits for the answer then may
    be told on stderr by the server."""

    def __init__(self, number: signal.Signals, at: int) -> None:
        super().__init__()
        self._number = number
        self._at = at

    def answer(self, path: str, body: fake.Json) -> tuple[int, fake.Json]:
        if self.calls == self._at:
            signal.pthread_kill(threading.main_thread().ident or 0, self._number)
        return super().answer(path, body)


def calls(golden: Path, *mode: str) -> int:
    """How many calls a run takes that nobody ends."""
    server = fake.Fake()
    with fake.serving(server) as url:
        main.main(["--url", url, "--cases", str(golden), *mode])
    return server.calls


@pytest.mark.parametrize(("number", "status", "word"), SIGNALS)
@pytest.mark.parametrize("mode", [["--server", "toy"], ["--invariants", "--case", "invariants/toy*"]])
def test_a_run_is_ended(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    status: int,
    word: str,
    mode: list[str],
) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    before = signal.getsignal(number)
    needed = calls(golden, *mode)
    capsys.readouterr()
    names = [str(tmp_path / f"report.{kind}") for kind in ("html", "json", "xml")]
    reports = [part for name in names for part in ("--report", name)]
    with fake.serving(Ending(number, needed - 3)) as url:
        assert main.main(["--url", url, "--cases", str(golden), *mode, *reports]) == status
    said = capsys.readouterr()
    assert f"renderd conformance: ended before all was asked: {word}" in said.err.splitlines()
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["counts"]["pass"] == len(report["cases"]) > 0
    assert f"{len(report['cases'])} cases: {len(report['cases'])} pass" in said.out
    assert report["run"]["notes"][-1] == f"renderd conformance: ended before all was asked: {word}"
    assert all(Path(name).stat().st_size for name in names)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("number", "status", "word"), SIGNALS)
@pytest.mark.parametrize("command", [[], ["record", "--name", "mine"]])
def test_before_anything_is_found(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    status: int,
    word: str,
    command: list[str],
) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    with fake.serving(Ending(number, 0)) as url:
        assert main.main([*command, "--url", url, "--cases", str(golden)]) == status
    said = capsys.readouterr()
    assert f"renderd conformance{' record' * bool(command)}: {word}" in said.err.splitlines()
    assert said.out == ""


@pytest.mark.parametrize(("number", "status", "word"), SIGNALS)
def test_a_recording_is_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals, status: int, word: str
) -> None:
    """What is recorded is whole, and said; the next run records the rest."""
    golden = fake.write(tmp_path / "golden", PAIRS)
    ended, file = recorded(golden, tmp_path, Ending(number, 20), "--server", "toy")
    assert ended == status
    said = capsys.readouterr()
    assert f"renderd conformance record: {word}" in said.err.splitlines()
    assert 0 < len(lines(file)) < len(PAIRS)
    assert f"toy: {len(lines(file))} cases recorded, 0 as they were" in said.out
    assert recorded(golden, tmp_path, fake.Fake(), "--server", "toy")[0] == 0
    assert len(lines(file)) == len(PAIRS)
