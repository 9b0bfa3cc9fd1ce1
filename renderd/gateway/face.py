"""What an API is to the gateway: requests in, answers or event streams out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from renderd.gateway.prepared import Prepared
from renderd.wire.errors import ApiError
from renderd.wire.generate import GenerateChunk, GenerateResponse


class Writer(Protocol):
    """Makes an API's event stream of an engine's events."""

    @property
    def cut(self) -> bool:
        """Whether the answer is over though the engine goes on."""

    def begin(self) -> bytes:
        """What comes first, once the engine has said something."""

    def read(self, event: GenerateChunk) -> bytes:
        """What an event says; empty for nothing."""

    def end(self) -> bytes:
        """What comes behind the last event."""

    def failure(self, error: ApiError) -> bytes:
        """What comes instead when the answer cannot go on."""


class Face(Protocol):
    """An API. `prepare` and `finish` may be called in any process; under `hurried` they stop where they take
    long."""

    def prepare(self, body: bytes, request_id: str | None) -> Prepared:
        """Read and render a request. `request_id`: the header X-Request-Id. Raises ApiError."""

    def finish(self, prepared: Prepared, responses: Sequence[GenerateResponse]) -> bytes:
        """The body of the answer. `responses`: of the engines, one a prompt. Raises ApiError."""

    def writer(self, prepared: Prepared) -> Writer:
        """What writes the answer as an event stream."""

    def failure(self, error: ApiError) -> bytes:
        """The body that says an error."""
