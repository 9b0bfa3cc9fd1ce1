"""What the scripted engine answers: the tokens are given, the log probabilities made up.

The script of a request stands in `sampling_params.extra_args` (`vllm_xargs` of an OpenAI request):
`force_token_ids`, a list of ids, or `force_text`, a string. For n > 1 either may be a list of such values,
one a choice.
"""

from __future__ import annotations

from typing import Any

from renderd.model import Tokenizer
from renderd.wire.errors import bad_request
from renderd.wire.generate import TokenLogprob, TopLogprob

CANNED = (
    "This is a scripted engine: no model runs here. "
    "It answers what the request's vllm_xargs say in force_text or force_token_ids, or else these words."
)


def scripts(extra_args: dict[str, Any] | None, tokenizer: Tokenizer) -> list[list[int]]:
    """The token ids that each choice answers; choice i takes entry i, counted round. Raises ApiError 400."""
    given = extra_args or {}
    ids, text = given.get("force_token_ids"), given.get("force_text")
    if ids is not None:
        return _token_ids(ids)
    texts: list[Any] = text if isinstance(text, list) and text else [CANNED if text is None else text]
    try:
        return [list(tokenizer.encode(item, add_special_tokens=False)) for item in texts]
    except TypeError:  # no text, or text with a lone surrogate
        raise bad_request(
            "force_text must be a string or, one a choice, a list of strings.", "force_text"
        ) from None


def _token_ids(value: Any) -> list[list[int]]:
    lists = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    for ids in lists:
        if not isinstance(ids, list) or not all(type(token) is int and 0 <= token < 2**31 for token in ids):
            raise bad_request(
                "force_token_ids must be a list of token ids or, one a choice, a list of such lists.",
                "force_token_ids",
            )
    return lists


def token_logprob(token: int, k: int, vocabulary: int) -> TokenLogprob:
    """A made-up record of a token and its k best candidates (contract G.2), the sampled one first.

    The scripted token is never among the best, as on a real engine whose tokens are forced: k + 1 entries.
    """
    sampled = TopLogprob(token, _logprob(k + 1), k + 1)
    best = [TopLogprob((token + rank) % vocabulary, _logprob(rank), rank) for rank in range(1, k + 1)]
    return TokenLogprob(token, sampled.logprob, sampled.rank, [sampled, *best])


def _logprob(rank: int) -> float:
    return -0.25 * rank


def prompt_logprobs(token_ids: list[int], k: int, vocabulary: int) -> list[dict[str, dict[str, Any]] | None]:
    """A made-up record of each prompt token but the first, which has none."""
    records: list[dict[str, dict[str, Any]] | None] = [None]
    for token in token_ids[1:]:
        candidates = token_logprob(token, k, vocabulary).top_logprobs
        records.append(
            {
                str(one.token_id): {"logprob": one.logprob, "rank": one.rank, "decoded_token": None}
                for one in candidates
            }
        )
    return records
