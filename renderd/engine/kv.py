"""The hand-over of KV from a prefill engine to a decode engine (contract K.2), without any KV.

What prefill says names blocks by what is in them, so that decode can tell those of its own prompt.
"""

from __future__ import annotations

from binascii import crc32
from typing import Any

BLOCK = 16
"""Tokens of a block."""


def offer(token_ids: list[int]) -> dict[str, Any]:
    """The `kv_transfer_params` of an answer to a request that said do_remote_decode."""
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_engine_id": "scripted",
        "remote_block_ids": _blocks(token_ids),
        "remote_host": "127.0.0.1",
        "remote_port": 0,
    }


def is_loaded(params: dict[str, Any], token_ids: list[int]) -> bool:
    """Whether the blocks are there that a request which said do_remote_prefill names."""
    return params.get("remote_block_ids") == _blocks(token_ids)


def _blocks(token_ids: list[int]) -> list[int]:
    """One number for each block, which depends on all tokens up to its end."""
    ids, last = [], 0
    for at in range(0, len(token_ids), BLOCK):
        last = crc32(repr(token_ids[at : at + BLOCK]).encode(), last)
        ids.append(last)
    return ids
