"""What the APIs of the gateway share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from renderd import telemetry
from renderd.derender.batch import BatchDerenderer
from renderd.derender.live import Live
from renderd.derender.setup import Setup
from renderd.derender.stream import StreamDerenderer
from renderd.gateway.prepared import Prepared
from renderd.render.chat import Server
from renderd.wire.errors import ApiError

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Desk:
    """One model. `system_fingerprint`: what answers say of the configuration that made them."""

    server: Server
    setup: Setup
    streams: StreamDerenderer
    batch: BatchDerenderer
    system_fingerprint: str | None = None

    @property
    def counts_reasoning(self) -> bool:
        """Whether usage says how many tokens are reasoning."""
        return self.setup.family is not None and self.setup.family.has_reasoning

    def live(self, prepared: Prepared, at: int = 0) -> Live:
        """The answer to one of the prompts, before its first event."""
        return Live(
            self.setup,
            self.streams,
            prepared.request_id,
            prepared.context,
            prepared.prompts[at].tail,
            prepared.choices,
            prepared.verdict,
        )


def error_event(error: ApiError) -> bytes:
    """An error as an event of OpenAI's APIs, and the end of the stream."""
    return b"data: %b\n\n%b" % (error.body(), DONE)


def encoded(answer: msgspec.Struct) -> bytes:
    """As JSON."""
    return _ENCODER.encode(answer)


def answer_json(answer: msgspec.Struct) -> bytes:
    """A whole answer as JSON; what that takes is a stage of its request."""
    began = telemetry.clock()
    body = encoded(answer)
    telemetry.spent("encode", began)
    return body


_ENCODER = msgspec.json.Encoder()


def named_tokens(setup: Setup, logprobs: Sequence[Any] | None) -> list[Any] | None:
    """Log probabilities of a prompt, with the texts of tokens that an engine without a tokenizer left out."""
    if logprobs is None:
        return None
    decode = setup.model.tokenizer.decode
    for entry in logprobs:
        for token_id, candidate in (entry or {}).items():
            if candidate.get("decoded_token") is None:
                candidate["decoded_token"] = decode([int(token_id)])
    return list(logprobs)
