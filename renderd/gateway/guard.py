"""No KV of another engine is offered for tokens that a prompt does not begin with (contract K.3).

A client that says what the last turn's tokens were (PrefixFields) may send `kv_transfer_params` that name the
KV of these tokens. What vLLM's NIXL connector makes of them:

- `do_remote_prefill`: the KV of the whole prompt is loaded.
- `do_remote_decode` with `remote_block_ids`: the KV of the first `remote_num_tokens` tokens is loaded. They
  are of the last turn's prompt and answer, however this prompt goes on
  (https://github.com/vllm-project/vllm/issues/43094).

An offer that goes beyond the shared prefix is taken back as a whole. It cannot be shortened: the parameters
do not say how many tokens a block has, and the engine that reads takes the last of the blocks, not the first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from renderd.wire.generate import GenerateRequest
from renderd.wire.prefix import Prefix

logger = logging.getLogger("renderd.gateway")


def guarded(request: GenerateRequest) -> dict[str, Any] | None:
    """The request's `kv_transfer_params`, without an offer that its `prefix` does not cover."""
    params = request.kv_transfer_params
    if params is None or not isinstance(request.prefix, Prefix) or request.prefix.shared_tokens is None:
        return params
    if _offered(params, len(request.token_ids)) <= request.prefix.shared_tokens:
        return params
    logger.info(
        "%s: its prompt shares %d tokens with the last turn: the KV of more is not offered",
        request.request_id,
        request.prefix.shared_tokens,
    )
    # What an engine is to keep for another one is no offer.
    return {"do_remote_decode": True} if params.get("do_remote_decode") else None


def _offered(params: Mapping[str, Any], prompt_tokens: int) -> float:
    """How many of the first tokens have KV that an engine would load."""
    if params.get("do_remote_prefill"):
        return prompt_tokens
    if not params.get("remote_block_ids"):
        return 0
    tokens = params.get("remote_num_tokens")
    return tokens if isinstance(tokens, int) else float("inf")
