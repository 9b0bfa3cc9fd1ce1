"""Processes forked from this one. Pipes lead to each and from it; it ends when the other ends are gone."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

logger = logging.getLogger("renderd.server")

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
"""Signals that mean something to the supervisor, and nothing that its children inherit."""


class Pipes(NamedTuple):
    """A child's ends: what it is told, and where it says something.

    Not a pair of sockets: what nobody read makes the end of one an error, which event loops may swallow."""

    told: int
    says: int


Work = Callable[[Pipes], None]
"""What a child does."""


class Child:
    """A process that runs. `says`: the pipe from it; `silent`: nothing more comes."""

    def __init__(self, pid: int, told: int, says: int) -> None:
        self.pid = pid
        self.says = says
        self._told = told
        self.born = time.monotonic()
        self.silent = False

    def tell(self, command: bytes) -> None:
        """Send a command. It is lost on a child that has ended."""
        with suppress(OSError):
            os.write(self._told, command)

    def listen(self) -> bytes:
        """What it says; nothing when it has ended."""
        return os.read(self.says, 64)

    def close(self) -> None:
        """Close the pipes."""
        os.close(self._told)
        os.close(self.says)

    def kill(self) -> None:
        """End it at once. It still has to be reaped."""
        os.kill(self.pid, signal.SIGKILL)


class Children:
    """All children of this process. Nothing else may fork here, nor may other threads run meanwhile."""

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}

    def fork(self, work: Work) -> Child:
        """Do `work` in a new process, which ends with it."""
        told, tell = os.pipe()
        listen, says = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal that comes before the child has handlers of its own would run its parent's.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            try:
                pid = os.fork()
            except OSError:
                for file in (told, tell, listen, says):
                    os.close(file)
                raise
            if not pid:
                os.close(tell)
                os.close(listen)
                self._be_child(work, Pipes(told, says))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.close(told)
        os.close(says)
        child = self._running[pid] = Child(pid, tell, listen)
        return child

    def _be_child(self, work: Work, pipes: Pipes) -> None:
        status = 1
        try:
            for child in self._running.values():
                child.close()  # else it would outlive this process's parent
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            work(pipes)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            logger.exception("process %d failed", os.getpid())
        finally:
            # Threads that still work, and what the parent registered for its own end, are not waited for.
            os._exit(status)

    def reap(self) -> Iterator[tuple[Child, int]]:
        """Children that have ended, and their exit statuses; minus its number for a signal.

        As process 1 of a container this one inherits orphans: they are reaped too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            child = self._running.pop(pid, None)
            if child is not None:
                child.close()
                yield child, os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        """End all, at once."""
        for pid, child in self._running.items():
            child.kill()
            os.waitpid(pid, 0)
            child.close()
        self._running.clear()
