"""Errors as the client sees them (contract A.2): one exception, one envelope."""

from __future__ import annotations

import re

import msgspec


class ErrorInfo(msgspec.Struct):
    """Body of `error`; every key is always written."""

    message: str
    type: str
    param: str | None
    code: int


class ErrorResponse(msgspec.Struct):
    """vLLM's ErrorResponse."""

    error: ErrorInfo


class ApiError(Exception):
    """An answer other than 200. `status` is the HTTP status and `error.code`.

    `retry_after`: seconds after which the client may ask again, for the header Retry-After (RFC 9110,
    10.2.3).
    """

    def __init__(
        self, status: int, type: str, message: str, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
        self.type = type
        self.message = message
        self.param = param

    @property
    def text(self) -> str:
        """The message as clients see it, scrubbed of addresses and paths."""
        return scrub(self.message).strip()

    def body(self) -> bytes:
        """The JSON envelope."""
        info = ErrorInfo(self.text, self.type, self.param and scrub(self.param), self.status)
        return msgspec.json.encode(ErrorResponse(info))


def bad_request(message: str, param: str | None = None) -> ApiError:
    """400 for a request that binds to the schema but breaks a rule of the handler."""
    return ApiError(400, "BadRequestError", message, param)


def schema_error(message: str, param: str | None = None) -> ApiError:
    """400 for a body that does not bind to the schema; vLLM spells its type with a blank."""
    return ApiError(400, "Bad Request", message, param)


def internal_error() -> ApiError:
    """500 of a defect. The log has the reason; the client gets no detail."""
    return ApiError(500, "InternalServerError", "Internal server error")


RETRY_AFTER = 1
"""Seconds after which a client that was refused may come again: a queue is seldom longer."""


def overloaded(message: str) -> ApiError:
    """503 for a request that is one too many."""
    return ApiError(
        503, "ServiceUnavailableError", f"The server is overloaded. {message}", retry_after=RETRY_AFTER
    )


def unknown_model(name: str, served: list[str]) -> ApiError:
    """404 for a model name that this server does not serve."""
    aliases = ", ".join(served)
    return ApiError(
        404, "NotFoundError", f"The model `{name}` does not exist. Valid aliases: {aliases}.", "model"
    )


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")
_FRAME = re.compile(r'File "[^"]*", line \d+(?:, in \S+)?')
_SYSTEM_PATH = re.compile(r"(?<![\w/])/(?:home|usr|opt|var|tmp|root|lib|mnt|srv)/[^\s'\",:;)]*+")
_PATH = re.compile(r"(?<![\w/])(?:/[\w.-]++){2,}+")
_TO_EXTENSION = re.compile(r"(.*[^/])\.\w+", re.DOTALL)


def scrub(message: str) -> str:
    """Take object addresses, traceback frames and file paths out of a message (contract A.2).

    Lone surrogates, which JSON may escape and UTF-8 cannot say, become their escapes.
    """
    message = message.encode(errors="backslashreplace").decode()
    message = _ADDRESS.sub(">", message)
    message = _FRAME.sub("<path>", message)
    return _PATH.sub(_scrubbed, _SYSTEM_PATH.sub("<path>", message))


def _scrubbed(match: re.Match[str]) -> str:
    """Outside a system's directories only what has an extension is a path. A pattern that looked for it too
    would take time that grows with the square of the message, which may be all that a client sent."""
    run = match[0]
    found = _TO_EXTENSION.match(run, run.index("/", 1) + 1)
    return run if found is None else "<path>" + run[found.end() :]
