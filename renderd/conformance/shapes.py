"""The chunks of an event stream one by one: which keys each has, and in which order it says things.

What they amount to is `assemble`'s affair, and where one ends and the next begins nobody's: a server may be
more eager than another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

Chunk = dict[str, Any]


def differing_shapes(recorded: Sequence[Chunk], own: Sequence[Chunk]) -> Iterator[str]:
    """Sentences about kinds of chunk that have other keys, or the same in another order."""
    theirs, ours = _shapes(recorded), _shapes(own)
    for kind, shapes in ours.items():
        if kind in theirs and not shapes <= theirs[kind]:
            yield f"{kind} chunks have the keys {sorted(shapes)}, wanted {sorted(theirs[kind])}"


def differing_order(recorded: Iterable[Chunk], own: Iterable[Chunk]) -> Iterator[str]:
    """Sentences about choices that say the same things in another order."""
    theirs, ours = _order(recorded), _order(own)
    for index in sorted({*theirs, *ours}):
        if theirs.get(index) != ours.get(index):
            yield f"choice {index} says {ours.get(index)}, wanted {theirs.get(index)}"


def _kind(chunk: Chunk) -> str:
    if not chunk["choices"]:
        return "usage"
    choice = chunk["choices"][0]
    if choice.get("finish_reason") is not None:
        return "finish"
    return "role" if (choice.get("delta") or {}).get("role") else "news"


def _shapes(chunks: Iterable[Chunk]) -> dict[str, set[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = {}
    for chunk in chunks:
        keys = [*chunk, *(f"choices.{key}" for choice in chunk["choices"] for key in choice)]
        keys += [f"usage.{key}" for key in chunk.get("usage") or ()]
        found.setdefault(_kind(chunk), set()).add(tuple(keys))
    return found


def _order(chunks: Iterable[Chunk]) -> dict[int, list[str]]:
    """What the choices speak of, one after the other. Chunks that say nothing do not count."""
    found: dict[int, list[str]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            said = found.setdefault(choice["index"], [])
            for thing in _things(choice):
                if said[-1:] != [thing]:
                    said.append(thing)
    return found


def _things(choice: Chunk) -> Iterator[str]:
    delta = choice.get("delta") or {}
    if delta.get("role"):
        yield "role"
    for key in ("reasoning", "content"):
        if (delta.get(key) or "").strip():  # blanks before a call may wait until it is known what they are
            yield key
    for call in delta.get("tool_calls") or ():
        yield f"call {call['index']}"
    if choice.get("text"):
        yield "text"
    if choice.get("finish_reason") is not None:
        yield "finish"


def differing_events(recorded: Sequence[Chunk], own: Sequence[Chunk]) -> Iterator[str]:
    """Sentences about keys that events of the messages API lack, or have in another order."""
    ours = {_step(event): list(_keys(event)) for event in own}
    for event in recorded:
        theirs = list(_keys(event))
        keys = ours.get(_step(event), theirs)
        if [key for key in keys if key in theirs] != theirs:
            yield f"{event['type']} has the keys {keys}, wanted {theirs}"


def differing_steps(recorded: Iterable[Chunk], own: Iterable[Chunk]) -> Iterator[str]:
    """A sentence about a stream of the messages API that does other things, or in another order. Deltas in a
    row are one."""
    theirs, ours = ([step for step, _ in groupby(map(_step, events))] for events in (recorded, own))
    if theirs != ours:
        yield f"does {ours}, wanted {theirs}"


def _step(event: Chunk) -> tuple[Any, ...]:
    part = event.get("content_block") or event.get("delta") or {}
    return event["type"], event.get("index"), part.get("type")


def _keys(value: Chunk, prefix: str = "") -> Iterator[str]:
    for key, inner in value.items():
        yield prefix + key
        if isinstance(inner, dict):
            yield from _keys(inner, f"{prefix}{key}.")
