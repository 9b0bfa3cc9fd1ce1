"""HTTP over one connection that stays open."""

from __future__ import annotations

import argparse
import http.client
import os
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

import msgspec


def add_key(parser: argparse.ArgumentParser) -> None:
    """The flag for the key of servers that want one."""
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        default=os.environ.get("OPENAI_API_KEY", ""),
        help="sent as a bearer token to every server that is asked (default: $OPENAI_API_KEY)",
    )


class Answer(msgspec.Struct, frozen=True):
    """What came back. `json()` raises msgspec.DecodeError when the body is none."""

    status: int
    body: bytes
    headers: Message = Message()

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Client:
    """A caller of one server. Not for use by several threads at once. Network failures raise OSError."""

    def __init__(self, url: str, timeout: float = 60.0, key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"{url!r} is no http URL")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.url = url
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._root = parts.path.rstrip("/")
        self._authorization = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str) -> Answer:
        return self.send("GET", path, None, {})

    def post(self, path: str, body: Any) -> Answer:
        """Send a value as JSON."""
        return self.send("POST", path, msgspec.json.encode(body), {"Content-Type": "application/json"})

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """Send bytes. An idle connection that the server closed meanwhile is opened again, once."""
        try:
            return self._send(method, path, body, headers)
        except (ConnectionResetError, http.client.CannotSendRequest, BrokenPipeError):
            self._connection.close()
            return self._send(method, path, body, headers)

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        try:
            self._connection.request(method, self._root + path, body, self._authorization | headers)
            response = self._connection.getresponse()
            return Answer(response.status, response.read(), response.headers)
        except http.client.HTTPException as failure:
            self._connection.close()
            if isinstance(failure, http.client.RemoteDisconnected | http.client.CannotSendRequest):
                raise
            raise OSError(f"{self.url}: {failure!r}") from failure
        except OSError:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()
