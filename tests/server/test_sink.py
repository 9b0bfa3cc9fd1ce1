"""Lines of the log when nobody reads them."""

from __future__ import annotations

import http.client
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from renderd.server.sink import Sink, SinkHandler

LINE = b"INFO:     " + b"x" * 140 + b"\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def fill(sink: Sink, line: bytes = LINE) -> int:
    """How many lines it takes."""
    before, count = Sink.dropped, 0
    while Sink.dropped == before:
        sink.write(line)
        count += 1
    return count - 1


def everything(reading: int) -> bytes:
    """What is in a pipe."""
    found = []
    while True:
        try:
            found.append(os.read(reading, 1 << 16))
        except BlockingIOError:
            return b"".join(found)


def test_lines_that_nobody_reads_are_dropped_and_that_is_said_later(
    pipe: tuple[int, int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("renderd"), "propagate", True)
    sink = Sink(pipe[1])
    taken = fill(sink)
    assert taken > 3000
    began = time.monotonic()
    for _ in range(99):
        sink.write(LINE)
    assert time.monotonic() - began < 1
    assert everything(pipe[0]) == LINE * taken
    assert caplog.messages == []
    sink.write(LINE)
    sink.write(LINE)
    assert everything(pipe[0]) == LINE * 2
    assert caplog.messages == ["lines of the log that nobody read, and that were dropped: 100"]


def test_a_long_line_is_never_torn(pipe: tuple[int, int]) -> None:
    """Its end comes before the next line, which is dropped as long as there is no room for both."""
    sink = Sink(pipe[1])
    long = b"y" * 3_000_000 + b"\n"
    sink.write(long)
    dropped = Sink.dropped
    sink.write(LINE)
    assert Sink.dropped == dropped + 1
    got = b""
    while not got.endswith(LINE):
        got += everything(pipe[0])
        sink.write(LINE)
    assert got.startswith(long + LINE)


def test_others_that_write_to_the_same_pipe_still_wait(pipe: tuple[int, int]) -> None:
    Sink(pipe[1])
    assert os.get_blocking(pipe[1])


def test_a_pipe_that_may_not_be_opened_again(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container does not run as the user who made it."""

    def refused(*args: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    assert fill(Sink(pipe[1])) > 300


def test_a_socket() -> None:
    """As systemd's journal has it."""
    here, there = socket.socketpair()
    with here, there:
        assert fill(Sink(there.fileno())) > 100
        assert here.recv(len(LINE)) == LINE


def test_files_are_written_to_as_before(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        Sink(file.fileno()).write(LINE)
        Sink(file.fileno()).write(LINE)
    assert (tmp_path / "log").read_bytes() == b"before\n" + LINE * 2


def test_a_pipe_without_a_reader() -> None:
    reading, writing = os.pipe()
    sink = Sink(writing)
    os.close(reading)
    sink.write(LINE)
    os.close(writing)


def test_what_cannot_be_formatted_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    SinkHandler().emit(logging.LogRecord("a", logging.INFO, "", 1, "%d", ("no",), None))
    assert "Logging error" in capsys.readouterr().err


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_a_server_answers_though_nobody_reads_its_log(log_format: str) -> None:
    reading, writing = os.pipe()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "renderd", "serve", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--log-format", log_format], stdout=writing, stderr=subprocess.DEVNULL
    )
    os.close(writing)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        wait_for(connection)
        for _ in range(1600):  # a line each, of more than a thousand bytes
            connection.request("GET", "/" + "x" * 2000)
            assert connection.getresponse().read() == b'{"detail":"Not Found"}'
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        found = re.search(r"^renderd_log_lines_dropped_total (\S+)$", text, re.MULTILINE)
        assert found and float(found[1]) > 100
    finally:
        process.kill()
        process.wait()
        os.close(reading)


def wait_for(connection: http.client.HTTPConnection) -> None:
    """Until the server is ready."""
    for _ in range(600):
        try:
            connection.request("GET", "/health/ready")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                return
        except OSError:
            connection.close()
        time.sleep(0.1)
    raise AssertionError("it does not start")
