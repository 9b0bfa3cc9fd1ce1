"""Ids of tool calls. The same call, asked again, has the same id (contract E.8)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_VARIANTS = "89ab"


class CallIds:
    """The ids of one choice's calls.

    `first`: the ids count calls from here on; None: they are hashed. `pinned`: ids that calls already have.
    """

    def __init__(
        self, request_id: str, choice: int, first: int | None = None, pinned: Sequence[str] = ()
    ) -> None:
        self._request_id = request_id
        self._choice = choice
        self._first = first
        self._pinned = pinned

    def of(self, index: int, name: str, native: str | None) -> str:
        """The id of the call at `index`; the model's own where it gave one."""
        if index < len(self._pinned):
            return self._pinned[index]
        if native is not None:
            return native
        if self._first is not None:
            return f"functions.{name}:{self._first + index}"
        return hashed_id(self._request_id, self._choice, index)


def hashed_id(request_id: str, choice: int, call: int) -> str:
    """`chatcmpl-tool-` and 16 hexadecimal digits that look like the low half of a random UUID."""
    key = f"{request_id}\0{choice}\0{call}".encode("utf-8", "surrogatepass")
    digits = hashlib.blake2b(key, digest_size=8).hexdigest()
    return f"chatcmpl-tool-{_VARIANTS[int(digits[0], 16) & 3]}{digits[1:]}"
