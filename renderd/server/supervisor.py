"""The parent of all processes of a server: it loads the model once, forks those that work, replaces those
that end unasked, and ends them all when it is told to.

It has one thread, so that it may fork at any time, and works on no request.
"""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from renderd.server.children import HANDLED, Child, Children, Pipes, Work
from renderd.server.metrics import Metrics
from renderd.server.probes import DRAINING, LOADING, SERVING, State
from renderd.server.worker import DRAIN, END, FASTER, SERVES

logger = logging.getLogger("renderd.server")

_STEADY_SECONDS = 10.0
"""A process that lived as long is replaced at once; one that did not, the later the more often."""
_SLOWEST_SECONDS = 5.0
_HANDOVER_SECONDS = 2.0
"""What the process that answers while the model is loaded gets to finish."""
_NO_FORK_SECONDS = 1.0
"""Until a process is tried again that the system did not let begin."""
_CUT_SECONDS = 3.0
"""What workers get to refuse and close connections after --drain-seconds."""


PlacedWork = Callable[[Pipes, int], None]
"""What a process at a place does."""


class Role:
    """A process that is there as long as the server is. `place`: its number in metrics and State."""

    def __init__(self, name: str, place: int, work: Work) -> None:
        self.name = name
        self.place = place
        self.work = work
        self.child: Child | None = None
        self.due = 0.0
        self._failures = 0

    def ended(self, child: Child) -> float:
        """Its process has ended. Returns in how many seconds it is to be replaced."""
        now = time.monotonic()
        self._failures = 0 if now - child.born > _STEADY_SECONDS else self._failures + 1
        wait = 0.0 if self._failures < 2 else min(0.1 * 2.0 ** (self._failures - 2), _SLOWEST_SECONDS)
        self.child, self.due = None, now + wait
        return wait


class Supervisor:
    """Places: 0 is itself, 1 to `workers` are workers, the one behind them answers probes."""

    def __init__(self, state: State, metrics: Metrics, workers: int, drain_seconds: float) -> None:
        self._state = state
        self._metrics = metrics
        self._workers = workers
        self._drain_seconds = drain_seconds
        self._children = Children()
        self._roles: list[Role] = []
        self._early: Child | None = None
        self._prover: Child | None = None
        self._take_faster: Callable[[], None] = lambda: None
        self._signals: list[int] = []
        self._deadline: float | None = None
        self._ended_at_once = False

    def start_probes(self, work: PlacedWork) -> None:
        """Fork the process that answers probes on their own port, before the model is loaded."""
        self._start(self._role("the probe process", 1 + self._workers, work))

    def start_early(self, work: PlacedWork) -> None:
        """Fork the process that answers on the server's port while the model is loaded."""
        self._early = self._children.fork(lambda pipes: work(pipes, 0))

    def run(
        self,
        work: PlacedWork,
        prove: Callable[[], bool] | None,
        take_faster: Callable[[], None],
        address: str,
        stop_listening: Callable[[], None],
    ) -> None:
        """Fork the workers, which do `work`, and keep them until a signal says that it is enough.

        `prove`: done in a process of its own once the workers serve; when it says True, every worker is told
        to `take_faster`. `address`: for the log. `stop_listening`: closes this process's end of the socket
        that the workers serve.
        """
        self._prove, self._take_faster, self._address = prove, take_faster, address
        self._stop_listening = stop_listening
        self._listen_to_signals()
        for place in range(1, 1 + self._workers):
            self._start(self._role("worker", place, work))
        while not self._is_over():
            self._wait()
            for number in self._signals:
                self._on_signal(number)
            self._signals.clear()
            for child, status in self._children.reap():
                self._on_end(child, status)
            self._on_time()
        logger.info("ended")

    def close(self) -> None:
        """End whatever still runs."""
        self._children.end()

    def _role(self, name: str, place: int, work: PlacedWork) -> Role:
        def enter(pipes: Pipes) -> None:
            self._metrics.registry.enter(place, follows=place <= self._workers)
            work(pipes, place)

        role = Role(name, place, enter)
        self._roles.append(role)
        return role

    def _start(self, role: Role) -> None:
        try:
            role.child = self._children.fork(role.work)
        except OSError as error:  # too many processes, or too little memory: not for ever
            role.due = time.monotonic() + _NO_FORK_SECONDS
            logger.error("%s cannot be started: %s", role.name, error)
            return
        self._state.set_process(role.place, role.child.pid)

    def _listen_to_signals(self) -> None:
        self._wake, wakeup = socket.socketpair()
        self._wake.setblocking(False)
        wakeup.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        self._wakeup = wakeup
        for number in HANDLED:
            signal.signal(number, lambda number, frame: self._signals.append(number))

    def _wait(self) -> None:
        """Return when something happened, or is due."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            for role in self._roles:
                if role.child is not None and not role.child.silent:
                    selector.register(role.child.says, selectors.EVENT_READ, role)
            for key, _ in selector.select(self._seconds_until_due()):
                if key.data is None:
                    with suppress(BlockingIOError):
                        self._wake.recv(4096)
                else:
                    self._on_word(key.data)

    def _seconds_until_due(self) -> float | None:
        due = [role.due for role in self._roles if role.child is None]
        if self._deadline is not None:
            due.append(self._deadline)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _on_word(self, role: Role) -> None:
        """A process says something, or its end of the channel is closed."""
        child = role.child
        assert child is not None
        said = child.listen()
        if not said:
            child.silent = True
        elif SERVES in said and role.place <= self._workers:
            self._state.set_serving(role.place)
            if self._early is not None and self._deadline is None:
                self._early.tell(END)
                self._deadline = time.monotonic() + _HANDOVER_SECONDS

    def _on_end(self, child: Child, status: int) -> None:
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        if child is self._early:
            self._early = None
        elif child is self._prover:
            self._prover = None
            if status == 0:
                self._on_proof()
            elif status < 0:
                logger.error("encoding with tokenizers: the proof for fastokens ended %s", how)
        elif role := next((role for role in self._roles if role.child is child), None):
            self._on_role_end(role, child, how)

    def _on_ready(self) -> None:
        """A worker serves, and nobody answers in its place any more."""
        self._deadline = None
        self._state.phase = SERVING
        logger.info("ready on %s", self._address)
        if (prove := self._prove) is not None:

            def work(pipes: Pipes) -> None:
                raise SystemExit(0 if prove() else 1)

            try:
                self._prover = self._children.fork(work)
            except OSError as error:
                logger.error("the faster encoder is not tried: %s", error)

    def _on_proof(self) -> None:
        self._take_faster()
        for role in self._roles:
            if role.place <= self._workers and role.child is not None:
                role.child.tell(FASTER)

    def _on_role_end(self, role: Role, child: Child, how: str) -> None:
        self._state.set_process(role.place, 0)
        self._metrics.registry.leave(role.place)
        wait = role.ended(child)
        if self._state.phase == DRAINING:
            return
        self._metrics.on_restart()
        logger.error("%s %d ended %s: replaced in %g seconds", role.name, child.pid, how, wait)

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if self._state.phase == DRAINING:
            self._ended_at_once = True
            return
        logger.info("%s: draining, for at most %g seconds", signal.Signals(number).name, self._drain_seconds)
        self._state.phase = DRAINING
        self._stop_listening()  # nobody is forked any more, and the workers' own ends decide
        self._deadline = time.monotonic() + self._drain_seconds + _CUT_SECONDS
        for role in self._roles:
            if role.place <= self._workers and role.child is not None:
                role.child.tell(DRAIN)

    def _on_time(self) -> None:
        now = time.monotonic()
        if self._state.phase == DRAINING:
            self._ended_at_once |= self._deadline is not None and now >= self._deadline
            return
        if self._deadline is not None and now >= self._deadline and self._early is not None:
            self._early.kill()
            self._deadline = None
        if self._state.phase == LOADING and self._early is None and self._state.has_worker:
            self._on_ready()
        for role in self._roles:
            if role.child is None and now >= role.due:
                self._start(role)

    def _is_over(self) -> bool:
        if self._state.phase != DRAINING:
            return False
        workers = [role for role in self._roles if role.place <= self._workers and role.child is not None]
        return self._ended_at_once or not workers
