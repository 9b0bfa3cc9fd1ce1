"""Short work is done where everything else waits for it, because another process would cost more than it
does. What turns out to be long stops there, and is begun again in one.
"""

from __future__ import annotations

import threading


class TakesLongError(BaseException):
    """The work is too long to be done here. No Exception: nothing may take it for a fault of the request."""


class _Hurry(threading.local):
    active = False


_HURRY = _Hurry()


class _Hurried:
    def __enter__(self) -> None:
        _HURRY.active = True

    def __exit__(self, *failure: object) -> None:
        _HURRY.active = False


hurried = _Hurried()
"""A context in which the work of a thread has to be short."""


def takes_long() -> None:
    """What follows may take more than a millisecond. Raises TakesLongError where that must not be."""
    if _HURRY.active:
        raise TakesLongError
