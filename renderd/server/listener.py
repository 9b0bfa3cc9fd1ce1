"""The sockets to listen on, and the settings of the HTTP server on them: TLS, keep-alive."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from renderd.server.config import ServerConfig, StartupError, environment_int
from renderd.server.connection import Connection

_BACKLOG = 2048
"""Connections that wait to be accepted. The kernel has its own limit."""


def bind(config: ServerConfig) -> socket.socket:
    """Listen, before the model is loaded: a taken port is known at once. Raises StartupError."""
    if config.uds is None:
        return _bind_tcp(config.host, config.port)
    Path(config.uds).unlink(missing_ok=True)
    return _listen(socket.socket(socket.AF_UNIX), config.uds, config.uds)


def bind_probes(config: ServerConfig) -> socket.socket | None:
    """Listen for probes, where they have a port of their own. Raises StartupError."""
    return None if config.probe_port is None else _bind_tcp(config.host, config.probe_port)


def _bind_tcp(given: str | None, port: int) -> socket.socket:
    host = given or ""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return _listen(listening, (host, port), f"{host or '0.0.0.0'}:{port}")


def _listen(listening: socket.socket, where: tuple[str, int] | str, shown: str) -> socket.socket:
    try:
        listening.bind(where)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise StartupError(f"cannot listen on {shown}: {error.strerror or error}") from error
    return listening


def address(listening: socket.socket, is_tls: bool = False) -> str:
    """The URL of what listens."""
    if listening.family == socket.AF_UNIX:
        return f"unix:{listening.getsockname()}"
    host, port = listening.getsockname()[:2]
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def api_settings(
    config: ServerConfig, app: ASGIApp, headers: list[tuple[str, str]] | None = None
) -> uvicorn.Config:
    """Of the HTTP server that clients see. Raises StartupError for TLS files or a keep-alive time that cannot
    be used."""
    settings = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        log_level=config.uvicorn_log_level,
        access_log=False,  # the entrance writes them
        timeout_keep_alive=environment_int("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", 5),
        backlog=_BACKLOG,
        lifespan="off",
        ws="none",
        headers=headers,
        ssl_keyfile=config.ssl_keyfile,
        ssl_certfile=config.ssl_certfile,
        ssl_ca_certs=config.ssl_ca_certs,
        ssl_cert_reqs=config.ssl_cert_reqs,
        ssl_ciphers=config.ssl_ciphers or "TLSv1",
    )
    try:
        settings.load()
    except OSError as error:
        raise StartupError(f"the TLS files cannot be used: {error}") from error
    return settings


def probe_settings(app: ASGIApp) -> uvicorn.Config:
    """Of the HTTP server of probes: without TLS and access lines."""
    settings = uvicorn.Config(
        app, http=Connection, log_config=None, access_log=False, lifespan="off", ws="none"
    )
    settings.load()
    return settings
