"""Ids of tool calls. The same call, asked again, has the same id (contract E.8)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

_VARIANTS = "89ab"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class CallIds(msgspec.Struct, frozen=True):
    """The ids of one choice's calls.

    `first`: the ids count calls from here on; None: they are hashed, to `nine` letters and digits or to a
    longer form, which begins with `prefix`. `pinned`: ids that calls already have.
    """

    request_id: str
    choice: int
    first: int | None = None
    pinned: Sequence[str] = ()
    nine: bool = False
    prefix: str = "chatcmpl-tool-"

    def of(self, index: int, name: str, native: str | None) -> str:
        """The id of the call at `index`; the model's own where it gave one."""
        if index < len(self.pinned):
            return self.pinned[index]
        if native is not None:
            return native
        if self.first is not None:
            return f"functions.{name}:{self.first + index}"
        key = f"{self.request_id}\0{self.choice}\0{index}".encode("utf-8", "surrogatepass")
        return nine_characters(key) if self.nine else f"{self.prefix}{low_half(key)}"


def low_half(key: bytes) -> str:
    """16 hexadecimal digits that look like the low half of a random UUID."""
    digits = hashlib.blake2b(key, digest_size=8).hexdigest()
    return f"{_VARIANTS[int(digits[0], 16) & 3]}{digits[1:]}"


def nine_characters(key: bytes) -> str:
    """Nine letters and digits, the only form of id that Mistral's chat templates take."""
    number = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest())
    letters = []
    for _ in range(9):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)
