"""Helpers of the parser tests: text to lexemes, events to a message."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from parsers import (
    Anomaly,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Event,
    Family,
    Machine,
    Marker,
    Reasoning,
    RequestContext,
    State,
)

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
PING: dict[str, Any] = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}
TOOLS = [WEATHER, PING]


@dataclass
class Message:
    """What the events of an answer add up to."""

    reasoning: str | None = None
    content: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    complete: list[bool] = field(default_factory=list)
    anomalies: dict[str, int] = field(default_factory=dict)
    ids: list[str | None] = field(default_factory=list)


def add_up(events: Iterable[Event]) -> Message:
    """Concatenate events, checking their order."""
    message = Message()
    for event in events:
        match event:
            case Reasoning(text):
                message.reasoning = (message.reasoning or "") + text
            case Content(text):
                message.content = (message.content or "") + text
            case CallStart(index, name, own_id):
                assert index == len(message.calls)
                message.ids.append(own_id)
                message.calls.append((name, ""))
                message.complete.append(False)
            case CallArguments(index, text):
                assert index == len(message.calls) - 1 and not message.complete[index]
                name, arguments = message.calls[index]
                message.calls[index] = (name, arguments + text)
            case CallEnd(index):
                assert index == len(message.calls) - 1 and not message.complete[index]
                message.complete[index] = True
            case Anomaly(kind, characters):
                message.anomalies[kind] = message.anomalies.get(kind, 0) + characters
    return message


def lexemes(family: Family, text: str, seed: int | None = None) -> list[str]:
    """Lexemes of a text whose markers are tokens; the rest is cut at random if a seed is given."""
    parts = re.split(
        "(" + "|".join(map(re.escape, sorted(family.markers, key=len, reverse=True))) + ")", text
    )
    cut = random.Random(seed)
    found: list[str] = []
    for part in parts:
        if part in family.markers:
            found.append(Marker(part))
        elif seed is None:
            found += [part] if part else []
        else:
            while part:
                size = cut.randint(0, 5)
                found.append(part[:size])
                part = part[size:]
    return found


def resumed(family: Family, context: RequestContext, markers: frozenset[str], machine: Machine) -> Machine:
    """A machine that goes on from what another would write down."""
    written = msgspec.json.encode(machine.state)
    return family.resume(context, markers, msgspec.json.decode(written, type=State))


def parse(
    family: Family,
    pieces: Sequence[str],
    context: RequestContext,
    *,
    resume: bool = False,
) -> Message:
    """Feed lexemes one by one; with `resume`, through a written state between any two."""
    machine = family.start(context, family.markers)
    events: list[Event] = []
    for piece in pieces:
        events += machine.feed([piece])
        if resume:
            machine = resumed(family, context, family.markers, machine)
    events += machine.finish()
    assert machine.finish() == []
    return add_up(events)
