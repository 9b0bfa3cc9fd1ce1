"""What an API of the gateway is to the server: a body in, an answer or an event stream out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from renderd.wire.errors import ApiError

T = TypeVar("T")

RawHeaders = Mapping[bytes, bytes]

Aside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Does long work in a thread and returns its result. Raises ApiError 503 when it waited for one too long."""


class Exchange(Protocol):
    """One request, checked and rendered. `streams`: whether its answer is an event stream."""

    @property
    def streams(self) -> bool: ...

    async def whole(self, aside: Aside) -> bytes:
        """The body of the answer. Raises ApiError."""

    def events(self) -> AsyncIterator[bytes]:
        """The text of the event stream, piece by piece. An async generator: `aclose` ends the request.

        Raises ApiError before the first piece, which comes when the engine has said something; behind it
        errors are events.
        """


class Face(Protocol):
    """An API. Its methods are called from several threads."""

    def open(self, body: bytes, headers: RawHeaders) -> Exchange:
        """Read and render a request. Under `hurried` it stops where it takes long. Raises ApiError."""

    def failure(self, error: ApiError) -> bytes:
        """The body that says an error."""
