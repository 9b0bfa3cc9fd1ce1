"""Answers of every API, told apart by their own shape: batch answers outlined, streams put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from renderd.conformance import assemble
from renderd.conformance.assemble_messages import MessageAssembly, message_outline
from renderd.conformance.assemble_responses import ResponseAssembly, response_outline
from renderd.conformance.malformed import MALFORMED, Unreadable, excerpt, reason


class Assembler(Protocol):
    """A stream that is being put together. `faults`: of the order of its events."""

    faults: list[str]

    def add(self, event: dict[str, Any], /) -> None: ...
    def answer(self) -> dict[str, Any]: ...


_ASSEMBLERS: dict[str, Callable[[], Assembler]] = {
    "message_start": MessageAssembly,
    "response.created": ResponseAssembly,
}
"""By the first event of a stream."""


def outline(batch: dict[str, Any]) -> dict[str, Any]:
    """Of a batch answer, what a stream can say too."""
    if batch.get("type") == "message":
        return message_outline(batch)
    if batch.get("object") == "response":
        return response_outline(batch)
    return assemble.outline(batch)


def assembly(events: Sequence[dict[str, Any]]) -> Assembler:
    """Chunks or events of a whole stream, put together. Unreadable says which of them cannot be."""
    made: Assembler | None = None
    for at, event in enumerate(events):
        try:
            if made is None:
                made = _ASSEMBLERS.get(event.get("type") or "", assemble.Assembly)()
            made.add(event)
        except MALFORMED as error:
            raise Unreadable(f"chunk {at}: {reason(error)} in {excerpt(event)}") from error
    return assemble.Assembly() if made is None else made


def is_answer(batch: Any) -> bool:
    """Whether a batch answer is one, and no error."""
    return isinstance(batch, dict) and any(key in batch for key in ("choices", "content", "output"))


def said(answers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chunks or events in answers of a streaming derender route; bare ones stand for themselves."""
    found: list[dict[str, Any]] = []
    for answer in answers:
        found += answer["events"] if "events" in answer else [answer.get("chunk", answer)]
    return found
