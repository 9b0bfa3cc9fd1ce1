"""How much of a prompt an engine may know from the last turn (contract K.3)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from renderd.model.hurry import takes_long
from renderd.model.segments import TokenIds
from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request
from renderd.wire.prefix import HASH_BYTES, Prefix, PrefixChain, PrefixFields, digests, prefix_chain

_BRIEF_TOKENS = 16_384
"""As many can be hashed or compared in a millisecond."""


def prefix_of(request: PrefixFields, ids: Sequence[int]) -> Prefix | UnsetType:
    """What the request asks of its prompt's ids; nothing for most requests. Raises ApiError 400."""
    previous, hashes, block_size = (
        request.previous_token_ids,
        request.previous_prefix_hashes,
        request.return_prefix_hashes,
    )
    if previous is None and hashes is None and block_size is None:
        return UNSET
    if previous is not None and hashes is not None:
        raise rule_error(
            "Send `previous_token_ids` or `previous_prefix_hashes`, not both.", "previous_prefix_hashes"
        )
    if len(ids) > _BRIEF_TOKENS:
        takes_long()
    try:
        if previous is not None:
            prefix = _compared(ids, previous)
        elif hashes is not None:
            prefix = _by_hashes(ids, hashes)
        else:
            prefix = Prefix()
        if block_size is not None:
            prefix.chain = prefix_chain(ids, block_size)
    except OverflowError:  # a prompt of ids may have any
        raise bad_request(
            "A token id of the prompt is too large to be hashed: it has more than 32 bits."
        ) from None
    return prefix


def check_single(request: PrefixFields) -> None:
    """Raises ApiError 400 if a request with several prompts says what came before."""
    for name in ("previous_token_ids", "previous_prefix_hashes"):
        if getattr(request, name) is not None:
            raise rule_error(f"`{name}` needs a request with one prompt.", name)


def _compared(ids: Sequence[int], previous: list[int]) -> Prefix:
    shared = (ids if isinstance(ids, TokenIds) else TokenIds.joined([ids])).shared(previous)
    parts = shared < min(len(ids), len(previous))
    return Prefix(shared, len(previous), shared if parts else None)


def _by_hashes(ids: Sequence[int], chain: PrefixChain) -> Prefix:
    # A pattern in the type would take longer to check than all the rest takes.
    try:
        known = bytes.fromhex("".join(chain.hashes))
    except ValueError:
        known = b""
    if len(known) != HASH_BYTES * len(chain.hashes):
        raise rule_error("A hash is not hexadecimal.", "previous_prefix_hashes")
    shared = at = 0
    for digest in digests(ids, chain.block_size):
        if at == len(known):
            break
        if not known.startswith(digest, at):
            return Prefix(shared, chain.tokens, shared)
        shared += chain.block_size
        at += HASH_BYTES
    return Prefix(shared, chain.tokens)
