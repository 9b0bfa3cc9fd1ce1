"""Requests that go past ASGI: however their bytes come, the answer is the one that others get."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

import pytest

from renderd.server.config import ServerConfig
from renderd.server.direct import short_way
from renderd.server.listener import api_settings

from .running import Running, running

PATH = "/v1/chat/completions/render"
BODY = json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode()
LONG = json.dumps({"prompt": "some words " * 5000}).encode()
MAX_BYTES = 100_000


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    flags = ("--max-body-bytes", str(MAX_BYTES), "--enable-request-id-headers")
    with running(*flags, env={"FORWARDED_ALLOW_IPS": "127.0.0.1"}) as started:
        yield started


def request(body: bytes = BODY, path: str = PATH, *lines: str, version: str = "1.1") -> bytes:
    head = [f"POST {path} HTTP/{version}", "host: x", "content-type: application/json", *lines]
    return "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body


def exchange(server: Running, *pieces: bytes, pause: float = 0.0, wait: float = 1.0) -> bytes:
    """What comes for these pieces, sent one after the other, until nothing more does."""
    host, port = server.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        got = connection.recv(65536)
        connection.settimeout(wait)
        try:
            while part := connection.recv(65536):
                got += part
        except TimeoutError:
            pass
        return got


def split(got: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Status, headers and body of each answer."""
    found = []
    while got:
        head, _, rest = got.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers.get("content-length", 0))
        found.append((int(first.split()[1]), headers, rest[:size]))
        got = rest[size:]
    return found


def statuses(got: bytes) -> list[int]:
    return [status for status, _, _ in split(got)]


def token_ids(body: bytes) -> Sequence[int]:
    ids: list[int] = json.loads(body)["token_ids"]
    return ids


@pytest.fixture(scope="module")
def wanted(server: Running) -> Sequence[int]:
    """By ASGI's way, which requests with an origin go."""
    answer = server.post(PATH, BODY, origin="http://elsewhere")
    assert answer.headers["vary"] == "Origin"
    return token_ids(answer.content)


def test_a_byte_at_a_time(server: Running, wanted: Sequence[int]) -> None:
    whole = request()
    pieces = [whole[at : at + 1] for at in range(len(whole))]
    ((status, headers, body),) = split(exchange(server, *pieces, pause=0.0005))
    assert (status, token_ids(body)) == (200, wanted)
    assert headers["content-type"] == "application/json"
    assert len(headers["x-request-id"]) == 32 and len(headers["x-renderd-fingerprint"]) > 10


def test_a_body_in_chunks(server: Running, wanted: Sequence[int]) -> None:
    head = request(b"", PATH, "transfer-encoding: chunked").replace(b"content-length: 0\r\n", b"")
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:7], BODY[7:])]
    ((status, _, body),) = split(exchange(server, head, *chunks, b"0\r\n\r\n", pause=0.01))
    assert (status, token_ids(body)) == (200, wanted)


def test_several_requests_at_once(server: Running) -> None:
    """The second and third are long, so those behind them have to wait their turn."""
    calls = [(BODY, PATH), (LONG, "/tokenize"), (LONG, "/tokenize"), (BODY, PATH), (b"{", PATH)]
    answers = split(exchange(server, b"".join(request(body, path) for body, path in calls), wait=3))
    assert [status for status, _, _ in answers] == [200, 200, 200, 200, 400]
    assert ["count" in json.loads(body) for _, _, body in answers] == [False, True, True, False, False]


def test_a_request_before_what_is_none(server: Running) -> None:
    assert statuses(exchange(server, request() + b"nonsense\r\n\r\n")) == [200, 400]


@pytest.mark.parametrize("line, version", [("connection: close", "1.1"), ("x: y", "1.0")])
def test_connections_that_are_to_be_closed(server: Running, line: str, version: str) -> None:
    began = time.monotonic()
    ((status, headers, _),) = split(exchange(server, request(BODY, PATH, line, version=version), wait=30))
    assert (status, headers["connection"]) == (200, "close")
    assert time.monotonic() - began < 10


def test_a_client_that_waits_for_100_continue(server: Running) -> None:
    whole = request(BODY, PATH, "expect: 100-continue")
    got = exchange(server, whole.removesuffix(BODY), BODY, pause=0.1)
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    too_large = request(b"x" * (MAX_BYTES + 1), PATH, "expect: 100-continue").partition(b"\r\n\r\n")[0]
    ((status, headers, _),) = split(exchange(server, too_large + b"\r\n\r\n"))
    assert (status, headers["connection"]) == (413, "close")


def test_what_is_refused_is_read_to_its_end(server: Running) -> None:
    """So the next request on the connection is understood."""
    large = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" % PATH.encode()
    large += b"transfer-encoding: chunked\r\n\r\n" + b"2710\r\n%b\r\n" % (b"x" * 10_000) * 20 + b"0\r\n\r\n"
    wrong = request().replace(b"application/json", b"text/plain")
    got = exchange(server, large, request(), wrong, request(b"x" * (MAX_BYTES + 1)), request(), pause=0.05)
    assert statuses(got) == [413, 200, 400, 413, 200]


@pytest.mark.parametrize("call", [request(), request(LONG, "/tokenize")], ids=["brief", "long"])
def test_a_client_that_sends_no_more(server: Running, call: bytes) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as connection:
        connection.sendall(call)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while part := connection.recv(65536):
            got += part
    assert statuses(got) == [200]


def test_a_client_that_goes_away(server: Running) -> None:
    whole = request()
    for sent in (whole[:-1], request(LONG, "/tokenize")):
        host, port = server.url.removeprefix("http://").split(":")
        socket.create_connection((host, int(port))).sendall(sent)
    for _ in range(100):
        metrics = server.get("/metrics").text
        if "renderd_requests_in_flight 0.0" in metrics:
            break
        time.sleep(0.05)
    assert "renderd_requests_in_flight 0.0" in metrics
    assert f'http_requests_total{{handler="{PATH}",method="POST",status="4xx"}}' in metrics


def test_clients_behind_a_proxy(server: Running) -> None:
    exchange(server, request(BODY, PATH, "x-forwarded-for: 192.0.2.7", "x-request-id: behind-a-proxy"))
    line = next(line for line in server.log if "behind-a-proxy" in line)
    assert line.startswith(f'INFO:     192.0.2.7:0 - "POST {PATH} HTTP/1.1" 200 ')


def test_below_a_root_path_and_with_a_key() -> None:
    with running("--root-path", "/below", "--api-key", "secret") as server:
        assert server.post("/below" + PATH, BODY).status_code == 401
        assert server.post(PATH, BODY, authorization="Bearer other").status_code == 401
        for path in (PATH, "/below" + PATH, PATH + "?x=y"):
            assert server.post(path, BODY, authorization="Bearer secret").status_code == 200
        for _ in range(100):
            ways = [line.split('"')[1] for line in server.log if '" 200 ' in line]
            if len(ways) == 3:
                break
            time.sleep(0.05)
        assert ways == [f"POST {PATH} HTTP/1.1", f"POST /below{PATH} HTTP/1.1", f"POST {PATH}?x=y HTTP/1.1"]
        counted = [
            line for line in server.get("/metrics").text.splitlines() if "http_requests_total{" in line
        ]
        assert [line.split()[-1] for line in counted if PATH in line] == ["3.0"]


def test_a_request_that_is_under_way_when_the_server_ends() -> None:
    with running("--drain-seconds", "1") as server:
        host, port = server.url.removeprefix("http://").split(":")
        with closing(socket.create_connection((host, int(port)), timeout=30)) as connection:
            connection.sendall(request()[:-1])
            time.sleep(0.2)
            server.process.terminate()
            got = b""
            while part := connection.recv(65536):
                got += part
        ((status, headers, body),) = split(got)
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(body)["error"]["message"] == "The server ends before the request is answered."
        assert server.process.wait(30) == 0


def test_middleware_of_an_operator_sees_every_request() -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        pass

    assert short_way(api_settings(ServerConfig(), app)) is None


def test_a_client_that_sends_many_requests_at_once_lets_others_in(server: Running) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    many = request() * 500
    with closing(socket.create_connection((host, int(port)), timeout=30)) as greedy:
        stopped = threading.Event()

        def feed() -> None:
            with suppress(OSError):
                while not stopped.is_set():
                    greedy.sendall(many)

        def drink() -> None:
            with suppress(OSError):
                while greedy.recv(1 << 20):
                    pass

        threads = [threading.Thread(target=work) for work in (feed, drink)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        began = time.monotonic()
        for _ in range(5):
            assert server.post(PATH, BODY).status_code == 200
        took = time.monotonic() - began
        resident = _resident(server)
        time.sleep(1)
        grown = _resident(server) - resident
        stopped.set()
        greedy.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(10)
    assert took < 10
    assert grown < 20e6


def test_what_was_sent_of_bodies_is_not_kept(server: Running) -> None:
    """Whether they were refused or their clients went: it is not the collector's to find."""
    with running("--max-body-bytes", "64M") as alone:
        chunk = b"1000000\r\n%b\r\n" % (b"x" * (1 << 24))
        head = request(b"", PATH, "transfer-encoding: chunked").replace(b"content-length: 0\r\n", b"")
        exchange(alone, head + chunk * 5, wait=0.2)
        before = _resident(alone)
        for _ in range(5):
            exchange(alone, head + chunk * 5, wait=0.2)
            host, port = alone.url.removeprefix("http://").split(":")
            with closing(socket.create_connection((host, int(port)))) as connection:
                connection.sendall(head + chunk * 3)
        time.sleep(0.5)
        assert _resident(alone) - before < 100e6


def _resident(server: Running) -> float:
    text = server.get("/metrics").text
    found = re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)
    assert found
    return float(found[1])


def test_a_request_behind_a_short_one_has_its_time(server: Running) -> None:
    """What waits for another request does not end this one."""
    with running(env={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "1"}) as quick:
        got = exchange(quick, request() + request()[:-5], request()[-5:], pause=2.0)
    assert statuses(got) == [200, 200]


def test_a_refusal_while_the_client_waits_closes() -> None:
    with running("--api-key", "secret") as server:
        for line in ("x: y", "origin: http://elsewhere"):
            head = request(BODY, PATH, line, "expect: 100-continue").removesuffix(BODY)
            ((status, headers, _),) = split(exchange(server, head))
            assert (status, headers["connection"]) == (401, "close")
