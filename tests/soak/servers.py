"""The servers that are tried: replicas of renderd, nginx in front of them, and what they take."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from golden.models import model_path
from golden.processes import LOGS, REPOSITORY, relative

FLAGS = (
    *("--served-model-name", "qwen3", "--max-model-len", "4096", "--reasoning-parser", "qwen3"),
    *("--tool-call-parser", "hermes", "--enable-auto-tool-choice", "--disable-uvicorn-access-log"),
)
CONFIGURATION = REPOSITORY / "deploy" / "nginx" / "renderd.conf"
START_SECONDS = 120.0
NGINX_WANTED = "nginx is missing: on Debian and Ubuntu install nginx-light (apt-get install nginx-light)"


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until something holds, so long at most. Returns whether it does."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Replica:
    """`renderd serve` on a port that it keeps over restarts. Not started yet."""

    def __init__(self, name: str, *flags: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._flags = flags
        self._log = LOGS / f"soak-{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.write_bytes(b"")

    @property
    def log(self) -> str:
        """What it has written, over all starts."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it; it is not ready yet."""
        command = [sys.executable, "-m", "renderd", "serve", relative(model_path("qwen3")), *FLAGS]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(self.port), *self._flags],
                cwd=REPOSITORY,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        """Whether /health/ready says so."""
        with suppress(OSError), urllib.request.urlopen(self.url + "/health/ready", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def wait_until_ready(self) -> None:
        """Raises RuntimeError when it does not get so."""
        if not until(self.is_ready, START_SECONDS):
            raise RuntimeError(f"the server did not start, see {self._log}")

    def drain(self, seconds: float) -> int | None:
        """SIGTERM. Its exit status, None if it has not ended in time."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """SIGKILL to all its processes."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def pids(self) -> list[int]:
        """Of all its processes."""
        assert self._process is not None
        return [self._process.pid, *_descendants(self._process.pid)]

    def memory(self) -> int:
        """Bytes of all its processes; what several share counts once (PSS)."""
        return sum(map(_pss, self.pids()))

    def open_files(self) -> int:
        """Of all its processes."""
        return sum(map(_open_files, self.pids()))

    def cpu(self) -> float:
        """Seconds of a processor that its processes of now have taken."""
        return sum(map(_cpu, self.pids()))

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def faults(self) -> list[str]:
        """Lines of its log that are errors: defects, and processes that ended."""
        return [line for line in self.log.splitlines() if line.startswith(("ERROR", "CRITICAL"))]


@contextmanager
def replica(name: str, *flags: str) -> Iterator[Replica]:
    """One that is ready; it is gone afterwards."""
    server = Replica(name, *flags)
    server.start()
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.kill()


def nginx_program() -> str | None:
    """Where nginx is, None if it is not installed."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@contextmanager
def nginx(replicas: list[Replica]) -> Iterator[tuple[str, Path]]:
    """nginx with the documented configuration in front of them. Yields its URL and its access log, whose
    lines are the time, the status, then the statuses of all replicas that were asked."""
    program = nginx_program()
    assert program is not None
    with TemporaryDirectory(prefix="renderd-soak-") as folder:
        port, access = free_port(), Path(folder) / "access.log"
        site = CONFIGURATION.read_text(encoding="utf-8").replace("listen 8080;", f"listen 127.0.0.1:{port};")
        for number, server in enumerate(replicas):
            site = site.replace(f"renderd-{number}:8000", f"127.0.0.1:{server.port}")
        (Path(folder) / "site.conf").write_text(site, encoding="utf-8")
        (Path(folder) / "nginx.conf").write_text(_MAIN.format(folder=folder), encoding="utf-8")
        command = [program, "-p", folder, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"]
        process = subprocess.Popen(command)
        try:
            if not until(lambda: _listens(port), 10) or process.poll() is not None:
                raise RuntimeError(f"nginx did not start: {(Path(folder) / 'error.log').read_text()}")
            yield f"http://127.0.0.1:{port}", access
        finally:
            process.terminate()
            process.wait()


_MAIN = """
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 2048; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    log_format statuses "$msec $status $upstream_status";
    access_log {folder}/access.log statuses;
    include {folder}/site.conf;
}}
"""


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _descendants(pid: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in file.read_text().split()]
    return [process for child in found for process in (child, *_descendants(child))]


def _pss(pid: int) -> int:
    with suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def _open_files(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    return 0


def _cpu(pid: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
