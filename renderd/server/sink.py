"""Where lines of the log go. A pipe that nobody reads, or reads too slowly, is not waited for: a process that
waits there answers nobody."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import stat
import sys
import time
from contextlib import suppress

logger = logging.getLogger("renderd.server")

_PIPE_BYTES = 1 << 20
"""What a pipe is asked to hold, some thousand lines: a reader may be late for a moment without a loss."""
_PATIENCE_SECONDS = 0.05
"""How long a reader may take to make room for the rest of a line that a pipe took in part."""
_TELL_SECONDS = 1.0
"""Between two lines that say what was dropped."""


class Sink:
    """An open file that lines are written to: 1 or 2. `dropped`: lines of this process that no sink took."""

    dropped = 0

    def __init__(self, number: int) -> None:
        self._file = _without_waiting(number)
        self._untold = 0
        self._told_at = 0.0
        self._rest = b""

    def write(self, line: bytes) -> None:
        """Write a line, or drop it. Nothing is raised: requests are answered whatever becomes of the log."""
        try:
            if self._rest:
                self._finish()
            size = os.write(self._file, line)
        except BlockingIOError:
            Sink.dropped += 1
            self._untold += 1
            return
        except OSError:  # nobody reads, or the disk is full
            return
        if size < len(line):
            self._rest = line[size:]
            with suppress(OSError):
                self._finish()
        if self._untold:
            self._tell()

    def _finish(self) -> None:
        """Write the rest of the last line. Raises BlockingIOError when there is no room."""
        while self._rest:
            self._rest = self._rest[os.write(self._file, self._rest) :]
            if self._rest and not select.select([], [self._file], [], _PATIENCE_SECONDS)[1]:
                raise BlockingIOError

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told_at > _TELL_SECONDS:
            count, self._untold, self._told_at = self._untold, 0, now
            logger.warning("lines of the log that nobody read, and that were dropped: %d", count)


class SinkHandler(logging.Handler):
    """Writes lines of the logging module to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._sink = Sink(2)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="backslashreplace")
        except Exception:
            self.handleError(record)
            return
        self._sink.write(line + b"\n")


def _without_waiting(number: int) -> int:
    """The file by which `number` is written without waiting.

    A pipe is opened again where that is allowed: the flag belongs to what is open, and others may write to
    the same. A container's pipe often is another user's; but nobody else writes there.
    """
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISFIFO(kind):
            if sys.platform == "linux":
                with suppress(OSError):  # the system has its own limit
                    fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            with suppress(OSError):
                return os.open(f"/dev/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            os.set_blocking(number, False)
    except OSError:  # it is closed
        pass
    return number
