"""A stream of the messages API put together again: the message that its events amount to, and faults of their
order."""

from __future__ import annotations

from typing import Any

from renderd.wire.anthropic import tool_input

_DELTAS = {
    "text": {"text_delta": "text"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"},
}
"""Of each type of content block the deltas that it may have, and where their text stands."""


class MessageAssembly:
    """One message from its events, in the order in which they came.

    Attributes:
        faults: what no client should see, in the order found.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._message: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._open: dict[str, str] | None = None
        self._ended = ""

    def add(self, event: dict[str, Any]) -> None:
        """Take the next event."""
        kind = event.get("type")
        if self._ended == "message_stop" or (self._ended == "message_delta" and kind != "message_stop"):
            self.faults.append(f"{kind} after {self._ended}")
        if (kind == "message_start") == bool(self._message):
            self.faults.append(f"{kind} where the message has {'' if self._message else 'not '}started")
        if kind == "message_start":
            self._start(event["message"])
        elif kind == "content_block_start":
            self._start_block(event)
        elif kind == "content_block_delta":
            self._add_delta(event)
        elif kind == "content_block_stop":
            self._stop_block(event)
        elif kind == "message_delta":
            self._ended = kind
            self._message |= event["delta"] | {"usage": self._message.get("usage", {}) | event["usage"]}
            if self._open is not None:
                self.faults.append("message_delta in a content block")
        elif kind == "message_stop":
            self._ended = kind
        else:
            self.faults.append(f"type is {kind!r}")

    def answer(self) -> dict[str, Any]:
        """What `message_outline` makes of the equal batch answer."""
        if self._ended != "message_stop":
            self.faults.append("never stopped")
        return message_outline({**self._message, "content": self._blocks})

    def _start(self, message: dict[str, Any]) -> None:
        if message["content"] or message.get("stop_reason") is not None:
            self.faults.append("message_start has content or a stop reason")
        self._message = dict(message)

    def _start_block(self, event: dict[str, Any]) -> None:
        block = dict(event["content_block"])
        if self._open is not None or event["index"] != len(self._blocks):
            self.faults.append(f"content block {event['index']} started behind {len(self._blocks)}")
        if any(block.get(key) for key in ("text", "thinking", "signature", "input")):
            self.faults.append(f"content block {event['index']} starts with content")
        self._blocks.append(block)
        self._open = {}

    def _add_delta(self, event: dict[str, Any]) -> None:
        delta = event["delta"]
        key = _DELTAS.get(self._blocks[-1]["type"] if self._blocks else "", {}).get(delta["type"])
        if self._open is None or event["index"] != len(self._blocks) - 1 or key is None:
            self.faults.append(f"{delta['type']} for content block {event['index']}")
            return
        if "signature" in self._open:
            self.faults.append(f"{delta['type']} behind the signature")
        self._open[key] = self._open.get(key, "") + delta[key]

    def _stop_block(self, event: dict[str, Any]) -> None:
        if self._open is None or event["index"] != len(self._blocks) - 1:
            self.faults.append(f"content block {event['index']} stopped")
            return
        block, said = self._blocks[-1], self._open
        if block["type"] == "tool_use":
            block["input"] = tool_input(said.get("partial_json", ""))
        else:
            block |= said
        self._open = None


def message_outline(batch: dict[str, Any]) -> dict[str, Any]:
    """Of a batch answer, what a stream can say too."""
    keys = ("role", "content", "stop_reason", "stop_sequence", "usage")
    return {key: batch.get(key) for key in keys}
