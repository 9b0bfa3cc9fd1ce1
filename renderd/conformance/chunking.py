"""A finished tokens-mode answer cut into the events that an engine streams (contract G.2)."""

from __future__ import annotations

import random
from typing import Any


def groups(count: int, size: int | random.Random) -> list[int]:
    """How many tokens each event carries: `size` of them, or 1 to 9 at random. Their sum is `count`."""
    lengths: list[int] = []
    left = count
    while left > 0:
        length = min(left, size if isinstance(size, int) else size.choice((1, 1, 2, 3, 5, 9)))
        lengths.append(length)
        left -= length
    return lengths


def events(generate: dict[str, Any], position: int, size: int | random.Random) -> list[dict[str, Any]]:
    """The events of the choice at `position`, the finishing one last.

    At random a choice that no token ended (`finish_reason` is not "stop") ends with an event without tokens.
    """
    choice = generate["choices"][position]
    token_ids: list[int] = choice["token_ids"] or []
    lengths = groups(len(token_ids), size)
    if isinstance(size, random.Random) and choice.get("finish_reason") != "stop" and size.random() < 0.5:
        lengths.append(0)
    out: list[dict[str, Any]] = []
    at = 0
    for number, length in enumerate(lengths or [0]):
        last = number == max(len(lengths), 1) - 1
        streamed = {
            "index": choice["index"],
            "finish_reason": choice.get("finish_reason", "stop") if last else None,
            "stop_reason": choice.get("stop_reason") if last else None,
            "token_ids": token_ids[at : at + length],
            "routed_experts": None,
            "sampling_mask": None,
            "weight_versions": choice.get("weight_versions") if last else None,
            "logprobs": _cut(choice.get("logprobs"), at, at + length),
        }
        event: dict[str, Any] = {
            "request_id": generate["request_id"],
            "usage": None,
            "output_mode": "tokens",
            "choices": [streamed],
        }
        if number == 0 and generate.get("prompt_token_ids") is not None:
            event["prompt_token_ids"] = generate["prompt_token_ids"]
        out.append(event)
        at += length
    return out


def usage_event(generate: dict[str, Any]) -> dict[str, Any]:
    """The last event of a request that asked for usage. It belongs to no choice."""
    completion = sum(len(choice["token_ids"] or []) for choice in generate["choices"])
    prompt = (generate.get("usage") or {}).get("prompt_tokens", 0)
    usage = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
    return {"request_id": generate["request_id"], "usage": usage, "output_mode": "tokens", "choices": []}


def _cut(logprobs: dict[str, Any] | None, start: int, end: int) -> dict[str, Any] | None:
    if logprobs is None or logprobs.get("content") is None:
        return logprobs
    return {**logprobs, "content": logprobs["content"][start:end]}
