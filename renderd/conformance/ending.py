"""How a run ends before its end: nobody answers any more, or somebody has had enough."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM came, which ends a run as SIGINT does."""


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM is raised as Terminated within."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where no signal arrives
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def why(cause: BaseException) -> str:
    """What ended a run, in words."""
    if isinstance(cause, KeyboardInterrupt):
        return "terminated" if isinstance(cause, Terminated) else "interrupted"
    return str(cause)


def status(cause: BaseException) -> int:
    """The exit status: of a signal, as shells have it, else 2."""
    if isinstance(cause, KeyboardInterrupt):
        return 128 + (signal.SIGTERM if isinstance(cause, Terminated) else signal.SIGINT)
    return 2
