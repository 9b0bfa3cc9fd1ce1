"""What a request took and met: time by stage, tokens, anomalies. Render and derender note it, the server
reports it.

A request's record is the current one of whatever works on the request, so nobody hands it down. Where there
is none, as in a test of a room, notes are dropped. Imports nothing of renderd, so that every room may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import perf_counter
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

STAGES = ("wait", "decode", "template", "tokenize", "detokenize", "parse", "encode")
"""Waiting for a process; reading the body; conversation to prompt text; text to ids; ids to text, with the
search for stop strings; text to the parts of a message; writing the answer."""

clock = perf_counter
"""Seconds, for `spent`."""


_NO_TRACE: Mapping[str, str] = {}

Noted = tuple[dict[str, list[float]], int, int, int, int, list[tuple[tuple[str, str], list[int]]]]
"""What a record holds, as plain values."""


class Record:
    """What is known of one request. Used by one thread at a time.

    Attributes:
        request_id: as the log and the answer's header name it.
        stages: when each stage first began and last ended, by `clock`, and the seconds in it.
        tokens_rendered: of prompts.
        tokens_derendered: of outputs.
        replays: streams whose history was read again, for want of a state that says where they are.
        state_bytes: of the stream state written, 0 for none.
        anomalies: times and characters of output that a parser could make nothing of, by parser and kind.
        visits: stages on the way through engines: name, engine, and by `clock` the begin and the end.
        trace: headers that say to other servers which trace the request is part of.
    """

    __slots__ = (
        "anomalies",
        "replays",
        "request_id",
        "stages",
        "state_bytes",
        "tokens_derendered",
        "tokens_rendered",
        "trace",
        "visits",
    )

    def __init__(self, request_id: str = "") -> None:
        self.request_id = request_id
        self.stages: dict[str, list[float]] = {}
        self.tokens_rendered = 0
        self.tokens_derendered = 0
        self.replays = 0
        self.state_bytes = 0
        self.anomalies: dict[tuple[str, str], list[int]] = {}
        self.visits: list[tuple[str, str, float, float]] = []
        self.trace: Mapping[str, str] = _NO_TRACE

    def noted(self) -> Noted:
        """All that was noted, to be taken by the record of another process."""
        return (
            self.stages,
            self.tokens_rendered,
            self.tokens_derendered,
            self.replays,
            self.state_bytes,
            list(self.anomalies.items()),
        )

    def take(self, noted: Noted) -> None:
        """What another process noted of the same request."""
        stages, rendered, derendered, replays, state_bytes, anomalies = noted
        self.tokens_rendered += rendered
        self.tokens_derendered += derendered
        self.replays += replays
        self.state_bytes = state_bytes or self.state_bytes
        for stage, (began, ended, seconds) in stages.items():
            known = self.stages.setdefault(stage, [began, ended, 0.0])
            known[1], known[2] = ended, known[2] + seconds
        for key, (times, characters) in anomalies:
            sums = self.anomalies.setdefault(key, [0, 0])
            sums[0] += times
            sums[1] += characters

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns; what it notes, it notes here. For a thread that has no current record."""
        token = _current.set(self)
        try:
            return work(*args, **kwargs)
        finally:
            _current.reset(token)


_current: ContextVar[Record | None] = ContextVar("renderd_record", default=None)

current = _current.get
"""The record of the request that this code works on, None outside of requests."""


def begin(record: Record) -> Record:
    """`record` is the current one for the rest of this task."""
    _current.set(record)
    return record


def spent(stage: str, began: float) -> float:
    """Note that a stage took from `began` until now. Returns now, where the next stage may begin."""
    ended = perf_counter()
    record = _current.get()
    if record is not None:
        times = record.stages.get(stage)
        if times is None:
            record.stages[stage] = [began, ended, ended - began]
        else:
            times[1] = ended
            times[2] += ended - began
    return ended


def visited(stage: str, engine: str, began: float, ended: float) -> None:
    """Note a stage of the request's way through engines. Times are by `clock`."""
    record = _current.get()
    if record is not None:
        record.visits.append((stage, engine, began, ended))


def trace() -> Mapping[str, str]:
    """Headers that continue the trace of the request elsewhere."""
    record = _current.get()
    return _NO_TRACE if record is None else record.trace


def rendered(tokens: int) -> None:
    """Note a prompt of so many tokens."""
    record = _current.get()
    if record is not None:
        record.tokens_rendered += tokens


def derendered(tokens: int) -> None:
    """Note so many tokens of an output."""
    record = _current.get()
    if record is not None:
        record.tokens_derendered += tokens


def replayed() -> None:
    """Note that the history of a stream was read again."""
    record = _current.get()
    if record is not None:
        record.replays += 1


def wrote_state(size: int) -> None:
    """Note a stream state of `size` bytes."""
    record = _current.get()
    if record is not None:
        record.state_bytes = size


def met(parser: str, kind: str, characters: int) -> None:
    """Note output that a parser could make nothing of."""
    record = _current.get()
    if record is not None:
        sums = record.anomalies.setdefault((parser, kind), [0, 0])
        sums[0] += 1
        sums[1] += characters
