"""What a prompt shares with the tokens of an earlier turn, whose KV an engine may hold (contract K.3).

renderd's own fields: vLLM ignores those of requests, and engines those of a GenerateRequest.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
HASH_BYTES = 16
Hash = Annotated[str, msgspec.Meta(min_length=2 * HASH_BYTES, max_length=2 * HASH_BYTES)]


class PrefixChain(msgspec.Struct):
    """Hashes that tell whether two lists of ids begin alike, block by block.

    The hash of a block stands for all ids up to its end. It is SHA-256 over the 16 bytes of the hash before,
    which the first block does not have, and the block's ids as unsigned integers of 32 bits, little-endian;
    the first 16 bytes of it, in lower-case hexadecimal. Ids behind the last whole block have no hash.
    """

    block_size: Annotated[int, msgspec.Meta(ge=1)]
    hashes: list[Hash]

    @property
    def tokens(self) -> int:
        """How many ids it covers."""
        return self.block_size * len(self.hashes)


class PrefixFields(msgspec.Struct, kw_only=True):
    """What a request asks of its prompt.

    Attributes:
        previous_token_ids: prompt and answer of the last turn, as an engine holds them.
        previous_prefix_hashes: the same, as a chain of hashes.
        return_prefix_hashes: tokens of a block: the answer is to have the prompt's own chain.
    """

    previous_token_ids: list[TokenId] | None = None
    previous_prefix_hashes: PrefixChain | None = None
    return_prefix_hashes: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Prefix(msgspec.Struct):
    """What was asked of a prompt; null for what was not.

    Attributes:
        shared_tokens: how many of the prompt's first tokens the previous ones begin with, too. By hashes: as
            many as whole blocks show.
        previous_tokens: how many there were.
        diverges_at: the place of the first token that is another one, null where there is none because the
            one list goes on from the other. By hashes: the first place of the block that is another one.
        chain: of the prompt.
    """

    shared_tokens: int | None = None
    previous_tokens: int | None = None
    diverges_at: int | None = None
    chain: PrefixChain | None = None


def prefix_chain(ids: Sequence[int], block_size: int) -> PrefixChain:
    """The chain of a list of ids. Raises OverflowError for an id of more than 32 bits."""
    return PrefixChain(block_size, [digest.hex() for digest in digests(ids, block_size)])


def digests(ids: Sequence[int], block_size: int) -> Iterator[bytes]:
    """The hashes of a chain, one after another."""
    numbers = array("I", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    data, step, last = memoryview(numbers.tobytes()), 4 * block_size, b""
    for at in range(0, len(data) - step + 1, step):
        last = hashlib.sha256(last + data[at : at + step]).digest()[:HASH_BYTES]
        yield last
