"""What the routes call: render and derender of one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from renderd.wire.api import ServedModel

if TYPE_CHECKING:
    from renderd.gateway.gateway import Gateway


class RenderApi(Protocol):
    """Bodies in, bodies out; raises ApiError. Called from several threads."""

    def chat(self, body: bytes, request_id: str | None) -> bytes: ...
    def completion(self, body: bytes, request_id: str | None) -> bytes: ...
    def messages(self, body: bytes, request_id: str | None) -> bytes: ...
    def responses(self, body: bytes, request_id: str | None) -> bytes: ...
    def tokenize(self, body: bytes) -> bytes: ...
    def detokenize(self, body: bytes) -> bytes: ...
    def tokenizer_info(self) -> dict[str, Any]: ...


class DerenderApi(Protocol):
    """Bodies in, bodies out; raises ApiError. Called from several threads."""

    def chat(self, body: bytes) -> bytes: ...
    def completion(self, body: bytes) -> bytes: ...
    def messages(self, body: bytes) -> bytes: ...
    def responses(self, body: bytes) -> bytes: ...


@dataclass(frozen=True)
class Services:
    """One model, rendered and derendered, the names of its parsers, what writes its prompts, and the
    fingerprint of it all (see Fingerprint)."""

    model: ServedModel
    renderer: RenderApi
    derenderer: DerenderApi
    reasoning_parser: str | None = None
    tool_parser: str | None = None
    writer: str = "none"
    fingerprint: str = ""
    fingerprint_parts: Mapping[str, str] = field(default_factory=dict)
    not_ready: Callable[[], str | None] = lambda: None
    """Why no more requests should be sent here; None when they may be."""
    gateway: Gateway | None = None
    """The whole route; None on a server without engines."""
