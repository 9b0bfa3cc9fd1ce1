"""Accepts connections from a socket that several processes listen on, so that each gets its share.

The kernel wakes all of them, and the first takes what is there: with connections that stay open, one process
would have them all. So whoever has more connections than another lets that one go first, for a moment.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("renderd.server")

_COURTESY_SECONDS = 0.002
"""What a process gets to take the next connection for each that it has less; it may be busy with work."""
_MOST_COURTESY_SECONDS = 0.02
_EXHAUSTED_SECONDS = 0.5
"""How long nothing is accepted after the system refused another open file."""


class Acceptor:
    """What `loop.create_server` returns, as far as uvicorn looks at it.

    `lead`: how many more connections this process has than another, when it takes so many more.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        lead: Callable[[int], int],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._protocol = protocol
        self._tls = tls
        self._lead = lead
        self._beginning: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening, self._on_connection)

    def close(self) -> None:
        """Accept no more."""
        if self._listening.fileno() < 0:  # `close_listening` was here
            return
        self._loop.remove_reader(self._listening)
        if self._timer is not None:
            self._timer.cancel()

    def close_listening(self) -> None:
        """Accept what waits, and refuse what comes then: the socket is closed."""
        while self._accept():
            pass
        self.close()
        self._listening.close()

    async def wait_closed(self) -> None:
        """Connections have their own end."""

    def _on_connection(self) -> None:
        lead = self._lead(len(self._beginning))
        if lead > 0:
            self._pause(min(lead * _COURTESY_SECONDS, _MOST_COURTESY_SECONDS))
        else:
            self._accept()

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listening)
        self._timer = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._loop.add_reader(self._listening, self._on_connection)
        self._accept()

    def _accept(self) -> bool:
        """Take the next connection, if one waits. Returns whether there may be more."""
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process was first, or the client has gone
        except OSError as error:
            logger.error("cannot accept connections: %s", error)
            self._pause(_EXHAUSTED_SECONDS)
            return False
        connection.setblocking(False)
        task = self._loop.create_task(self._begin(connection))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)
        return True

    async def _begin(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection, ssl=self._tls)
        except OSError:  # a client that speaks no TLS, or went away
            connection.close()
