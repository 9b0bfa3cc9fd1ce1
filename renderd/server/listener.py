"""The socket and the HTTP server on it: address, TLS, keep-alive, what happens at start and at signals."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from renderd.server.config import ServerConfig, StartupError, environment_int

logger = logging.getLogger("renderd.server")

_REFRESH_SECONDS = 2.0
_SHUTDOWN_SECONDS = 30
"""What requests under way get to finish: a client that never sends the rest of its body must not keep the
process."""


def bind(config: ServerConfig) -> socket.socket:
    """Take the address, before the model is loaded: a taken port is known at once. Raises StartupError."""
    if config.uds is not None:
        listening = socket.socket(socket.AF_UNIX)
        where: tuple[str, int] | str = config.uds
        Path(config.uds).unlink(missing_ok=True)
    else:
        host = config.host or ""
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        where = (host, config.port)
    try:
        listening.bind(where)
    except OSError as error:
        listening.close()
        shown = where if isinstance(where, str) else f"{where[0] or '0.0.0.0'}:{where[1]}"
        raise StartupError(f"cannot listen on {shown}: {error.strerror or error}") from error
    return listening


class Server(uvicorn.Server):
    """uvicorn on a bound socket. Signals let requests that are under way finish."""

    def __init__(self, config: ServerConfig, app: ASGIApp, listening: socket.socket) -> None:
        """Raises StartupError for TLS files or a keep-alive time that cannot be used."""
        self._listening = listening
        self._flags = config
        settings = uvicorn.Config(
            app,
            log_config=None,
            log_level=config.uvicorn_log_level,
            access_log=not config.disable_uvicorn_access_log,
            timeout_keep_alive=environment_int("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", 5),
            lifespan="off",
            ws="none",
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
        super().__init__(settings)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._flags.enable_ssl_refresh and self.config.ssl is not None:
            self._refreshing = asyncio.create_task(_refresh(self.config.ssl, self._flags))
        logger.info("ready on %s", self._address())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(_SHUTDOWN_SECONDS, self._cut)
        await super().shutdown(sockets)

    def _cut(self) -> None:
        """Close what is still open: to a request, its client is gone then."""
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.close()

    def _address(self) -> str:
        if self._listening.family == socket.AF_UNIX:
            return f"unix:{self._listening.getsockname()}"
        host, port = self._listening.getsockname()[:2]
        scheme = "https" if self.config.is_ssl else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def _refresh(tls: ssl.SSLContext, config: ServerConfig) -> None:
    """Load the TLS files again when they change. Open connections keep what they began with."""
    files = [Path(f) for f in (config.ssl_certfile, config.ssl_keyfile, config.ssl_ca_certs) if f is not None]
    seen = _stamps(files)
    while True:
        await asyncio.sleep(_REFRESH_SECONDS)
        stamps = _stamps(files)
        if stamps == seen:
            continue
        seen = stamps
        try:
            if config.ssl_certfile:
                tls.load_cert_chain(config.ssl_certfile, config.ssl_keyfile)
            if config.ssl_ca_certs:
                tls.load_verify_locations(config.ssl_ca_certs)
            logger.info("loaded the TLS files again")
        except OSError as error:
            logger.error("the TLS files changed and cannot be used, the old ones stay: %s", error)


def _stamps(files: list[Path]) -> list[int]:
    return [file.stat().st_mtime_ns if file.exists() else 0 for file in files]
