"""Client of a tokens-only engine (contract G): generate, stream, abort. Bodies go through as bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

import httpx2
import msgspec

from renderd.wire.errors import ErrorResponse

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"
_JSON = {"Content-Type": "application/json"}


class EngineError(Exception):
    """The engine refused or broke off. `status` is the HTTP status, None once a stream had begun."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineClient:
    """One engine, by its base URL. `connect_timeout` is in seconds; an answer may take any time."""

    def __init__(self, url: str, connect_timeout: float = 5.0) -> None:
        timeout = httpx2.Timeout(None, connect=connect_timeout)
        # An engine is a neighbour: a proxy that the environment names is for the world outside.
        self._http = httpx2.AsyncClient(base_url=url, timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def generate(self, body: bytes) -> bytes:
        """The GenerateResponse to a GenerateRequest that does not stream.

        Raises EngineError when the engine refuses, httpx2.TransportError when it cannot be reached.
        """
        response = await self._http.post(GENERATE, content=body, headers=_JSON)
        if response.status_code != 200:
            raise EngineError(response.status_code, _message(response.content))
        return response.content

    async def stream(self, body: bytes) -> AsyncIterator[bytes]:
        """The events of a GenerateRequest that streams, without the closing [DONE].

        Raises as `generate` does, and EngineError on an error event or when the stream ends without [DONE].
        """
        async with self._http.stream("POST", GENERATE, content=body, headers=_JSON) as response:
            if response.status_code != 200:
                raise EngineError(response.status_code, _message(await response.aread()))
            async for event in httpx2.EventSource(response):
                if event.data == "[DONE]":
                    return
                data = event.data.encode()
                if data.startswith(b'{"error"'):
                    raise EngineError(None, _message(data))
                yield data
        raise EngineError(None, "the engine's stream ended without [DONE]")

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End requests by the ids that the answers carry; unknown ones are ignored. Raises as `generate`."""
        response = await self._http.post(ABORT, json={"request_ids": list(request_ids)})
        if response.status_code != 200:
            raise EngineError(response.status_code, _message(response.content))


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=ErrorResponse).error.message
    except msgspec.DecodeError:
        return body.decode(errors="replace")
