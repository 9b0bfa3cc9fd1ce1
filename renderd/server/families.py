"""Counters, gauges, summaries and histograms that are right over all processes of a server.

A family is declared before the processes are forked. `family.labels("a", "b")` is one series of it, kept by
who counts often. What is shown is the sum over processes; the numbers are in `Cells`.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from threading import Lock

import msgspec
from prometheus_client import Metric
from prometheus_client.utils import floatToGoString

from renderd.server.cells import Cells


class Series:
    """One series. Its numbers in memory, from `at`: when it began, then those that its kind needs.

    May be used from any thread.
    """

    def __init__(self, family: Family, labels: Sequence[str]) -> None:
        self._family = family
        self.bounds = family.bounds
        self._key = msgspec.json.encode([family.name, *labels])
        self._lock = family.registry.lock
        self._values = family.registry.cells.values
        self.bind()

    def bind(self) -> None:
        """Find the numbers in the region of this process."""
        self.at = self._family.registry.cells.place(self._key, self._family.size)
        if not self._values[self.at]:
            self._values[self.at] = time.time()

    def inc(self, amount: float = 1.0) -> None:
        """Add to a counter or a gauge."""
        with self._lock:
            self._values[self.at + 1] += amount

    def set(self, value: float) -> None:
        """What this process has of a gauge; a counter that something else counts."""
        self._values[self.at + 1] = value

    def get(self) -> float:
        """What this process has of a counter or a gauge."""
        return float(self._values[self.at + 1])

    def observe(self, value: float) -> None:
        """One event of this size, for a summary or a histogram."""
        self._family.registry.observe([(self, value)])


class Family:
    """Series of one name, by labels. `bounds`: upper bounds of a histogram's buckets, without infinity."""

    def __init__(
        self,
        registry: Registry,
        kind: str,
        name: str,
        text: str,
        label_names: Sequence[str],
        bounds: Sequence[float] = (),
    ) -> None:
        self.registry = registry
        self.kind = kind
        self.name = name
        self.bounds = tuple(bounds)
        self.size = 3 + len(bounds) if kind in ("summary", "histogram") else 2
        self._text = text
        self._label_names = tuple(label_names)
        self._series: dict[tuple[str, ...], Series] = {}
        if not label_names:
            self.labels()

    def labels(self, *values: str) -> Series:
        """The series with these values of the labels, in their order."""
        series = self._series.get(values)
        if series is None:
            if len(values) != len(self._label_names):
                raise ValueError(f"{self.name} has the labels {self._label_names}, not {values}")
            with self.registry.making:
                series = self._series.get(values) or Series(self, values)
                self._series[values] = series
        return series

    def bind(self) -> None:
        """Find the numbers of all series in the region of this process."""
        for series in self._series.values():
            series.bind()

    def metric(self, sums: dict[tuple[str, ...], list[float]]) -> Metric:
        """What Prometheus is told, given the numbers of all processes by values of the labels."""
        metric = Metric(self.name, self._text, self.kind)
        for values, (created, *numbers) in sums.items():
            labels = dict(zip(self._label_names, values, strict=True))
            if self.kind == "gauge":
                metric.add_sample(self.name, labels, numbers[0])
                continue
            if self.kind == "counter":
                metric.add_sample(f"{self.name}_total", labels, numbers[0])
            else:
                self._add_distribution(metric, labels, *numbers)
            metric.add_sample(f"{self.name}_created", labels, created)
        return metric

    def _add_distribution(self, metric: Metric, labels: dict[str, str], total: float, *counts: float) -> None:
        if self.kind == "histogram":
            bounds = [*map(floatToGoString, self.bounds), "+Inf"]
            for bound, count in zip(bounds, accumulate(counts), strict=True):
                metric.add_sample(f"{self.name}_bucket", labels | {"le": bound}, count)
        metric.add_sample(f"{self.name}_count", labels, sum(counts))
        metric.add_sample(f"{self.name}_sum", labels, total)


class Registry:
    """The families of a server, and where this process writes.

    `lock`: held while numbers of this process change. `making`: while a series is made.
    """

    def __init__(self, regions: int) -> None:
        self.cells = Cells(regions)
        self.lock = Lock()
        self.making = Lock()
        self._families: dict[str, Family] = {}
        self._followed: list[_Followed] = []

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Family:
        """A number that only grows; shown as `name` with _total behind it."""
        return self._add("counter", name.removesuffix("_total"), text, labels)

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Family:
        """A number that goes up and down. A process that ends takes its part with it."""
        return self._add("gauge", name, text, labels)

    def summary(self, name: str, text: str, labels: Sequence[str] = ()) -> Family:
        """How many events, and the sum of their sizes."""
        return self._add("summary", name, text, labels)

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, bounds: Sequence[float]
    ) -> Family:
        """The same, and how many were no larger than each of `bounds`."""
        return self._add("histogram", name, text, labels, bounds)

    def _add(
        self, kind: str, name: str, text: str, labels: Sequence[str], bounds: Sequence[float] = ()
    ) -> Family:
        family = self._families[name] = Family(self, kind, name, text, labels, bounds)
        return family

    def observe(self, events: Iterable[tuple[Series, float]]) -> None:
        """Events of so many sizes, for summaries and histograms."""
        values = self.cells.values
        with self.lock:
            for series, size in events:
                at = series.at
                values[at + 1] += size
                values[at + 2 + bisect_left(series.bounds, size)] += 1.0

    def follow(self, series: Series, read: Callable[[], float], *, grows: bool) -> None:
        """Let a series show what `read` gives in each process, now and at every `refresh`.

        `grows`: for a counter; what an earlier process of the same region counted stays in it.
        """
        self._followed.append(_Followed(series, read, grows))

    def refresh(self) -> None:
        """Read what is followed. Each process does so before it shows numbers, and twice a second."""
        for followed in self._followed:
            followed.refresh()

    def enter(self, region: int, follows: bool = True) -> None:
        """From here on this process writes this region: right after the fork. `follows`: whether what is
        followed happens in this process too."""
        self.cells.enter(region)
        if not follows:
            self._followed.clear()
        for family in self._families.values():
            family.bind()
        for followed in self._followed:
            followed.begin()

    def leave(self, region: int) -> None:
        """The process of this region has ended: its gauges are 0."""
        for key, at, _ in self.cells.entries(region):
            family = self._families.get(msgspec.json.decode(key)[0])
            if family is not None and family.kind == "gauge":
                self.cells.values[at + 1] = 0.0

    def collect(self) -> Iterator[Metric]:
        """All families, summed over all processes."""
        sums: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in self._families}
        for region in range(self.cells.regions):
            for key, at, count in self.cells.entries(region):
                name, *values = msgspec.json.decode(key)
                numbers = [float(number) for number in self.cells.values[at : at + count]]
                self._add_up(sums[name], tuple(values), numbers)
        for name, family in self._families.items():
            yield family.metric(sums[name])

    @staticmethod
    def _add_up(
        sums: dict[tuple[str, ...], list[float]], values: tuple[str, ...], numbers: list[float]
    ) -> None:
        known = sums.setdefault(values, numbers)
        if known is not numbers:
            created = min(known[0] or numbers[0], numbers[0] or known[0])
            sums[values] = [created, *(a + b for a, b in zip(known[1:], numbers[1:], strict=True))]


class _Followed:
    """A series and what it shows."""

    def __init__(self, series: Series, read: Callable[[], float], grows: bool) -> None:
        self._series = series
        self._read = read
        self._grows = grows
        self.begin()

    def begin(self) -> None:
        self._base = self._series.get() - self._read() if self._grows else 0.0

    def refresh(self) -> None:
        self._series.set(self._base + self._read())
