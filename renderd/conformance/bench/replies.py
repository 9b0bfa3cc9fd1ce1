"""HTTP/1.1 answers cut out of what a connection brings, with as little work for the client as can be."""

from __future__ import annotations


class Replies:
    """The answers of one connection, each of which comes before the next request is sent."""

    def __init__(self) -> None:
        self._buffer = b""
        self._body = self._size = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Head, with the empty line behind it, and body of an answer that is complete now. Raises ValueError
        for one that does not say its length."""
        self._buffer = self._buffer + data if self._buffer else data
        if not self._size:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            if at < 0:
                raise ValueError(f"an answer without Content-Length: {head!r}")
            self._body = end + 4
            self._size = self._body + int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(self._buffer) < self._size:
            return None
        answer, body = self._buffer[: self._size], self._body
        self._buffer, self._size = b"", 0
        return answer[:body], answer[body:]
