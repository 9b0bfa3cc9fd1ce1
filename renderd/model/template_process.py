"""The process in which templates of requests are rendered: questions on stdin, answers on stdout."""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path

from renderd.model.foreign import CPU_SECONDS, PREFIX, answer

MEMORY = 2 << 30
"""Bytes of address space that a template may take beside what Python has."""


def main() -> None:
    """Answer until stdin ends."""
    with suppress(OSError):  # only Linux has this file, and keeps the limit
        own = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (own + MEMORY, own + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    # What a template makes Python print must not get between the answers.
    sys.stdout = sys.stderr
    target.write(bytes(PREFIX))
    target.flush()
    while prefix := source.read(PREFIX):
        # Whoever asks ends what takes too long, unless it has ended itself in the meantime.
        seconds = int(time.process_time() + CPU_SECONDS) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        try:
            reply = answer(source.read(int.from_bytes(prefix, "big")))
        except MemoryError:
            os._exit(1)
        target.write(len(reply).to_bytes(PREFIX, "big") + reply)
        target.flush()


if __name__ == "__main__":
    main()
