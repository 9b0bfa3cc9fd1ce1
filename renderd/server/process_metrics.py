"""The process_* metrics of Prometheus, over all processes of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from os import sysconf
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.registry import Collector

_EARLIEST = ("process_start_time_seconds", "process_max_fds")
"""These are not summed."""


class ProcessesCollector(Collector):
    """Sums over the processes that `pids` gives at the time, the supervisor first.

    CPU seconds include what ended children of these processes used: a worker that is replaced takes nothing
    away. Memory that processes share is counted in each.
    """

    def __init__(self, pids: Callable[[], list[int]], registry: CollectorRegistry) -> None:
        self._pids = pids
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        found: dict[str, list[Metric]] = {}
        children = 0.0
        for pid in self._pids():
            children += _ended_children(pid)
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                found.setdefault(metric.name, []).append(metric)
        for name, metrics in found.items():
            values = [metric.samples[0].value for metric in metrics]
            total = min(values) if name in _EARLIEST else sum(values)
            if name == "process_cpu_seconds":
                total += children
            metrics[0].samples = [metrics[0].samples[0]._replace(value=total)]
            yield metrics[0]


def _ended_children(pid: int) -> float:
    """CPU seconds of the children of a process that have ended."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / float(sysconf("SC_CLK_TCK"))
    return 0.0
