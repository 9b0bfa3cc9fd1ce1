"""A stream put together again: the batch answer that its chunks amount to, and faults of their order.

Takes chunks of a derender server (every key written) and of a coupled server (unset keys left out) alike.
"""

from __future__ import annotations

from typing import Any


class Assembly:
    """One answer from its chunks, those of all choices in the order in which they came.

    Attributes:
        faults: what no client should see, in the order found: "choice 0: role came again", ...
        created: the `created` values seen, in order, repetitions left out.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.created: list[Any] = []
        self._ids: list[Any] = []
        self._choices: dict[int, _Choice] = {}
        self._usage: dict[str, Any] | None = None
        self._prompt_token_ids: list[int] | None = None

    def add(self, chunk: dict[str, Any]) -> None:
        """Take the next chunk, of `chat.completion.chunk` or `text_completion` shape."""
        kind = chunk.get("object")
        if kind not in ("chat.completion.chunk", "text_completion"):
            self.faults.append(f"object is {kind!r}")
        for key, seen in (("id", self._ids), ("created", self.created)):
            if chunk.get(key) not in seen:
                seen.append(chunk.get(key))
        if len(self._ids) == 2:
            self.faults.append(f"id changed from {self._ids[0]!r} to {self._ids[1]!r}")
            self._ids.pop()
        if chunk.get("prompt_token_ids") is not None:
            self._prompt_token_ids = chunk["prompt_token_ids"]
        for choice in chunk["choices"]:
            known = self._choices.setdefault(choice["index"], _Choice(choice["index"], self.faults))
            known.add(choice)
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]

    def answer(self) -> dict[str, Any]:
        """What `outline` makes of the equal batch answer."""
        for choice in self._choices.values():
            choice.end()
        return {
            "prompt_token_ids": self._prompt_token_ids,
            "choices": [self._choices[index].answer() for index in sorted(self._choices)],
            "usage": self._usage,
        }


def outline(batch: dict[str, Any]) -> dict[str, Any]:
    """Of a batch answer, what a stream can say too."""
    choices = []
    for choice in batch["choices"]:
        kept = {
            key: choice.get(key)
            for key in ("index", "logprobs", "finish_reason", "stop_reason", "token_ids", "text")
            if key in choice or key != "text"
        }
        if "message" in choice:
            message = choice["message"]
            kept["message"] = {
                "role": message.get("role"),
                "content": message.get("content") or None,
                "reasoning": message.get("reasoning") or None,
                "tool_calls": message.get("tool_calls") or [],
            }
        elif choice.get("prompt_token_ids") is not None:
            kept["prompt_token_ids"] = choice["prompt_token_ids"]
        choices.append(kept)
    return {
        "prompt_token_ids": batch.get("prompt_token_ids"),
        "choices": sorted(choices, key=lambda choice: int(choice["index"])),
        "usage": batch.get("usage"),
    }


class _Choice:
    """One choice of a stream, chat or completion."""

    def __init__(self, index: int, faults: list[str]) -> None:
        self._index = index
        self._faults = faults
        self._chat = False
        self._role: str | None = None
        self._parts: dict[str, list[str]] = {"content": [], "reasoning": [], "text": []}
        self._calls: list[dict[str, Any]] = []
        self._logprobs: dict[str, Any] | None = None
        self._token_ids: list[int] | None = None
        self._prompt_token_ids: list[int] | None = None
        self._finish: str | None = None
        self._stop: int | str | None = None

    def _fault(self, what: str) -> None:
        self._faults.append(f"choice {self._index}: {what}")

    def add(self, choice: dict[str, Any]) -> None:
        if self._finish is not None:
            self._fault("news after the finish")
        if "delta" in choice:
            self._add_delta(choice["delta"])
        elif isinstance(choice.get("text"), str):
            self._parts["text"].append(choice["text"])
        if choice.get("logprobs") is not None:
            self._add_logprobs(choice["logprobs"])
        if choice.get("token_ids") is not None:
            self._token_ids = [*(self._token_ids or []), *choice["token_ids"]]
        if choice.get("prompt_token_ids") is not None:
            self._prompt_token_ids = choice["prompt_token_ids"]
        if choice.get("finish_reason") is not None:
            self._finish = choice["finish_reason"]
            self._stop = choice.get("stop_reason")

    def _add_delta(self, delta: dict[str, Any]) -> None:
        if not self._chat and delta.get("role") is None:
            self._fault("no role on the first chunk")
        elif self._chat and delta.get("role") is not None:
            self._fault("role came again")
        self._chat = True
        self._role = self._role or delta.get("role")
        for key in ("content", "reasoning"):
            if delta.get(key) is not None:
                self._parts[key].append(delta[key])
        for call in delta.get("tool_calls") or []:
            self._add_call(call)

    def _add_call(self, call: dict[str, Any]) -> None:
        index, function = call["index"], call.get("function") or {}
        if index == len(self._calls):
            if not call.get("id") or function.get("name") is None or call.get("type") != "function":
                self._fault(f"call {index} starts without id, type or name")
            self._calls.append(
                {
                    "id": call.get("id"),
                    "type": call.get("type"),
                    "function": {"name": function.get("name"), "arguments": ""},
                }
            )
        elif index != len(self._calls) - 1:
            self._fault(f"call {index} spoken of when {len(self._calls)} calls had started")
            if index > len(self._calls):
                return
        elif call.get("id") is not None or function.get("name") is not None:
            self._fault(f"call {index} started twice")
        elif call.get("type") not in (None, "function"):
            self._fault(f"call {index} is of type {call['type']!r}")
        self._calls[index]["function"]["arguments"] += function.get("arguments") or ""

    def _add_logprobs(self, logprobs: dict[str, Any]) -> None:
        if self._logprobs is None:
            self._logprobs = {}
        for key, value in logprobs.items():
            if isinstance(value, list):
                self._logprobs[key] = [*(self._logprobs.get(key) or []), *value]
            else:
                self._logprobs.setdefault(key, value)

    def end(self) -> None:
        if self._finish is None:
            self._fault("never finished")

    def answer(self) -> dict[str, Any]:
        kept: dict[str, Any] = {
            "index": self._index,
            "logprobs": self._logprobs,
            "finish_reason": self._finish,
            "stop_reason": self._stop,
            "token_ids": self._token_ids,
        }
        if self._chat:
            kept["message"] = {
                "role": self._role,
                "content": "".join(self._parts["content"]) or None,
                "reasoning": "".join(self._parts["reasoning"]) or None,
                "tool_calls": self._calls,
            }
            return kept
        kept["text"] = "".join(self._parts["text"])
        if self._prompt_token_ids is not None:
            kept["prompt_token_ids"] = self._prompt_token_ids
        return kept
