"""`renderd bench start` and `renderd bench memory`: how soon a server is ready, and what its processes hold.

Ready is the first 200 of /health, asked every 10 ms from the start of the command on. Memory is read when
the server has settled: `rss` counts pages that processes share in each of them, `pss` counts a page that n
processes share as one nth.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec

from renderd.conformance.bench.cpu import CpuClock, ProcessError, settled
from renderd.conformance.bench.tables import Cells, digits, whole
from renderd.conformance.bench.target import Target
from renderd.conformance.client import Client

PATIENCE = 300.0
"""Seconds that a server has to become ready."""


class Process(msgspec.Struct):
    """A process of a server. Memory in MB (10^6 bytes)."""

    pid: int
    name: str
    rss: float
    pss: float


class MemoryRow(msgspec.Struct):
    """The processes of a running server, children included."""

    target: str
    processes: list[Process]


class StartRow(msgspec.Struct):
    """One start: seconds, and CPU seconds of all processes, until /health answered 200."""

    target: str
    wall: float
    cpu: float
    processes: list[Process]


def memory(target: Target) -> MemoryRow:
    """What a running server holds now. Raises ProcessError when its memory cannot be read."""
    return MemoryRow(target.name, _processes(target.clock.pids))


def start(name: str, command: Sequence[str]) -> StartRow:
    """Starts a server that takes --host and --port, and ends it.

    Raises RuntimeError with the end of its output when it does not become ready.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        # A session of its own, so that its worker processes end with it.
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with _ended(process):
            if not _ready(process, f"http://127.0.0.1:{port}"):
                output.seek(0)
                last = output.read()[-500:].decode("utf-8", "replace").strip()
                raise RuntimeError(f"{shlex.join(command)}: did not become ready: {last}")
            cpu, wall = CpuClock([process.pid]).read(), time.perf_counter() - began
            return StartRow(name, wall, cpu, _processes(settled(lambda: [process.pid]).pids))


def _ready(process: subprocess.Popen[bytes], url: str) -> bool:
    """Waits for it. False when the server ends or takes too long."""
    client = Client(url, timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if client.get("/health").status == 200:
                client.close()
                return True
        time.sleep(0.01)
    return False


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _processes(pids: Iterable[int]) -> list[Process]:
    return [_process(pid) for pid in pids]


def _process(pid: int) -> Process:
    try:
        fields = dict(_fields(Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()))
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError as error:
        raise ProcessError(f"process {pid}: its memory cannot be read: {error}") from None
    return Process(pid, name, fields["Rss"], fields["Pss"])


def _fields(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and value.endswith(" kB"):
            yield name, int(value.split()[0]) * 1024 / 1e6


def start_lines(rows: Sequence[StartRow]) -> list[Cells]:
    out: list[Cells] = [
        ("seconds to ready", _medians({(row.target, row.wall) for row in rows}), digits),
        ("CPU until then, s", _medians({(row.target, row.cpu) for row in rows}), digits),
    ]
    return out + memory_lines(rows)


def memory_lines(rows: Sequence[StartRow | MemoryRow]) -> list[Cells]:
    largest = {(row.target, max(one.rss for one in row.processes)) for row in rows}
    together = {(row.target, sum(one.pss for one in row.processes)) for row in rows}
    return [
        ("processes", _medians({(row.target, float(len(row.processes))) for row in rows}), whole),
        ("RSS of the largest process, MB", _medians(largest), digits),
        ("PSS of all processes, MB", _medians(together), digits),
    ]


def _medians(values: Iterable[tuple[str, float]]) -> dict[str, float | None]:
    found: dict[str, list[float]] = {}
    for name, value in values:
        found.setdefault(name, []).append(value)
    return {name: median(own) for name, own in found.items()}
