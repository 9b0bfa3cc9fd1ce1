"""Short work is done where everything else waits for it, because another process would cost more than it
does. What turns out to be long stops there, and is begun again in one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TakesLongError(BaseException):
    """The work is too long to be done here. No Exception: nothing may take it for a fault of the request."""


class _Hurry(threading.local):
    active = False


_HURRY = _Hurry()


@contextmanager
def hurried() -> Iterator[None]:
    """Work of this thread has to be short from here on."""
    _HURRY.active = True
    try:
        yield
    finally:
        _HURRY.active = False


def takes_long() -> None:
    """What follows may take more than a millisecond. Raises TakesLongError where that must not be."""
    if _HURRY.active:
        raise TakesLongError
