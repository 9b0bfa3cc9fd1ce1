"""A stream of the responses API put together again: the response that its events amount to, and faults of
their order."""

from __future__ import annotations

from typing import Any

from renderd.conformance.compare import Rules, differences

_TEXTS = {
    "response.output_text": "text",
    "response.reasoning_text": "text",
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
"""Kinds of deltas, and where the `done` event of each has the whole text."""

_ENDING = {"status", "output", "usage", "incomplete_details", "error"}
"""What a response has only in the end."""

_GROWING = {"status", "content", "arguments", "input"}
"""What an item has only when it is done."""

_LAST = ("response.completed", "response.incomplete", "response.failed")


class ResponseAssembly:
    """One response from its events, in the order in which they came.

    Attributes:
        faults: what no client should see, in the order found.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._count = 0
        self._begun: dict[str, Any] = {}
        self._ended: dict[str, Any] = {}
        self._items: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._said: list[str] = []
        self._logprobs: list[Any] = []
        self._part: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []

    def add(self, event: dict[str, Any]) -> None:
        """Take the next event."""
        kind = event.get("type", "")
        if event.get("sequence_number") != self._count:
            self.faults.append(f"event {self._count} has number {event.get('sequence_number')}")
        if self._ended:
            self.faults.append(f"{kind} behind the end")
        if self._count < 2 and kind != ("response.created", "response.in_progress")[self._count]:
            self.faults.append(f"{kind} is event {self._count}")
        self._count += 1
        stem, _, change = kind.rpartition(".")
        if kind in ("response.created", "response.in_progress"):
            self._begin(event["response"], kind)
        elif kind in _LAST:
            self._end(event["response"])
        elif kind == "response.output_item.added":
            self._start(event)
        elif kind == "response.output_item.done":
            self._stop(event)
        elif stem in _TEXTS or stem == "response.content_part":
            self._say(event, stem, change)
        else:
            self.faults.append(f"type is {kind!r}")

    def answer(self) -> dict[str, Any]:
        """What `response_outline` makes of the equal batch answer."""
        if not self._ended:
            self.faults.append("never ended")
        return response_outline(self._ended | {"output": self._items})

    def _begin(self, response: dict[str, Any], kind: str) -> None:
        ended = any(response.get(key) is not None for key in ("usage", "incomplete_details", "error"))
        if response["status"] != "in_progress" or response["output"] != [] or ended:
            self.faults.append(f"{kind} has output or is over")
        if self._begun:
            self._changed(self._begun, response)
        self._begun = response

    def _changed(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.faults += [f"{key} changed" for key in _differing(before, after, _ENDING)]

    def _start(self, event: dict[str, Any]) -> None:
        if self._open is not None or event["output_index"] != len(self._items):
            self.faults.append(f"item {event['output_index']} added behind {len(self._items)}")
        self._open, self._said, self._logprobs, self._parts = event["item"], [], [], []

    def _say(self, event: dict[str, Any], stem: str, change: str) -> None:
        opened = self._open or {}
        if event["item_id"] != opened.get("id") or event["output_index"] != len(self._items):
            self.faults.append(f"{stem}.{change} of no open item")
        if event.get("name", opened.get("name")) != opened.get("name"):
            self.faults.append(f"{stem}.{change} names another call")
        if change == "delta":
            self._said.append(event["delta"])
            self._logprobs += event.get("logprobs") or []
        elif change == "done":
            whole = event[_TEXTS[stem]] if stem in _TEXTS else event["part"]["text"]
            if whole != "".join(self._said):
                self.faults.append(f"{stem}.done repeats another text")
        if stem == "response.content_part" and change == "added":
            self._part = event["part"]
        elif stem == "response.content_part":
            self._parts.append(event["part"])
            if _differing(self._part, event["part"], {"text", "logprobs"}):
                self.faults.append("a part is done that is not the one added")
            if _without_bytes(event["part"].get("logprobs") or []) != _without_bytes(self._logprobs):
                self.faults.append("the deltas have other logprobs than their part")

    def _stop(self, event: dict[str, Any]) -> None:
        item, opened = event["item"], self._open or {}
        changed = _differing(opened, item, _GROWING)
        if self._open is None or changed or event["output_index"] != len(self._items):
            self.faults.append(f"item {event['output_index']} done")
        if (item.get("content") or []) != self._parts:
            self.faults.append(f"item {event['output_index']} has other parts than were done")
        self._items.append(item)
        self._open = None

    def _end(self, response: dict[str, Any]) -> None:
        self._ended = response
        if self._open is not None:
            self.faults.append("the response ended in an item")
        if response["output"] != self._items:
            self.faults.append("the last event has other items than those before")
        self._changed(self._begun, response)


def response_outline(batch: dict[str, Any]) -> dict[str, Any]:
    """Of a batch answer, what a stream can say too: all but when."""
    return {key: value for key, value in batch.items() if key not in ("id", "created_at", "model")}


def _differing(before: dict[str, Any], after: dict[str, Any], growing: set[str]) -> list[str]:
    """The keys whose values are not the same, but for those that a value gets only in the end.

    The later one is right: it is what is compared with the recorded one.
    """
    left, right = ({key: one[key] for key in one if key not in growing} for one in (before, after))
    return list(dict.fromkeys(str(one.path[0]) for one in differences(right, left, _SAME)))


_SAME = Rules({}, absent_is_null=True)


def _without_bytes(logprobs: list[Any]) -> list[Any]:
    """Log probabilities as deltas have them."""
    return [
        {key: value for key, value in one.items() if key not in ("bytes", "top_logprobs")}
        | {"top_logprobs": _without_bytes(one.get("top_logprobs") or [])}
        for one in logprobs
    ]
