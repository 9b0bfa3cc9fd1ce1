"""Logging of the server: renderd and uvicorn in one format, access lines on standard output."""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import Any

from uvicorn.config import LOGGING_CONFIG

from renderd.server.config import ServerConfig


class QuietPaths(logging.Filter):
    """Drops access lines of requests to these paths; a query does not make another path."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__()
        self._paths = frozenset(paths)

    def filter(self, record: logging.LogRecord) -> bool:
        # uvicorn's access records carry client, method, path with query, HTTP version and status.
        if not isinstance(record.args, tuple) or len(record.args) < 3:
            return True
        return str(record.args[2]).partition("?")[0] not in self._paths


def log_config(config: ServerConfig) -> dict[str, Any]:
    """Argument of `logging.config.dictConfig`."""
    result = deepcopy(LOGGING_CONFIG)
    # uvicorn's own formatter copies every record, for colors and the words of a status.
    result["formatters"]["access"] = {"format": "%(levelname)s:     %(message)s"}
    result["loggers"]["renderd"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    if config.disable_access_log_for_endpoints:
        quiet = {"()": QuietPaths, "paths": config.disable_access_log_for_endpoints}
        result["filters"] = {"quiet": quiet}
        result["handlers"]["access"]["filters"] = ["quiet"]
    return result
