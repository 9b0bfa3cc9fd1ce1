"""`renderd serve` as several processes: crashes, orphans, drain, probes, metrics over all of them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from golden.models import model_path
from renderd.server.metrics import Metrics
from renderd.server.probes import State
from renderd.server.supervisor import Supervisor

from .running import Running, running

TOTAL = re.compile(r'http_requests_total\{handler="/tokenize",method="POST",status="2xx"\} (\d+)')
LONG = "many words and 数字 12345 " * 100_000


def children(pid: int) -> list[int]:
    """Of all threads of a process."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


def until(holds: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until something holds, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def workers(server: Running, count: int) -> list[int]:
    """The workers' pids, once all is quiet: whoever found out about the faster encoder has ended."""
    until(lambda: "encoding with" in "".join(server.log))
    until(lambda: len(children(server.process.pid)) == count)
    return children(server.process.pid)


def probe_url(server: Running) -> str:
    found = re.search(r"probes and metrics on (\S+)", "".join(server.log))
    assert found
    return found[1]


def connect(server: Running) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def begin_request(server: Running, length: int) -> socket.socket:
    """Send the head of a request that a worker then waits for the body of."""
    connection = connect(server)
    connection.sendall(
        b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % length
    )
    assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    return connection


class Load:
    """Threads that ask all the time, each on a connection of its own that it keeps."""

    def __init__(self, server: Running, threads: int) -> None:
        self.url = server.url + "/tokenize"
        self.answered = self.failed = 0
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        until(lambda: self.answered > 20)
        return self

    def __exit__(self, *error: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with httpx2.Client(timeout=30) as client:
            while not self._enough.is_set():
                try:
                    good = client.post(self.url, json={"prompt": "some words"}).status_code == 200
                except httpx2.TransportError:
                    good = False
                with self._lock:
                    self.answered += good
                    self.failed += not good


def test_a_killed_worker_takes_its_requests_alone_and_is_replaced() -> None:
    with running("--workers", "2") as server:
        before = workers(server, 2)
        with Load(server, 4) as load:
            os.kill(before[0], signal.SIGKILL)
            until(
                lambda: f"worker {before[0]} ended by SIGKILL: replaced in 0 seconds" in "".join(server.log)
            )
            seen = load.answered
            until(lambda: load.answered > seen + 50)
        assert load.failed <= 4
        after = workers(server, 2)
        assert before[1] in after and before[0] not in after
        assert "renderd_worker_restarts_total 1.0" in server.get("/metrics").text
        assert server.stop() == 0


def test_a_worker_that_is_told_to_end_finishes_and_is_replaced() -> None:
    with running() as server:
        (worker,) = workers(server, 1)
        body = json.dumps({"prompt": "a"}).encode()
        with begin_request(server, len(body)) as connection:
            os.kill(worker, signal.SIGTERM)
            time.sleep(0.2)
            connection.sendall(body)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        until(lambda: f"worker {worker} ended with status 0" in "".join(server.log))
        assert server.post("/tokenize", {"prompt": "a"}).status_code == 200


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_nothing_outlives_a_killed_supervisor(seconds: float) -> None:
    flags = ("--workers", "2", "--probe-port", "0", "--trust-request-chat-template")
    with running(str(model_path("qwen3")), *flags) as server:
        chat = {"messages": [{"role": "user", "content": "a"}], "chat_template": "{{ messages }}"}
        assert server.post("/v1/chat/completions/render", chat).status_code == 200
        time.sleep(seconds)
        pids = descendants(server.process.pid)
        assert len(pids) >= 4  # workers, the probe process, a template's
        server.process.kill()
        until(lambda: not any(map(lives, pids)))


def test_a_template_that_works_ends_with_its_worker() -> None:
    with running("--trust-request-chat-template") as server:
        (worker,) = workers(server, 1)
        # A value that holds itself a billion times is written out in one step, which nothing can interrupt.
        template = "{% for i in range(40) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}"
        template = "{% set n = namespace(x=1) %}" + template
        chat = {"messages": [{"role": "user", "content": "a"}], "chat_template": template}

        def ask() -> None:
            with suppress(httpx2.TransportError):
                server.post("/v1/chat/completions/render", chat)

        asking = threading.Thread(target=ask)
        asking.start()
        (helper,) = children(worker)
        (process,) = until(lambda: children(helper))
        until(lambda: cpu_seconds(process) > 0.5)
        os.kill(worker, signal.SIGKILL)
        asking.join()
        until(lambda: not lives(process))


def test_a_draining_server_serves_what_comes_and_says_that_it_ends() -> None:
    with running("--workers", "2", "--probe-port", "0") as server:
        probes = probe_url(server)
        body = json.dumps({"prompt": "a"}).encode()
        with begin_request(server, len(body)) as connection:
            server.process.send_signal(signal.SIGTERM)
            until(lambda: "draining" in "".join(server.log))
            ready = httpx2.get(probes + "/health/ready")
            assert (ready.status_code, ready.json()) == (503, {"status": "not ready", "reason": "draining"})
            assert httpx2.get(probes + "/health/live").status_code == 200
            late = server.post("/tokenize", {"prompt": "b"})
            assert (late.status_code, late.headers["connection"]) == (200, "close")
            time.sleep(1.5)
            assert server.process.poll() is None
            connection.sendall(body)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(timeout=30) == 0


def test_clients_that_never_stop_lose_no_request() -> None:
    """They are refused at last, in time to ask another replica: no connection ends that was accepted."""
    with running("--drain-seconds", "2") as server:
        refused, failed, enough = threading.Event(), [], threading.Event()

        def ask() -> None:
            while not enough.is_set():
                try:
                    answer = httpx2.post(server.url + "/tokenize", json={"prompt": "a"}, timeout=20)
                    if answer.status_code != 200:
                        failed.append(answer.status_code)
                except httpx2.ConnectError:
                    refused.set()
                    return
                except httpx2.TransportError as error:
                    failed.append(repr(error))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=30) == 0
        for thread in threads:
            thread.join(20)
        enough.set()
        assert refused.is_set() and not failed


def test_a_body_that_never_ends_is_cut() -> None:
    with running("--drain-seconds", "1") as server, begin_request(server, 1000) as connection:
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=30) == 0
        assert time.monotonic() - began > 0.9
        assert connection.recv(65536).startswith(b"HTTP/1.1 503 ")


def test_a_second_signal_ends_at_once() -> None:
    with running() as server, begin_request(server, 1000):
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "draining" in "".join(server.log))
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=30) == 0
        assert time.monotonic() - began < 5


def test_probes_through_the_life_of_a_server() -> None:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    seen: dict[int, list[tuple[int, Any]]] = {port: [] for port in ports}
    lost, live, other_paths = [], set(), set()
    enough = threading.Event()

    def watch(port: int) -> None:
        url = f"http://127.0.0.1:{port}"
        while not enough.is_set():
            try:
                live.add(httpx2.get(url + "/health/live").status_code)
                answer = httpx2.get(url + "/health/ready")
                seen[port].append((answer.status_code, answer.json()["reason"]))
                if port == ports[0]:
                    answer = httpx2.post(url + "/tokenize", json={"prompt": "a" * 1000})
                    other_paths.add((answer.status_code, answer.headers.get("retry-after")))
            except httpx2.TransportError as error:
                if seen[port]:
                    lost.append(error)

    threads = [threading.Thread(target=watch, args=[port]) for port in ports]
    for thread in threads:
        thread.start()
    try:
        with running(
            str(model_path("qwen3")), "--port", str(ports[0]), "--probe-port", str(ports[1])
        ) as server:
            until(lambda: all(seen[port][-1] == (200, None) for port in ports))
            until(lambda: (200, None) in other_paths)
            assert not lost  # not one connection, from the first answer on
            server.process.send_signal(signal.SIGTERM)
            until(lambda: seen[ports[1]][-1] == (503, "draining"))
            enough.set()
            assert server.process.wait(timeout=20) == 0
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    for port in ports:
        assert list(dict.fromkeys(seen[port]))[:2] == [(503, "loading"), (200, None)]
    assert live == {200}
    assert other_paths == {(503, "2"), (200, None)}


def test_metrics_are_those_of_all_workers() -> None:
    with running("--workers", "2", "--probe-port", "0") as server:
        workers(server, 3)
        pids = descendants(server.process.pid)
        for count in range(1, 21):  # on a new connection each
            assert server.post("/tokenize", {"prompt": "a"}).status_code == 200
            for url in (server.url, probe_url(server)):
                found = TOTAL.search(httpx2.get(url + "/metrics").text)
                assert found and int(found[1]) == count
        text = server.get("/metrics").text
        resident = float(re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)[1])  # type: ignore[index]
        own = [Path(f"/proc/{pid}/statm").read_text() for pid in (server.process.pid, *pids)]
        expected = sum(int(text.split()[1]) for text in own) * os.sysconf("SC_PAGE_SIZE")
        assert resident == pytest.approx(expected, rel=0.1)


def test_workers_share_connections_that_stay_open() -> None:
    with running("--workers", "2") as server:
        pids = workers(server, 2)
        before = [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]
        connections = [connect(server) for _ in range(8)]
        for connection in connections:
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        after = [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]
        for connection in connections:
            connection.close()
        assert min(now - then for now, then in zip(after, before, strict=True)) >= 2


def test_a_saturated_api_fails_no_probe() -> None:
    with running("--probe-port", "0", "--renderer-num-workers", "4") as server:
        url = probe_url(server)
        threads = [
            threading.Thread(target=lambda: server.post("/tokenize", {"prompt": LONG})) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            for path in ("/health/ready", "/health/live", "/health", "/metrics"):
                assert httpx2.get(url + path, timeout=5).status_code == 200
        assert httpx2.get(url + "/v1/models").status_code == 404


def test_a_client_that_speaks_no_tls_does_no_harm(tmp_path: Path) -> None:
    data = Path(__file__).parent / "data"
    files = ("--ssl-keyfile", str(data / "key.pem"), "--ssl-certfile", str(data / "cert.pem"))
    with running(*files) as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 10) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert connection.recv(65536) == b""
        assert httpx2.get(server.url + "/health", verify=False).status_code == 200
        assert "Traceback" not in "".join(server.log)


def test_long_work_does_not_hold_up_other_work() -> None:
    """While the process for long work is stopped, short work is answered, and the long work afterwards."""
    prompt = "many words and 数字 12345 " * 20_000
    with running() as server:
        [worker] = workers(server, 1)
        [stopped] = children(worker)
        os.kill(stopped, signal.SIGSTOP)
        answers: list[httpx2.Response] = []
        thread = threading.Thread(target=lambda: answers.append(server.post("/tokenize", {"prompt": prompt})))
        thread.start()
        for _ in range(10):
            assert server.post("/tokenize", {"prompt": "a few words"}).status_code == 200
        assert server.get("/health").status_code == 200 and not answers
        os.kill(stopped, signal.SIGCONT)
        thread.join()
        assert answers[0].status_code == 200 and answers[0].json()["count"] > 20_000


def test_a_fork_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    files = len(list(Path("/proc/self/fd").iterdir()))
    supervisor = Supervisor(State(3), Metrics(3), 1, 1.0)
    supervisor.start_probes(lambda pipes, place: None)
    [role] = supervisor._roles
    assert role.child is None and role.due > time.monotonic()
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_a_process_for_long_work_that_dies_is_replaced_with_its_worker() -> None:
    with running() as server:
        [worker] = workers(server, 1)
        [helper] = children(worker)
        os.kill(helper, signal.SIGKILL)
        assert server.post("/tokenize", {"prompt": LONG}).status_code == 503
        [other] = until(lambda: [pid for pid in workers(server, 1) if pid != worker])
        assert server.post("/tokenize", {"prompt": LONG}).status_code == 200
        until(lambda: not lives(worker) and not lives(helper))
        assert len(children(other)) == 1
