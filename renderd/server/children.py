"""Processes forked from this one. Each has a channel to it, and ends when the other end is gone."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

logger = logging.getLogger("renderd.server")

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
"""Signals that mean something to the supervisor, and nothing that its children inherit."""

Work = Callable[[socket.socket], None]
"""What a child does, given its end of the channel."""


class Child:
    """A process that runs. `channel`: commands to it, and what it says; `silent`: it says nothing more."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.born = time.monotonic()
        self.silent = False

    def tell(self, command: bytes) -> None:
        """Send a command. It is lost on a child that has ended."""
        with suppress(OSError):
            self.channel.send(command)

    def kill(self) -> None:
        """End it at once. It still has to be reaped."""
        os.kill(self.pid, signal.SIGKILL)


class Children:
    """All children of this process. Nothing else may fork here, nor may other threads run meanwhile."""

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}

    def fork(self, work: Work) -> Child:
        """Do `work` in a new process, which ends with it."""
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal that comes before the child has handlers of its own would run its parent's.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            pid = os.fork()
            if not pid:
                ours.close()
                self._be_child(work, theirs)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        theirs.close()
        ours.setblocking(False)
        child = self._running[pid] = Child(pid, ours)
        return child

    def _be_child(self, work: Work, channel: socket.socket) -> None:
        status = 1
        try:
            for child in self._running.values():
                child.channel.close()  # else it would outlive this process's parent
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            work(channel)
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
                child.channel.close()
                yield child, os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        """End all, at once."""
        for pid, child in self._running.items():
            child.kill()
            os.waitpid(pid, 0)
            child.channel.close()
        self._running.clear()
