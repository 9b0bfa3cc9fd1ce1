"""What stands around the news of every chunk and event of a stream: of which answer and model, when, how many
tokens so far, and what is the same whatever is said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeGuard

from renderd.conformance.compare import Difference, Rule, Rules, anything, differences, text, timestamp
from renderd.conformance.paths import ABSENT, Path

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


def faults(events: Iterable[Chunk], model: str, request_id: str) -> Iterator[str]:
    """Sentences about chunks and events that name another answer or model or are of no time, and about chunks
    that have keys of their own, or counts and a stop reason that cannot be."""
    for event in events:
        named = event if "choices" in event else event.get("message") or event.get("response")
        if named is None:
            continue
        for key, wanted in (("id", request_id), ("model", model)):
            if named.get(key) != wanted:
                yield f"{key}: wanted {wanted!r}, got {named.get(key)!r}"
        time = "created" if named is event else "created_at"
        if "message" not in event and not timestamp(None, named.get(time)):
            yield f"{time} is {named.get(time)!r}"
        if named is event:
            yield from _chunk_faults(event)


def _chunk_faults(chunk: Chunk) -> Iterator[str]:
    for kind, part in _parts(chunk):
        more = sorted(part.keys() - _KEYS[kind])
        if more:
            yield f"a {kind} has {', '.join(more)}"
        if kind == "choice" and part.get("finish_reason") is None and part.get("stop_reason") is not None:
            yield f"stop_reason is {part['stop_reason']!r} before the finish"
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


def differing_frames(recorded: Iterable[Chunk], own: Iterable[Chunk]) -> Iterator[tuple[str, Difference]]:
    """Where chunks and events differ from all recorded ones of their kind, but for what they say: the kind,
    and how it differs from the first of them.

    What they say is put together and compared as a whole, and `faults` has what names the answer. Events of a
    kind that was not recorded are left out; of chunks it is known that all the rest is null.
    """
    theirs: dict[Kind, list[Chunk]] = {}
    for kind, frame in _frames(recorded):
        known = theirs.setdefault(kind, [])
        if all(any(differences(one, frame, _rules(kind))) for one in known):
            known.append(frame)
    for kind, frame in _frames(own):
        wanted = theirs.get(kind) or _UNRECORDED.get(kind[0], [])
        found = [list(differences(one, frame, _rules(kind))) for one in wanted]
        if all(found):
            yield from ((" ".join(kind), difference) for one in found[:1] for difference in one)


Kind = tuple[str, ...]
"""Type of an event, and of the block, item, part or delta that it is about; of a chunk, what it is for."""

_UNRECORDED: dict[str, list[Chunk]] = {
    "chunk": [{"choices": [{}], "system_fingerprint": ""}],
    "usage chunk": [{"choices": [], "system_fingerprint": ""}],
}


def _frames(events: Iterable[Chunk]) -> Iterator[tuple[Kind, Chunk]]:
    """Every event with its kind. A chunk counts once for each of its choices."""
    for event in events:
        if "choices" not in event:
            parts = (event.get(key) for key in ("content_block", "delta", "item", "part"))
            kinds = (part["type"] for part in parts if isinstance(part, dict) and "type" in part)
            yield (str(event.get("type")), *map(str, kinds)), event
        elif not event["choices"]:
            yield ("usage chunk",), event
        for choice in event.get("choices", ()):
            finishes = choice.get("finish_reason") is not None
            opens = bool((choice.get("delta") or {}).get("role"))
            kind = "finish" if finishes else "role" if opens else "news"
            yield ("chunk", kind), {**event, "choices": [choice]}


def _fingerprint(want: Any, got: Any) -> bool:
    """The engine's own (contract F): text where text was recorded, which a server may leave out."""
    return got is None or got is ABSENT or (isinstance(want, str) and isinstance(got, str))


def _counted(want: Any, got: Any) -> bool:
    """Which event, block or item it is: whether it is the next one, is seen when they are put together."""
    return _is_count(got)


def _alike(want: Any, got: Any) -> bool:
    """Of one type: what it is, is seen when the events are put together."""
    return type(want) is type(got)


def _saying(*places: str, **more: Rule) -> Rules:
    return Rules({**dict.fromkeys(places, anything), **more}, absent_is_null=True)


_OF_CHOICE = ("index", "delta", "text", "logprobs", "finish_reason", "stop_reason", "token_ids")
_CHUNK = _saying(
    *("id", "object", "created", "model", "usage", "prompt_token_ids"),
    *(f"choices[*].{key}" for key in (*_OF_CHOICE, "prompt_token_ids")),
    system_fingerprint=_fingerprint,
)
_INDEX: dict[str, Rule] = {"index": _counted}
_ORDER: dict[str, Rule] = {"sequence_number": _counted, "output_index": _counted, "item_id": anything}
_SAYING = {
    "chunk": _CHUNK,
    "usage chunk": _CHUNK,
    "message_start": _saying("message.id", "message.model"),
    "content_block_start": _saying(
        *("content_block.id", "content_block.name"), **_INDEX, **{"content_block.signature": text}
    ),
    "content_block_delta": _saying(
        *(f"delta.{key}" for key in ("text", "thinking", "signature", "partial_json")), **_INDEX
    ),
    "content_block_stop": _saying(**_INDEX),
    "message_delta": _saying("delta.stop_reason", "delta.stop_sequence", "usage.output_tokens"),
    "added": _saying(*(f"item.{key}" for key in ("id", "call_id", "name", "namespace")), **_ORDER),
    "delta": _saying("delta", **_ORDER, logprobs=_alike),
    "done": _saying("text", "arguments", "input", "item", "part", **_ORDER, name=_alike),
}
"""Where chunks and events say something, by their type, or by the last word of it."""

_WHOLE = _saying("response", **_ORDER)


def _rules(kind: Kind) -> Rules:
    return _SAYING.get(kind[0]) or _SAYING.get(kind[0].rpartition(".")[2]) or _WHOLE


def differing_usage(
    recorded: Iterable[Chunk], events: Sequence[Chunk], own: Sequence[Chunk], whole: Any
) -> Iterator[tuple[str, Difference]]:
    """Where counts beside news are not those recorded after as many tokens of the choice, or lack.

    `own` are the chunks that `events` made, one each: an event without counts makes a chunk without. `whole`
    is the usage of the whole answer: where it counts other tokens as reasoning than the recorded stream does
    in the end, no chunk counts more of them.
    """
    theirs: dict[tuple[int, int], Chunk] = {}
    last: Chunk = {}
    for chunk in recorded:
        last = chunk.get("usage") or last
        for choice in chunk.get("choices", ()):
            if chunk.get("usage") is not None:
                theirs[choice["index"], chunk["usage"]["completion_tokens"]] = chunk["usage"]
    if len(events) != len(own) or not theirs:
        return
    details = _details(whole)
    bounded = _USAGE.after({_DETAILS: _at_most(details)})
    equal = _USAGE if details == _details(last) else bounded
    for event, chunk in zip(events, own, strict=True):
        usage = chunk.get("usage")
        for choice in chunk.get("choices", ()) if event.get("usage") is not None else ():
            if usage is None:
                yield "beside news", Difference(("usage",), next(iter(theirs.values())), None)
                continue
            count = usage.get("completion_tokens")
            want = theirs.get((choice["index"], count))
            total = last["prompt_tokens"] + count
            reckoned = {**last, "completion_tokens": count, "total_tokens": total}
            wanted = {_DETAILS: None, **(want or reckoned)}
            for one in differences(wanted, usage, equal if want else bounded):
                yield f"after {count} tokens", Difference(("usage", *one.path), one.want, one.got)


_PROVISIONAL = ("deepseek-v4*/call-in-reasoning", "kimi-k3/*", "plamo3/*")
"""Cases in which tokens count as reasoning until it is clear that they are of a marker, or of a call."""


def provisional(case: str, path: Path) -> str:
    """Why counts of some of the tokens so far may be others than the recorded ones; "" where they may not."""
    named = path[:2] == ("usage", _DETAILS) and any(fnmatchcase(case, one) for one in _PROVISIONAL)
    return "counted before it is clear what it is" if named else ""


_USAGE = Rules({}, absent_is_null=True)
_DETAILS = "completion_tokens_details"


def _details(usage: Any) -> Any:
    return usage.get(_DETAILS) if isinstance(usage, dict) else None


def _at_most(whole: Any) -> Rule:
    """Counts of some tokens, of all of which there are so many."""

    def rule(want: Any, got: Any) -> bool:
        if not isinstance(whole, dict) or not isinstance(got, dict):
            return bool((None if got is ABSENT else got) == whole)
        total, count = (one.get("reasoning_tokens") for one in (whole, got))
        told = got.keys() == whole.keys() and (count is None) == (total is None)
        return told and not details_fault(got, total)

    return rule


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
