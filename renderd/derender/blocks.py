"""Parser events -> the content blocks of a message of the messages API, in the order in which they were said.

A whole message is made of the same events as a streamed one, so both are the same by construction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from parsers.events import CallArguments, CallStart, Content, Event, Reasoning
from renderd.derender.context import Context
from renderd.derender.ids import CallIds
from renderd.wire.anthropic import tool_input
from renderd.wire.anthropic_answers import (
    Block,
    BlockDelta,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJsonDelta,
    MessageEvent,
    SignatureDelta,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)

_REASONS: dict[str, StopReason] = {"length": "max_tokens", "tool_calls": "tool_use"}


class Progress(msgspec.Struct, array_like=True):
    """How far the events of a message are.

    Attributes:
        input_tokens: of the prompt.
        blocks: begun so far.
        open: the type of the last of them, empty once it is complete.
        called: there is a tool_use block.
    """

    input_tokens: int
    blocks: int = 0
    open: str = ""
    called: bool = False


class BlockWriter:
    """Writes the events of one message. `request_id`: of the engine's answer; signatures depend on it."""

    def __init__(self, progress: Progress, context: Context, ids: CallIds, request_id: str) -> None:
        self._progress = progress
        self._context = context
        self._ids = ids
        self._request_id = request_id
        self._written: list[MessageEvent] = []
        self._delta: type[BlockDelta] = TextDelta
        self._pieces: list[str] = []

    def feed(self, events: Iterable[Event]) -> None:
        """Write what the next parser events say."""
        for event in events:
            if isinstance(event, Content) and event.text:
                self._enter("text", TextBlock(""))
                self._say(TextDelta, event.text)
            elif isinstance(event, Reasoning) and event.text and self._context.include_reasoning:
                self._enter("thinking", ThinkingBlock("", ""))
                self._say(ThinkingDelta, event.text)
            elif isinstance(event, CallStart) and self._kept(event.index):
                self.end()
                call_id = self._ids.of(event.index, event.name, event.id)
                self._enter("tool_use", ToolUseBlock(call_id, event.name, {}))
                self._progress.called = True
            elif isinstance(event, CallArguments) and event.text and self._kept(event.index):
                self._say(InputJsonDelta, event.text)

    def end(self) -> None:
        """Write the end of the open block, if there is one."""
        progress = self._progress
        if progress.open == "thinking":
            key = f"{self._request_id}\0{progress.blocks}".encode("utf-8", "surrogatepass")
            self._say(SignatureDelta, hashlib.blake2b(key, digest_size=16).hexdigest())
        self._flush()
        if progress.open:
            self._written.append(ContentBlockStop(progress.blocks - 1))
        progress.open = ""

    def take(self) -> list[MessageEvent]:
        """What was written. All that was said of a block in a row is one event."""
        self._flush()
        return self._written

    def _kept(self, call: int) -> bool:
        return self._context.keeps_calls and (self._context.parallel or call == 0)

    def _enter(self, kind: str, block: Block) -> None:
        if self._progress.open != kind:
            self.end()
            self._written.append(ContentBlockStart(block, self._progress.blocks))
            self._progress.blocks += 1
            self._progress.open = kind

    def _say(self, delta: type[BlockDelta], text: str) -> None:
        if delta is not self._delta:
            self._flush()
        self._delta = delta
        self._pieces.append(text)

    def _flush(self) -> None:
        if self._pieces:
            delta = self._delta("".join(self._pieces))
            self._written.append(ContentBlockDelta(delta, self._progress.blocks - 1))
            self._pieces.clear()


def blocks_of(events: Iterable[MessageEvent]) -> list[Block]:
    """The content blocks that a message's events amount to."""
    blocks: list[Block] = []
    arguments = ""
    for event in events:
        if isinstance(event, ContentBlockStart):
            blocks.append(event.content_block)
            arguments = ""
        elif isinstance(event, ContentBlockDelta):
            block, delta = blocks[-1], event.delta
            if isinstance(block, TextBlock) and isinstance(delta, TextDelta):
                block.text += delta.text
            elif isinstance(block, ThinkingBlock) and isinstance(delta, ThinkingDelta):
                block.thinking += delta.thinking
            elif isinstance(block, ThinkingBlock) and isinstance(delta, SignatureDelta):
                block.signature = delta.signature
            elif isinstance(delta, InputJsonDelta):
                arguments += delta.partial_json
        elif isinstance(event, ContentBlockStop) and isinstance(blocks[-1], ToolUseBlock):
            blocks[-1].input = tool_input(arguments)
    return blocks


def stop_reason_of(finish_reason: str | None, stop_reason: int | str | None, called: bool) -> StopReason:
    """Why a message ended. `called`: it has a tool_use block."""
    if isinstance(stop_reason, str):
        return "stop_sequence"
    if finish_reason in _REASONS:
        return _REASONS[finish_reason]
    return "tool_use" if called else "end_turn"
