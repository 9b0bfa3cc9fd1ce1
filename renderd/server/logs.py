"""Logs of the server: renderd and uvicorn in one format on standard error, a line a request on standard
output.

Every line of a request bears its id. What a request says or is answered is in no line unless
`--enable-log-requests` asks for it; so tracebacks are without the messages of their exceptions, which quote
what they could not use.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import TracebackType
from typing import Any

import msgspec
from starlette.types import Scope
from uvicorn.logging import DefaultFormatter

from renderd import telemetry
from renderd.server.config import ServerConfig
from renderd.server.sink import Sink, SinkHandler

_LONGEST = 1000
"""Characters of a path or request id in a line: workers' lines of less than 4096 bytes do not mix."""
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Line(msgspec.Struct, omit_defaults=True):
    """A line in JSON. `timestamp`: UTC; `duration_ms`: until the answer was sent; `bytes`: of its body."""

    timestamp: str
    level: str
    logger: str
    message: str
    request_id: str = ""
    client: str = ""
    method: str = ""
    path: str = ""
    status: int | None = None
    duration_ms: float | None = None
    bytes: int | None = None
    exception: str = ""


class Clock:
    """Writes times, and the part of them that seldom changes seldom."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def text(self, now: float) -> str:
        """Unix time as RFC 3339 has it, with milliseconds."""
        second = int(now)
        if second != self._second:
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = second
        return f"{self._text}.{int((now - second) * 1000):03d}Z"


class AccessLog:
    """Writes a line a request. Formatted here and written at once: the logging module takes longer than a
    derender chunk may."""

    def __init__(self, config: ServerConfig, write: Callable[[bytes], object] | None = None) -> None:
        """`write`: takes a line; None is standard output."""
        self._wanted = not config.disable_uvicorn_access_log and config.uvicorn_log_level in (
            "info",
            "debug",
            "trace",
        )
        self._quiet = frozenset(config.disable_access_log_for_endpoints)
        self._json = config.log_format == "json"
        self._write = write or Sink(1).write
        self._clock = Clock()

    def write(self, scope: Scope, status: int, seconds: float, request_id: str, size: int) -> None:
        """A request was answered: in so many seconds, with a body of `size` bytes."""
        if not self._wanted or scope["path"] in self._quiet:
            return
        peer = scope.get("client")
        client = f"{peer[0]}:{peer[1]}" if peer else ""
        path = _path(scope.get("raw_path", b"")) or _shown(scope["path"])
        name = _shown(request_id)
        if self._json:
            method = scope["method"]
            line = Line(
                self._clock.text(time.time()),
                "INFO",
                "renderd.access",
                f"{method} {path} {status}",
                name,
                client,
                method,
                path,
                status,
                round(seconds * 1000, 3),
                size,
            )
            self._write(_ENCODER.encode(line) + b"\n")
            return
        if query := scope.get("query_string"):
            path = _shown(f"{path}?{query.decode('latin-1')}")
        self._write(
            f'INFO:     {client} - "{scope["method"]} {path} HTTP/{scope["http_version"]}" {status} '
            f"{seconds * 1000:.1f}ms {size}B [{name}]\n".encode()
        )


_ENCODER = msgspec.json.Encoder()


@lru_cache(100)
def _path(raw: bytes) -> str:
    return _shown(raw.decode("latin-1"))


def _shown(text: str) -> str:
    """Text from outside as it may stand in a line."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "..."
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]


class _Private(logging.Formatter):
    """A formatter that knows the request, and leaves out what exceptions quote of it."""

    private = True

    def formatException(self, ei: _ExceptionInfo) -> str:
        if not self.private or telemetry.current() is None or ei[1] is None:
            return super().formatException(ei)
        return "\n".join(_frames(ei[1]))


class HumanFormatter(_Private, DefaultFormatter):
    """uvicorn's lines, with the id of the request."""

    def __init__(self, private: bool) -> None:
        super().__init__("%(levelprefix)s %(message)s")
        self.private = private

    def formatMessage(self, record: logging.LogRecord) -> str:
        request = telemetry.current()
        if request is None:
            return super().formatMessage(record)
        record.message = record.message.translate(_CONTROL)
        return f"{super().formatMessage(record)} [{_shown(request.request_id)}]"


class JsonFormatter(_Private):
    """A JSON object a line."""

    def __init__(self, private: bool) -> None:
        super().__init__()
        self.private = private

    def format(self, record: logging.LogRecord) -> str:
        request = telemetry.current()
        line = Line(
            Clock().text(record.created),
            record.levelname,
            record.name,
            _writable(record.getMessage()),
            _shown(request.request_id) if request else "",
            exception=_writable(self.formatException(record.exc_info)) if record.exc_info else "",
        )
        return _ENCODER.encode(line).decode()


def _writable(text: str) -> str:
    """Text without the lone surrogates that UTF-8 cannot say."""
    return text.encode("utf-8", "backslashreplace").decode()


def _frames(error: BaseException) -> Iterator[str]:
    """Where an exception, and those behind it, came from."""
    for _ in range(10):
        yield "Traceback (most recent call last):"
        yield "".join(traceback.format_tb(error.__traceback__)) + type(error).__qualname__
        behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if behind is None:
            return
        yield "which came of:"
        error = behind


def log_config(config: ServerConfig) -> dict[str, Any]:
    """Argument of `logging.config.dictConfig`."""
    formatter = JsonFormatter if config.log_format == "json" else HumanFormatter
    logger = {"handlers": ["all"], "level": "INFO", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter, "private": not config.enable_log_requests}},
        "handlers": {"all": {"()": SinkHandler, "formatter": "lines"}},
        "loggers": {"renderd": logger, "uvicorn": logger},
        "root": {"handlers": ["all"], "level": "WARNING"},
    }


class RequestLog:
    """Writes what requests say and are answered, for `--enable-log-requests`."""

    def __init__(self, max_length: int | None) -> None:
        """`max_length`: characters of a text that are written, None for all."""
        self._max_length = max_length
        self._logger = logging.getLogger("renderd.requests")

    def received(self, body: bytes) -> None:
        """A request has this body."""
        self._logger.info("received %s", self._text(body))

    def answered(self, body: bytes) -> None:
        """A request is answered with this body."""
        self._logger.info("answered %s", self._text(body))

    def _text(self, body: bytes) -> str:
        # A character takes at most four bytes.
        cut = body if self._max_length is None else body[: 4 * self._max_length]
        return cut.decode("utf-8", "backslashreplace")[: self._max_length]
