"""HTTP over one connection that stays open."""

from __future__ import annotations

import argparse
import base64
import http.client
import io
import os
import re
import time
from email.message import Message
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec

BODY_BYTES = 64 * 2**20
"""The longest body that is read."""

IN_A_ROW = 3
"""Calls without an answer after which a server that does not answer GET /v1/models either is gone."""

TIMEOUTS = 5
"""Calls of a client that may take too long before its server counts as gone: each costs a minute."""


class NoAnswer(OSError):
    """A call that was not answered, or not to its end. Says which, and why."""


class Gone(NoAnswer):
    """One more of them: the server is not there, or too slow to go on with."""


def add_key(parser: argparse.ArgumentParser) -> None:
    """The flag for the key of servers that want one."""
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        type=_key,
        default=os.environ.get("OPENAI_API_KEY", ""),
        help="sent as a bearer token to every server that is asked (default: $OPENAI_API_KEY)",
    )


def _key(text: str) -> str:
    """A key that can be sent. What is said of another one does not show it."""
    if not re.fullmatch("[!-~]*", text):
        raise argparse.ArgumentTypeError("it has characters that no header may have (or $OPENAI_API_KEY has)")
    return text


def connect(arguments: argparse.Namespace, flag: str = "url") -> Client:
    """A caller of the server that a flag names. ValueError, which names the flag, where it is no URL."""
    try:
        return Client(getattr(arguments, flag), key=arguments.api_key)
    except ValueError as error:
        raise ValueError(f"--{flag}: {error}") from None


class Answer(msgspec.Struct, frozen=True):
    """What came back. `json()` raises msgspec.DecodeError when the body is none, or nested too deeply."""

    status: int
    body: bytes
    headers: Message = Message()

    def json(self) -> Any:
        try:
            return msgspec.json.decode(self.body)
        except RecursionError as error:
            raise msgspec.DecodeError("JSON that is nested too deeply") from error


class _Timed(io.RawIOBase):
    """What a socket receives, until a time on the monotonic clock. Then TimeoutError."""

    def __init__(self, sock: Any, until: float) -> None:
        self._sock = sock
        self._until = until
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        read: int | None = self._raw.readinto(buffer)
        return read

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """One that has to be there, head and body, within the socket's timeout: not each piece of it.

    What comes before it, as 103 Early Hints (RFC 8297), is passed over. http.client does so with a 100 alone.
    """

    def __init__(self, sock: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        timed = _Timed(sock, time.monotonic() + sock.gettimeout())
        self.fp.close()
        self.fp = io.BufferedReader(timed)

    def begin(self) -> None:
        super().begin()
        while 100 < self.status < 200 and self.status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            self.headers = self.msg = None  # type: ignore[assignment]  # else it would be begun already
            super().begin()


def _split(url: str) -> SplitResult:
    """A server's URL. ValueError says what is wrong with it, without what may be a password."""
    shown = re.sub("//.*@", "//", url, flags=re.DOTALL)
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises where it is none
        (parts.hostname or "").encode("idna")
    except ValueError:  # which may show a part of a password
        raise ValueError(f"{shown!r} is no http URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{shown!r} is no http URL")
    if not re.fullmatch("[!-~]*", parts.path) or not url.isprintable():
        raise ValueError(f"{shown!r} is no http URL: a path has printable ASCII characters")
    if parts.query or parts.fragment:
        raise ValueError(f"{shown!r} is no URL of a server: it has more than host, port and path")
    return parts


class Client:
    """A caller of one server. Not for use by several threads at once. Network failures raise NoAnswer.

    `url` may have `user:password@`, sent as Basic in place of a key; the attribute `url` has it no more.
    `timeout`: seconds that an answer may take from the request to its last byte.
    """

    def __init__(self, url: str, timeout: float = 60.0, key: str = "") -> None:
        parts = _split(url)
        assert parts.hostname is not None
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        user, at, host = parts.netloc.rpartition("@")
        self.url = urlunsplit(parts._replace(netloc=host))
        self.asked = ""
        self.answered: Answer | None = None
        self._timeout = timeout
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._connection.response_class = _Response
        self._root = parts.path.rstrip("/")
        self._authorization = {"Authorization": f"Bearer {key}"} if key else {}
        if at:
            basic = unquote(user if ":" in user else f"{user}:").encode()
            self._authorization = {"Authorization": f"Basic {base64.b64encode(basic).decode()}"}
        self._unanswered = 0
        self._timeouts = 0

    def get(self, path: str) -> Answer:
        return self.send("GET", path, None, {})

    def post(self, path: str, body: Any) -> Answer:
        """Send a value as JSON."""
        return self.send("POST", path, msgspec.json.encode(body), {"Content-Type": "application/json"})

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """Send bytes. An idle connection that the server closed meanwhile is opened again, once.

        `asked` and `answered` say afterwards what was asked last and what came. NoAnswer, Gone.
        """
        self.asked, self.answered = f"{method} {path}", None
        try:
            try:
                self.answered = self._send(method, path, body, headers)
            except (ConnectionResetError, http.client.CannotSendRequest, BrokenPipeError):
                self.answered = self._send(method, path, body, headers)
        except (OSError, http.client.HTTPException) as failure:
            self._timeouts += isinstance(failure, TimeoutError)
            self._unanswered += 1
            what = f"{self.url}: {self.asked}: {failure or repr(failure)}"
            if self._timeouts >= TIMEOUTS:
                raise Gone(f"{what}; {TIMEOUTS} calls took more than {self._timeout:.0f} s") from failure
            if self._unanswered >= IN_A_ROW and not self._there():
                raise Gone(f"{what}; nor were the {IN_A_ROW - 1} calls before it answered") from failure
            raise NoAnswer(what) from failure
        self._unanswered = 0
        return self.answered

    def _there(self) -> bool:
        """Whether anything is answered at all."""
        try:
            self._send("GET", "/v1/models", None, {})
        except (OSError, http.client.HTTPException):
            return False
        self._unanswered = 0
        return True

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        try:
            if self._connection.sock is not None:
                self._connection.sock.settimeout(self._timeout)
            self._connection.request(method, self._root + path, body, self._authorization | headers)
            response = self._connection.getresponse()
            read = response.read(BODY_BYTES + 1)
            if len(read) > BODY_BYTES:
                raise OSError(f"a body of more than {BODY_BYTES} bytes")
            if response.length:
                raise OSError(f"the body ended {response.length} bytes early")
            return Answer(response.status, read, response.headers)
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()
