"""The client: an answer that never ends, in time or in bytes, is none; a server that is gone is told so."""

from __future__ import annotations

import socketserver
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from renderd.conformance import client
from renderd.conformance.client import Client, Gone, NoAnswer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def server(*answers: Sequence[bytes]) -> Iterator[str]:
    """One that writes the pieces of an answer, 50 ms apart, to each connection's first bytes, and closes it.
    The last answer is given to all further ones."""
    left = list(answers)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            try:
                for piece in left.pop(0) if len(left) > 1 else left[0]:
                    self.request.sendall(piece)
                    time.sleep(0.05)
            except OSError:
                pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}"
        finally:
            listening.shutdown()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD, *[b" "] * 100],
        [CHUNKED, *[b"1\r\n \r\n"] * 100],
        [HEAD[:-2], *[b"x: y\r\n"] * 90],
        [b"H", *[b"T"] * 100],
        [HEAD, *[b""] * 100],
    ],
    ids=["body", "chunks", "headers", "line", "nothing"],
)
def test_a_drip_is_given_up(pieces: list[bytes]) -> None:
    began = time.monotonic()
    with server(pieces) as url, pytest.raises(NoAnswer, match="/x: timed out"):
        Client(url, timeout=0.3).get("/x")
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\n\r\n", *[b"a" * 100] * 20],
        [CHUNKED, *[b"64\r\n" + b"a" * 100 + b"\r\n"] * 20],
        [HEAD.replace(b"100", b"99999999999"), *[b"a" * 100] * 20],
    ],
    ids=["closed", "chunks", "length"],
)
def test_a_long_body_is_given_up(pieces: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BODY_BYTES", 500)
    with server(pieces) as url, pytest.raises(NoAnswer, match="more than 500 bytes"):
        Client(url).get("/x")


@pytest.mark.parametrize("pieces", [[b""], [HEAD + b"x"], [CHUNKED + b"zz\r\n"], [b"\x00\xff\r\n\r\n"]])
def test_half_an_answer_is_none_and_the_next_call_is_answered(pieces: list[bytes]) -> None:
    with server(pieces, *([pieces] if pieces == [b""] else []), [OK]) as url:
        caller = Client(url)
        with pytest.raises(NoAnswer, match="GET /x: "):
            caller.get("/x")
        assert caller.get("/y").json() == {}
        assert caller.asked == "GET /y"


def test_a_server_is_gone_when_nothing_is_answered() -> None:
    caller = Client("http://127.0.0.1:9")
    for kind in (NoAnswer, NoAnswer, Gone):
        with pytest.raises(NoAnswer) as raised:
            caller.get("/x")
        assert type(raised.value) is kind


def test_a_server_that_answers_something_is_there() -> None:
    with server(*[[b""]] * 6, [OK]) as url:  # each of the three calls is tried twice
        caller = Client(url)
        for _ in range(3):
            with pytest.raises(NoAnswer) as raised:
                caller.get("/x")
            assert type(raised.value) is NoAnswer


def test_many_timeouts_are_too_many() -> None:
    with server([HEAD, *[b" "] * 10]) as url:
        caller = Client(url, timeout=0.05)
        kinds = []
        for _ in range(client.IN_A_ROW):
            with pytest.raises(NoAnswer) as raised:
                caller.get("/x")
            kinds.append(type(raised.value))
        assert kinds[-1] is Gone


EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Length: 7\r\n\r\n"


@pytest.mark.parametrize(
    "before",
    [
        [EARLY],
        [EARLY, EARLY],
        [EARLY + EARLY + OK[:10]],
        [b"HTTP/1.1 100 Continue\r\n\r\n", EARLY, b"HTTP/1.1 102 Processing\r\n\r\n", EARLY],
    ],
)
def test_what_comes_before_an_answer_is_passed_over(before: list[bytes]) -> None:
    with server([*before, OK[10:] if before[-1].endswith(OK[:10]) else OK]) as url:
        answer = Client(url).get("/x")
        assert (answer.status, answer.json(), answer.headers["Link"]) == (200, {}, None)


def test_hints_without_an_answer_are_given_up() -> None:
    with server([*[EARLY] * 100]) as url, pytest.raises(NoAnswer, match="timed out"):
        Client(url, timeout=0.3).get("/x")


def test_a_protocol_is_not_switched() -> None:
    with server([b"HTTP/1.1 101 Switching Protocols\r\n\r\n"]) as url:
        assert Client(url).get("/x").status == 101


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:80?x=1", "http://127.0.0.1/#f", "http://127.0.0.1:abc", "http://127.0.0.1:99999"),
        *(
            "http://127.0.0.1/\u00e4",
            "http://127.0.0.1/\x01",
            "http://[::1",
            "http://",
            "127.0.0.1:80",
            "ftp://x",
        ),
        *("ftp://me:secret@x", "http://me:secret@x:y", "http://me:se/cret@x", "http://me:secret@x?"),
    ],
)
@pytest.mark.parametrize("flag", ["url", "against"])
def test_what_is_no_url_is_told_by_its_flag(url: str, flag: str) -> None:
    named = {"url": "http://127.0.0.1:9", flag: url + "q" * url.endswith("?"), "api_key": ""}
    with pytest.raises(ValueError, match=f"^--{flag}: .* is no ") as raised:
        client.connect(Namespace(**named), flag)
    assert "cret" not in str(raised.value)


def test_deep_json_is_none() -> None:
    deep = b"[" * 100_000
    with server([HEAD.replace(b"100", b"100000") + deep]) as url, pytest.raises(ValueError, match="deeply"):
        Client(url).get("/x").json()
