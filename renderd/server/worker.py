"""The HTTP server of one process on a socket that it inherited: commands, drain, TLS files."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from renderd.server.acceptor import Acceptor
from renderd.server.admission import Admission
from renderd.server.children import Pipes
from renderd.server.config import ServerConfig
from renderd.server.connection import Connections
from renderd.server.direct import short_way
from renderd.server.long_work import LongWork
from renderd.server.metrics import Metrics
from renderd.server.probes import State
from renderd.server.traces import Traces

if TYPE_CHECKING:
    from renderd.gateway.route import EngineRoute

logger = logging.getLogger("renderd.server")

SERVES = b"s"
"""Says a process that has begun to accept connections."""
END, DRAIN, FASTER = b"e", b"d", b"f"
"""Commands: accept no more connections, finish what was asked, end; serve until nobody asks any more, then
END; the faster encoder is exact, take it."""

QUIET_SECONDS = 1.0
"""How long nobody asks before a draining worker ends: load balancers learn late that it does."""
_LAST_SECONDS, _LAST_QUIET_SECONDS = 1.0, 0.2
"""When no more connections are accepted: what those that were get to end, and how long nobody asks meanwhile
before the process ends all the same."""
_TELL_SECONDS = 0.3
"""What it may take to tell clients that their requests were cut."""
_REFRESH_SECONDS = 2.0
_CLIENT_SECONDS = 60.0
"""--max-client-seconds, for servers of no API."""


class Server(uvicorn.Server):
    """uvicorn on a listening socket. It obeys the supervisor, and ends when there is none any more."""

    def __init__(self, settings: uvicorn.Config, listening: socket.socket, state: State) -> None:
        super().__init__(settings)
        self._listening = listening
        self._state = state
        self._client_seconds = _CLIENT_SECONDS
        self._place = 0
        self._pipes: Pipes | None = None
        self._acceptor: Acceptor | None = None
        self._ends_at: float | None = None
        self.clients = Connections(
            lambda count: state.set_connections(self._place, count), short_way(settings)
        )

    def work(self, pipes: Pipes, place: int) -> None:
        """Serve until END. `place`: the process's own in `State`."""
        self._pipes, self._place = pipes, place
        self.server_state.connections = self.clients
        self.run([self._listening])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the supervisor's business."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state={}, _loop=loop
            )
            return made

        lead = partial(self._state.lead, self._place)
        self._acceptor = acceptor = Acceptor(self._listening, protocol, self.config.ssl, lead)
        self.servers = [acceptor]  # type: ignore[list-item]
        self.started = True
        if self._pipes is not None:
            loop.add_reader(self._pipes.told, self._listen, self._pipes.told)
            os.write(self._pipes.says, SERVES)

    def _listen(self, told: int) -> None:
        said = os.read(told, 64)
        if not said:
            os._exit(1)  # the supervisor has died
        for command in said:
            self.obey(bytes([command]))

    def obey(self, command: bytes) -> None:
        """Do what the supervisor says."""
        if command == END and self._acceptor is not None:
            self._acceptor.close()
            self._ends_at = asyncio.get_running_loop().time() + _LAST_SECONDS

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self.clients.hurry(self._client_seconds)
        if self._ends_at is not None:
            left = self._ends_at - asyncio.get_running_loop().time()
            # What was accepted last has not said yet what it wants.
            if left < 0 or (not self.clients and left < _LAST_SECONDS - _LAST_QUIET_SECONDS):
                self.should_exit = True
        return await super().on_tick(counter)


class Worker(Server):
    """A process that answers requests.

    `rehearse`: called before it serves. `take_faster`: what FASTER makes it do. `traces`: None where nobody
    wants any. `route`: to the engines of a gateway.
    """

    def __init__(
        self,
        settings: uvicorn.Config,
        listening: socket.socket,
        state: State,
        config: ServerConfig,
        admission: Admission,
        long_work: LongWork,
        metrics: Metrics,
        rehearse: Callable[[], None],
        take_faster: Callable[[], None],
        traces: Traces | None = None,
        route: EngineRoute | None = None,
    ) -> None:
        super().__init__(settings, listening, state)
        self._route = route
        self._flags = config
        self._client_seconds = config.max_client_seconds
        self._admission = admission
        admission.unread_bytes = self.clients.unread_bytes
        self._metrics = metrics
        self._long_work = long_work
        self._rehearse = rehearse
        self._take_faster = take_faster
        self._traces = traces
        self._asked = (0, 0.0)
        self._quiet_seconds = QUIET_SECONDS

    def work(self, pipes: Pipes, place: int) -> None:
        count = self._flags.renderer_num_workers
        places = helper_places(self._flags, place)
        registry = self._metrics.registry

        def enter(number: int) -> None:
            self._listening.close()
            registry.enter(places[number])

        pids = self._long_work.start(count, enter, registry.refresh, self._take_faster)
        for helper, pid in zip(places, pids, strict=True):
            self._state.set_process(helper, pid)
        super().work(pipes, place)
        if self._traces is not None:
            self._traces.stop()
        if self._long_work.broken:
            raise SystemExit(1)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._rehearse()
        await super().startup(sockets)
        if self._route is not None:
            self._route.start()
        # Not SIGINT, which a terminal sends to every process: the supervisor says what it means.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.drain)
        if self._flags.enable_ssl_refresh and self.config.ssl is not None:
            self._refreshing = asyncio.create_task(_refresh(self.config.ssl, self._flags))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self._route is not None:
            await self._route.close()

    def obey(self, command: bytes) -> None:
        if command == DRAIN:
            self.drain()
        elif command == FASTER:
            self._take_faster()
            self._long_work.take_faster()
        else:
            super().obey(command)

    def drain(self) -> None:
        """Serve on, until nobody asks any more or --drain-seconds are over."""
        if not self._admission.draining:
            self._admission.draining = True
            loop = asyncio.get_running_loop()
            self._asked = self._metrics.answered, loop.time()
            loop.call_later(self._flags.drain_seconds, self._refuse)

    async def on_tick(self, counter: int) -> bool:
        if counter % 5 == 0:
            self._metrics.registry.refresh()
        idle = not self._admission.in_flight
        if (self._long_work.broken and idle) or (self._admission.draining and self._is_quiet()):
            self.should_exit = True
        return await super().on_tick(counter)

    def _is_quiet(self) -> bool:
        """Whether nobody asked for long enough. Probes and metrics do not count."""
        answered, now = self._metrics.answered, asyncio.get_running_loop().time()
        if self._admission.in_flight or answered != self._asked[0]:
            self._asked = answered, now
        return now - self._asked[1] > self._quiet_seconds

    def _refuse(self) -> None:
        """Accept no more: what is accepted has a moment to end."""
        if self._acceptor is not None:
            self._acceptor.close_listening()
        self._quiet_seconds = _LAST_QUIET_SECONDS
        asyncio.get_running_loop().call_later(_LAST_SECONDS, self._cut)

    def _cut(self) -> None:
        """End the requests that are still not answered. Their clients are told, where they listen."""
        count = self._admission.cut()
        if count:
            logger.warning("requests that --drain-seconds cut: %d", count)
        asyncio.get_running_loop().call_later(_TELL_SECONDS if count else 0.0, self._close)

    def _close(self) -> None:
        """Close what is still open: to a request, its client is gone then."""
        self.should_exit = self.force_exit = True
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()


def places(config: ServerConfig) -> int:
    """How many processes a server may have at a time: the supervisor, the workers, the one for probes, and
    those of the workers for work that takes long, in this order."""
    return 2 + config.workers * (1 + config.renderer_num_workers)


def helper_places(config: ServerConfig, place: int) -> range:
    """The places of the processes of the worker at `place`, for work that takes long."""
    first = 2 + config.workers + (place - 1) * config.renderer_num_workers
    return range(first, first + config.renderer_num_workers)


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
