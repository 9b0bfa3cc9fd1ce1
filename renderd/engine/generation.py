"""One request while it runs: every choice emits the tokens of its script, one a step, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import chain, repeat
from typing import Literal

from renderd.engine.request import SamplingParams

FinishReason = Literal["stop", "length", "abort"]

FILLER = 0
"""Stands for a stop token that comes before `min_tokens`, as on a real engine whose tokens are forced."""


class Choice:
    """What one choice has emitted, and why it ended. `end_token` follows a script that is used up."""

    def __init__(
        self,
        index: int,
        script: list[int],
        end_token: int,
        stop_tokens: frozenset[int],
        limit: int,
        minimum: int,
    ) -> None:
        self.index = index
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.stop_reason: int | None = None
        self._script = chain(script, repeat(end_token))
        self._stop_tokens = stop_tokens
        self._limit = limit
        self._minimum = minimum

    def step(self) -> None:
        """Emit a token. A stop token is emitted too; it wins over the limit (contract G.2)."""
        token = next(self._script)
        stops = token in self._stop_tokens
        if stops and len(self.token_ids) < self._minimum:
            token, stops = FILLER, False
        self.token_ids.append(token)
        if stops:
            self.finish_reason, self.stop_reason = "stop", token
        elif len(self.token_ids) >= self._limit:
            self.finish_reason = "length"


class Generation:
    """The choices of one request. `limit` bounds the tokens of each; `delay` (seconds) precedes each step."""

    def __init__(
        self,
        request_id: str,
        params: SamplingParams,
        scripts: list[list[int]],
        end_token: int,
        eos_tokens: frozenset[int],
        limit: int,
        delay: float,
    ) -> None:
        self.request_id = request_id
        stop_tokens = frozenset(params.stop_token_ids or ()) | (
            frozenset() if params.ignore_eos else eos_tokens
        )
        self.choices = [
            Choice(index, scripts[index % len(scripts)], end_token, stop_tokens, limit, params.min_tokens)
            for index in range(params.n)
        ]
        self._delay = delay
        self.is_aborted = False

    def abort(self) -> None:
        """End every choice that still runs."""
        self.is_aborted = True
        for choice in self.choices:
            choice.finish_reason = choice.finish_reason or "abort"

    async def run(self, interval: int = 1) -> AsyncIterator[tuple[Choice, list[int]]]:
        """Choices with their new tokens: after the first, then after every `interval`, and when one ends."""
        sent = [0] * len(self.choices)
        running = list(self.choices)
        while running:
            await asyncio.sleep(self._delay)
            for choice in tuple(running):
                if choice.finish_reason is None:
                    choice.step()
                if choice.finish_reason is not None:
                    running.remove(choice)
                start, count = sent[choice.index], len(choice.token_ids)
                if choice.finish_reason is not None or start == 0 or count - start >= interval:
                    sent[choice.index] = count
                    yield choice, choice.token_ids[start:]
