"""What goes wrong between the server and an engine, as the client is told it."""

from __future__ import annotations

from http import HTTPStatus

import aiohttp
import msgspec

from renderd.wire.errors import ApiError, ErrorResponse

_SHOWN_CHARACTERS = 1000
_OF_THE_DEPLOYMENT = (401, 403, 404, 405)
"""What no request of a client brings about: a wrong key, another path, another model."""


class EngineFailure(ApiError):
    """An engine refused or was lost. `status`, `type`, `message`, `param` and `retry_after` are what the
    client is to be told; a refusal of the engine (4xx) is passed on as the engine said it.

    `begun`: whether an event of the answer had come, so that the client has part of an answer.
    """

    def __init__(
        self,
        status: int,
        type: str,
        message: str,
        param: str | None = None,
        retry_after: int | None = None,
        *,
        begun: bool = False,
    ) -> None:
        super().__init__(status, type, message, param, retry_after)
        self.begun = begun


def lost(error: Exception, begun: bool = False) -> EngineFailure:
    """What an error of a connection, or an answer that is none, means to the client."""
    cause = cause_of(error)
    if isinstance(error, EngineFailure):
        return error
    if isinstance(error, aiohttp.ServerTimeoutError):
        return too_late("The engine took too long to accept a connection.")
    if isinstance(error, aiohttp.ClientConnectorError):
        text = "The engine cannot be reached."
        failure = EngineFailure(503, "ServiceUnavailableError", text, retry_after=1)
    else:
        failure = EngineFailure(502, "BadGatewayError", "The engine broke off its answer.", begun=begun)
    failure.add_note(cause)
    return failure


def cause_of(error: Exception) -> str:
    """What an error says, for the log."""
    return str(error).strip() or type(error).__name__


def too_late(message: str, begun: bool = False) -> EngineFailure:
    """An engine took too long."""
    return EngineFailure(504, "GatewayTimeoutError", message, begun=begun)


def said(body: bytes, status: int, retry_after: int | None = None, begun: bool = False) -> EngineFailure:
    """What an engine says in an answer other than 200, or in an event. `status`: of the answer."""
    try:
        error = msgspec.json.decode(body, type=ErrorResponse).error
        kind, message, param = error.type, error.message, error.param
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body[:_SHOWN_CHARACTERS].decode(errors="replace").strip()
        message = f"The engine answered {status}: {text}" if text else f"The engine answered {status}."
        kind, param = _kind(status), None
    if status in _OF_THE_DEPLOYMENT or not 400 <= status < 600:
        failure = EngineFailure(
            502, "BadGatewayError", "The engine is not set up for this server.", begun=begun
        )
        failure.add_note(f"It answered {status}: {message}")
        return failure
    return EngineFailure(status, kind, message, param, retry_after, begun=begun)


def _kind(status: int) -> str:
    """The type of an error that names none."""
    try:
        phrase = HTTPStatus(status).phrase.replace(" ", "")
    except ValueError:
        return "BadGatewayError"
    return phrase if phrase.endswith("Error") else phrase + "Error"
