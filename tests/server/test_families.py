"""Numbers that several processes add up: what stays when one ends, what goes, and what does not fit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from renderd.server.cells import Cells
from renderd.server.children import Child
from renderd.server.families import Registry
from renderd.server.supervisor import Role


def in_another_process(work: Callable[[], None]) -> None:
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def shown(registry: Registry) -> list[str]:
    collectors = CollectorRegistry()
    collectors.register(registry)
    lines = generate_latest(collectors).decode().splitlines()
    return [line for line in lines if not line.startswith("#") and "_created" not in line]


def test_processes_add_up_and_their_places_are_taken_over() -> None:
    registry = Registry(3)
    counted = registry.counter("counted_total", "c", ["kind"])
    sizes = registry.histogram("sizes", "s", bounds=(1.0, 2.0)).labels()
    now = registry.gauge("now", "n").labels()
    counted.labels("a").inc()

    def work(region: int) -> None:
        registry.enter(region)
        counted.labels("a").inc(2)
        counted.labels("b").inc()
        sizes.observe(1.0)
        sizes.observe(5.0)
        now.inc(3)

    for region in (1, 2, 1):
        in_another_process(partial(work, region))
        registry.leave(1)
    assert shown(registry) == [
        'counted_total{kind="a"} 7.0',
        'counted_total{kind="b"} 3.0',
        'sizes_bucket{le="1.0"} 3.0',
        'sizes_bucket{le="2.0"} 3.0',
        'sizes_bucket{le="+Inf"} 6.0',
        "sizes_count 6.0",
        "sizes_sum 18.0",
        "now 3.0",
    ]


def test_what_is_followed_goes_on_from_what_was_there() -> None:
    registry = Registry(2)
    total, level = registry.counter("total", "t").labels(), registry.gauge("level", "l").labels()
    known = [10.0]
    registry.follow(total, lambda: known[0], grows=True)
    registry.follow(level, lambda: known[0], grows=False)

    def work() -> None:
        registry.enter(1)
        known[0] += 5
        registry.refresh()

    in_another_process(work)
    in_another_process(work)
    assert shown(registry) == ["total_total 10.0", "level 15.0"]


def test_labels_are_those_that_were_declared() -> None:
    with pytest.raises(ValueError, match="labels"):
        Registry(1).counter("a", "a", ["b"]).labels()


def test_a_full_region_counts_no_further_series(caplog: pytest.LogCaptureFixture) -> None:
    cells = Cells(1)
    places = {cells.place(b"%d" % number * 1000, 4) for number in range(1000)}
    assert len(places) < 600 and "is not counted" in caplog.text
    assert len(list(cells.entries(0))) == len(places) - 1


def test_a_process_that_ends_again_and_again_is_replaced_later_and_later() -> None:
    role = Role("worker", 1, lambda pipes: None)
    waits = [role.ended(Child(1, 0, 0)) for _ in range(10)]
    assert waits[:4] == [0.0, 0.1, 0.2, 0.4] and waits[-1] == 5.0
    steady = Child(1, 0, 0)
    steady.born = time.monotonic() - 60
    assert role.ended(steady) == 0.0
