"""What stands around the news of every chunk of chat and completion: of which answer and model, when, and how
many tokens so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeGuard

from renderd.conformance.compare import timestamp

Chunk = dict[str, Any]

_KEYS = {
    "chunk": {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"}
    | {"prompt_token_ids", "prompt_text", "kv_transfer_params", "metrics"},
    "choice": {"index", "delta", "text", "logprobs", "finish_reason", "stop_reason", "token_ids"}
    | {"prompt_token_ids", "weight_versions"},
    "delta": {"role", "content", "reasoning", "tool_calls"},
    "call": {"index", "id", "type", "function"},
    "function": {"name", "arguments"},
}
"""All that the references write."""


def faults(chunks: Iterable[Chunk], model: str, request_id: str) -> Iterator[str]:
    """Sentences about chunks that name another answer or model, are of no time, or have keys of their own.

    Events of other APIs are left out.
    """
    for chunk in chunks:
        if "choices" not in chunk:
            continue
        for key, wanted in (("id", request_id), ("model", model)):
            if chunk.get(key) != wanted:
                yield f"{key}: wanted {wanted!r}, got {chunk.get(key)!r}"
        if not timestamp(None, chunk.get("created")):
            yield f"created is {chunk.get('created')!r}"
        for kind, part in _parts(chunk):
            more = sorted(part.keys() - _KEYS[kind])
            if more:
                yield f"a {kind} has {', '.join(more)}"
        if chunk.get("usage") is not None and (fault := usage_fault(chunk["usage"])):
            yield f"usage: {fault}"


def _parts(chunk: Chunk) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "chunk", chunk
    for choice in chunk["choices"]:
        yield "choice", choice
        yield "delta", choice.get("delta") or {}
        for call in (choice.get("delta") or {}).get("tool_calls") or ():
            yield "call", call
            yield "function", call.get("function") or {}


def differing_usage(
    recorded: Iterable[Chunk], events: Sequence[Chunk], own: Sequence[Chunk]
) -> Iterator[str]:
    """Sentences about counts beside news that are not those recorded after as many tokens, or that lack.

    `own` are the chunks that `events` made, one each: an event without counts makes a chunk without.
    """
    said = [chunk.get("usage") for chunk in recorded if chunk.get("choices")]
    theirs: dict[int, Chunk] = {one["completion_tokens"]: one for one in said if one is not None}
    if len(events) != len(own) or not theirs:
        return
    for event, chunk in zip(events, own, strict=True):
        usage = chunk.get("usage")
        if not chunk.get("choices") or event.get("usage") is None:
            continue
        if usage is None:
            yield "usage: none beside news, recorded with all"
            continue
        want = theirs.get(usage.get("completion_tokens")) or usage
        for key in ("prompt_tokens", "total_tokens"):
            if usage.get(key) != want.get(key):
                yield f"usage.{key}: wanted {want.get(key)!r}, got {usage.get(key)!r}"


def usage_fault(usage: dict[str, Any]) -> str:
    """What is wrong with counts of tokens by themselves; "" for nothing."""
    prompt, completion, total = (usage.get(f"{kind}_tokens") for kind in ("prompt", "completion", "total"))
    if not (_is_count(prompt) and _is_count(completion)):
        return f"{prompt!r} and {completion!r} are no counts"
    if total != prompt + completion:
        return f"{prompt} and {completion} are not {total!r} tokens"
    details = usage.get("completion_tokens_details")
    return "" if details is None else details_fault(details, completion) or ""


def details_fault(details: Any, completion: Any) -> str | None:
    """What is wrong with what is counted of the tokens generated; None for nothing."""
    if not isinstance(details, dict) or not details.keys() <= {"reasoning_tokens"}:
        return f"of the tokens generated are counted {details!r}"
    count = details.get("reasoning_tokens")
    if count is None or (_is_count(count) and _is_count(completion) and count <= completion):
        return None
    return f"{count!r} of {completion!r} tokens are reasoning"


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
