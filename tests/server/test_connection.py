"""What a client may make a server hold and wait for: endless heads, stopped requests, answers not taken."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from renderd.server.connection import MAX_HEAD_BYTES

from .running import Running, running

HEAD = b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
BODY = b'{"prompt": "a"}'
LONG = json.dumps({"prompt": "some words " * 200_000, "return_token_strs": True}).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running("--max-client-seconds", "2", "--max-pending-bytes", "4194304") as started:
        yield started


def connect(server: Running) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of the answer, after which the server closes the connection."""
    got = b""
    while part := connection.recv(65536):
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head[9:12]), body


def head_of(size: int) -> bytes:
    return HEAD + b"x-more: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (b"a" * size, len(BODY))


@pytest.mark.parametrize("line", [b"x-more: %b\r\n" % (b"a" * 1000), b"a" * 1000], ids=["lines", "a line"])
def test_a_head_that_never_ends(server: Running, line: bytes) -> None:
    with closing(connect(server)) as connection:
        connection.sendall(HEAD)
        sent = 0
        with pytest.raises(OSError):
            while sent < 100 * MAX_HEAD_BYTES:
                connection.sendall(line)
                sent += len(line)
                time.sleep(0.001)
    assert MAX_HEAD_BYTES <= sent < 2 * MAX_HEAD_BYTES


def test_a_large_head_is_refused_with_a_reason(server: Running) -> None:
    with closing(connect(server)) as connection:
        connection.sendall(head_of(MAX_HEAD_BYTES)[: MAX_HEAD_BYTES + 20])
        status, body = answered(connection)
    error = json.loads(body)["error"]
    assert (status, error["type"], error["code"]) == (431, "RequestHeaderFieldsTooLargeError", 431)
    assert error["message"] == "The head of the request is larger than 65536 bytes."


def test_a_head_of_less_is_read(server: Running) -> None:
    with closing(connect(server)) as connection:
        connection.sendall(head_of(MAX_HEAD_BYTES - 1000) + BODY)
        assert answered(connection)[0] == 200


def test_much_between_the_chunks_of_a_body(server: Running) -> None:
    with closing(connect(server)) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n")
        with pytest.raises(OSError):
            for _ in range(100):
                connection.sendall(b"x-more: %b\r\n" % (b"a" * 10_000))
                time.sleep(0.01)


def test_a_body_in_small_chunks(server: Running) -> None:
    text = json.dumps({"prompt": "a" * 20_000}).encode()
    chunks = b"".join(b"1;%b\r\n%c\r\n" % (b"x" * 20, byte) for byte in text)
    with closing(connect(server)) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n" + chunks)
        connection.sendall(b"0\r\nx-sum: 1\r\n\r\n")
        assert answered(connection)[0] == 200


@pytest.mark.parametrize(
    "begun",
    [b"POST /tok", HEAD, HEAD + b"content-length: 100\r\n\r\n", HEAD + b"content-length: 100\r\n\r\n{"],
)
def test_a_request_that_stops(server: Running, begun: bytes) -> None:
    with closing(connect(server)) as connection:
        connection.sendall(begun)
        began = time.monotonic()
        status, body = answered(connection)
        assert 1 < time.monotonic() - began < 10
    assert (status, json.loads(body)["error"]["type"]) == (408, "RequestTimeoutError")
    assert json.loads(body)["error"]["message"] == "The request took more than 2 seconds to arrive."
    assert "renderd_requests_in_flight 0.0" in server.get("/metrics").text


def test_a_request_that_comes_a_byte_a_time(server: Running) -> None:
    with closing(connect(server)) as connection:
        connection.sendall(HEAD + b"content-length: 100\r\n\r\n")
        with pytest.raises(OSError):
            for _ in range(100):
                connection.sendall(b" ")
                time.sleep(0.1)


def test_a_connection_without_a_request(server: Running) -> None:
    with closing(connect(server)) as connection:
        assert connection.recv(100) == b""


def test_a_connection_that_is_used_lives_longer(server: Running) -> None:
    call = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    with closing(connect(server)) as connection:
        for _ in range(20):
            connection.sendall(call)
            got = b""
            while b'"token_strs":null}' not in got:
                got += connection.recv(65536)
            assert got.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.25)


def test_answers_that_nobody_takes(server: Running) -> None:
    """They count among what is pending, and their connections end."""
    call = HEAD + b"content-length: %d\r\n\r\n" % len(LONG) + LONG
    connections = []
    try:
        statuses = []
        for _ in range(4):
            connection = connect(server)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connections.append(connection)
            connection.sendall(call)
            statuses.append(int(connection.recv(20)[9:12]))
        assert statuses[0] == 200 and 503 in statuses
        time.sleep(4)
        assert server.post("/tokenize", BODY).status_code == 200
        taken = 0
        while part := connections[0].recv(65536):
            taken += len(part)
        assert taken < 5_000_000  # of 5.8
    finally:
        for connection in connections:
            connection.close()
