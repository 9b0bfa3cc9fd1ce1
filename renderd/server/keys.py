"""API keys (contract A.7): which paths want one, and which headers bring one.

Keys come from flags, fixed, and from a file that is read again when it changes, so that keys are exchanged
without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from renderd.server.config import StartupError

GUARDED = ("/v1", "/v2", "/inference", "/cohere")
"""What the paths that want a key begin with. `/v1` is `/v1x` too, as in vLLM."""

LOOK_SECONDS = 2.0
"""How often the file is looked at, at most: a key is refused no later than this after its line is gone."""

logger = logging.getLogger(__name__)

_Seen = tuple[int, int, int]
"""Inode, time of the last change in nanoseconds, and bytes of a file: another file where one differs."""


def guards(method: str, path: str) -> bool:
    """Whether a request must bring a key. `path` is without the root path. Browsers ask OPTIONS without."""
    return method != "OPTIONS" and path.startswith(GUARDED)


class KeyStore:
    """The keys that are known now. One for each worker; it is asked by one thread."""

    def __init__(self, keys: Sequence[str], file: str | None = None) -> None:
        """`keys`: of the command line or the environment; `file`: one a line.

        Raises StartupError if the file cannot be read or holds no key.
        """
        self._fixed = [_digest(key.encode("utf-8", "surrogateescape")) for key in keys]
        self._file = None if file is None else Path(file)
        self._read: list[bytes] = []
        self._seen: _Seen | None = None
        self._failure = ""
        self._next_look = time.monotonic() + LOOK_SECONDS
        if self._file is not None:
            try:
                self._load(self._file)
            except (OSError, ValueError) as error:
                raise StartupError(f"--api-key-file {file}: {error}") from error

    def __bool__(self) -> bool:
        """Whether any key is wanted at all."""
        return bool(self._fixed) or self._file is not None

    def admits(self, authorization: str) -> bool:
        """Whether the header `Authorization` brings a known key. Every key is compared, in constant time, so
        that the time taken says nothing about any of them."""
        self._look()
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False
        digest = _digest(key.encode("latin-1"))  # the bytes of the header
        return any([hmac.compare_digest(digest, known) for known in (*self._fixed, *self._read)])

    def _look(self) -> None:
        """Read the file again if it has changed. One that cannot be read, or holds no key, leaves the keys
        that were read last: it may be half written, and nobody shall be locked out by that."""
        now = time.monotonic()
        if self._file is None or now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        try:
            if self._load(self._file):
                logger.info("--api-key-file was read again: %d keys", len(self._read))
            self._failure = ""
        except (OSError, ValueError) as error:
            if str(error) != self._failure:  # once, not at every look
                logger.error("--api-key-file: %s; the keys that were read last still hold", error)
            self._failure = str(error)

    def _load(self, file: Path) -> bool:
        """Take the keys of a file if it is another than the last one. Raises OSError if it cannot be read,
        ValueError if it holds no key."""
        # The state before the read: what is written during the read is seen at the next look.
        status = file.stat()
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen == self._seen:
            return False
        lines = [line.strip() for line in file.read_bytes().splitlines()]
        keys = [_digest(line) for line in lines if line and not line.startswith(b"#")]
        if not keys:
            raise ValueError("it holds no key")
        self._read, self._seen = keys, seen
        return True


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
