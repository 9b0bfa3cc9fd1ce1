"""Server-sent events, read piece by piece."""

from __future__ import annotations

LARGEST = 64 * 1024 * 1024
"""Bytes of one event. The first may repeat a prompt of a million tokens."""


class EventReader:
    """Bytes of a stream in pieces, cut anywhere, to the data of its events (HTML standard, 9.2.6).

    Of an event only its data is read. Lines end in LF or CRLF; engines do not write CR alone, nor a byte
    order mark. The work is linear in the bytes, however they are cut.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._seen = 0  # up to here no event ends in what is left

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that this piece completes. Raises ValueError for one that is too large."""
        rest = self._rest
        is_lf_alone = b"\r" not in piece and not rest.endswith(b"\r")
        rest += piece
        if not is_lf_alone:
            rest[:] = rest.replace(b"\r\n", b"\n")
            self._seen = 0
        found = []
        start, end = 0, rest.find(b"\n\n", self._seen)
        while end >= 0:
            event = bytes(rest[start:end])
            if event.startswith(b"data: ") and b"\n" not in event:
                found.append(event[6:])
            elif data := _data(event):
                found.append(data)
            start = end + 2
            end = rest.find(b"\n\n", start)
        del rest[:start]
        self._seen = max(0, len(rest) - 1)
        if len(rest) > LARGEST:
            raise ValueError(f"an event has more than {LARGEST} bytes")
        return found


def _data(event: bytes) -> bytes:
    """The data lines of an event, without the blank after the colon."""
    lines = (line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(lines)
