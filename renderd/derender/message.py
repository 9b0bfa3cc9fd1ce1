"""Events of a choice -> its message, or what a chunk says of it (contract E.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from parsers.events import CallArguments, CallStart, Content, Event, Reasoning
from renderd.derender.context import Context
from renderd.derender.ids import CallIds
from renderd.wire.answers import ChatMessage, Delta, FunctionCall, FunctionDelta, ToolCall, ToolCallDelta


def message_of(events: Iterable[Event], context: Context, ids: CallIds) -> ChatMessage:
    """The whole message of a parsed choice."""
    content: list[str] | None = None
    reasoning: list[str] | None = None
    calls: list[tuple[CallStart, list[str]]] = []
    for event in events:
        if isinstance(event, Content):
            content = [] if content is None else content
            content.append(event.text)
        elif isinstance(event, Reasoning):
            reasoning = [] if reasoning is None else reasoning
            reasoning.append(event.text)
        elif isinstance(event, CallStart):
            calls.append((event, []))
        elif isinstance(event, CallArguments):
            calls[event.index][1].append(event.text)
    if content is None and context.keeps_calls and context.forced:
        content = []
    kept = calls[: None if context.parallel else 1] if context.keeps_calls else []
    return ChatMessage(
        role=context.role,
        content=None if content is None else "".join(content),
        reasoning=None if reasoning is None or not context.include_reasoning else "".join(reasoning),
        tool_calls=[_tool_call(start, arguments, ids) for start, arguments in kept] or UNSET,
    )


def _tool_call(start: CallStart, arguments: list[str], ids: CallIds) -> ToolCall:
    call_id = ids.of(start.index, start.name, start.id)
    return ToolCall(call_id, "function", FunctionCall(start.name, "".join(arguments)))


def delta_of(events: Iterable[Event], context: Context, ids: CallIds) -> Delta:
    """What a chunk says, without the role. News of one call are one entry."""
    content, reasoning = "", ""
    calls: dict[int, ToolCallDelta] = {}
    for event in events:
        if isinstance(event, Content):
            content += event.text
        elif isinstance(event, Reasoning):
            reasoning += event.text
        elif isinstance(event, (CallStart, CallArguments)) and context.keeps_calls:
            if event.index and not context.parallel:
                continue
            if isinstance(event, CallStart):
                call_id = ids.of(event.index, event.name, event.id)
                calls[event.index] = ToolCallDelta(
                    id=call_id, type="function", index=event.index, function=FunctionDelta(event.name)
                )
            else:
                entry = calls.setdefault(
                    event.index, ToolCallDelta(index=event.index, function=FunctionDelta())
                )
                entry.function.arguments = (entry.function.arguments or "") + event.text
    return Delta(
        content=content or None,
        reasoning=(reasoning or None) if context.include_reasoning else None,
        tool_calls=list(calls.values()) or UNSET,
    )


def text_of(events: Sequence[Event]) -> str:
    """The text of a plain choice."""
    return "".join(event.text for event in events if isinstance(event, Content))


FAILURES = {"error": "Internal server error", "abort": "The answer was aborted."}
"""Finish reasons of an engine that did not come to an end of the answer, and what is said of them."""


def finish_reason_of(reason: str, context: Context, called: bool) -> str:
    """The finish reason to report. `called`: the answer holds a tool call that the client sees."""
    if reason == "stop" and called and context.tool_choice != "named":
        return "tool_calls"
    return reason
