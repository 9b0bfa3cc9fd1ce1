"""CPU time of another process and its children, and which process serves a URL. Linux only."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

_PROC = Path("/proc")
_LISTEN = "0A"


class ProcessError(Exception):
    """There is no such process on this machine."""


class CpuClock:
    """CPU seconds that some processes and their descendants used, all threads, finished ones included.

    The descendants are those alive at the start: servers fork their workers before they answer.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        """Raises ProcessError when one of `pids` does not run."""
        self.pids = _with_descendants(set(pids))
        self.read()

    def read(self) -> float:
        """Seconds since the processes started, to the nanosecond. Raises ProcessError when one has ended."""
        return sum(map(_cpu_seconds, self.pids))


def settled(find: Callable[[], Iterable[int]]) -> CpuClock:
    """The clock of a server that has done what it does after its start: some of its processes end then.

    `find`: its processes. It has settled when none came or went for half a second and all together used
    next to no CPU; one that does not settle is taken as it is after ten seconds. Raises ProcessError.
    """
    for attempt in range(20):
        try:
            clock = CpuClock(find())
            before = clock.read()
            time.sleep(0.5)
            quiet = clock.read() - before < 0.010
            if quiet and clock.pids == _with_descendants(set(find())):
                break
        except ProcessError:
            if attempt == 3:  # not one that ended, but one that is not there
                raise
    return clock


def _cpu_seconds(pid: int) -> float:
    # The clock id of a process, as clock_getcpuclockid(3) makes it: /proc/PID/stat counts in steps of 10 ms.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except (OSError, OverflowError):
        raise ProcessError(f"process {pid} does not run") from None


def _with_descendants(pids: set[int]) -> list[int]:
    parents = {pid: int(stat[1]) for pid in _running() if (stat := _stat(pid))}
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _running() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """State, parent and what follows in /proc/PID/stat; nothing when the process has ended."""
    try:
        # The command in parentheses may hold anything, parentheses and blanks too.
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def serving_pids(url: str) -> list[int]:
    """The processes that listen on the port of a URL. Raises ProcessError when this machine has none."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    pids = [pid for pid in _running() if sockets & _open_files(pid)]
    if not pids:
        raise ProcessError(
            f"no process of this machine that can be looked into listens on port {port}: give --pid"
        )
    return pids


def _listening(port: int) -> set[str]:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _open_files(pid: int) -> set[str]:
    found = set()
    try:
        for link in (_PROC / str(pid) / "fd").iterdir():
            try:
                found.add(str(link.readlink()))
            except OSError:
                continue
    except OSError:
        pass
    return found


class Machine(msgspec.Struct):
    """What a figure was measured on."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    python: str


def machine() -> Machine:
    """This one."""
    return Machine(
        cpu=_line("cpuinfo", "model name") or platform.processor() or "unknown",
        cores=len(_lines("cpuinfo", "processor")),
        memory_gb=round(int((_line("meminfo", "MemTotal") or "0").split()[0]) / 1024**2, 1),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
    )


def _lines(file: str, key: str) -> list[str]:
    try:
        lines = (_PROC / file).read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key]


def _line(file: str, key: str) -> str:
    return next(iter(_lines(file, key)), "")
