"""docs/operating.md names every flag of renderd's own, every metric with its labels, every field of a log
line and every kind of anomaly, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from parsers.events import Anomaly
from renderd.engine.client import Timeouts
from renderd.gateway.engines import Engines
from renderd.server.engine_metrics import EngineMetrics
from renderd.server.flags import _parser
from renderd.server.logs import Line
from renderd.server.metrics import Metrics
from renderd.telemetry import STAGES, Record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
MIGRATING = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of all rows of tables under a heading, without those of the heads."""
    section = re.split(r"\n## ", page.split(f"\n## {title}\n", 1)[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def words(cell: str) -> list[str]:
    return re.findall(r"`([\w.-]+)", cell)


def test_flags() -> None:
    listed = {words(row[0])[0] for row in rows(PAGE, "Flags of renderd's own")}
    own = [words(row[0]) for row in rows(MIGRATING, "Flags") if row[1].startswith("renderd's own")]
    assert listed == {flag for flags in own for flag in flags}


def test_defaults_are_those_of_the_help() -> None:
    helped = {
        action.option_strings[0]: action.help or "" for action in _parser()._actions if action.option_strings
    }
    for flag, default, _ in rows(PAGE, "Flags of renderd's own"):
        if default != "none":
            assert re.search(rf"\({default}\)", helped[words(flag)[0]].replace("65536", "64K")), flag


def test_metrics() -> None:
    metrics = Metrics()
    engines = EngineMetrics(metrics.registry)
    engines.on_end("a", "answered")
    engines.on_stage("a", "prefill", 1.0)
    engines.on_kv("handed_over")
    engines.follow(Engines(["http://a"], Timeouts()))
    record = Record()
    record.anomalies["p", "k"] = [1, 1]
    metrics.on_response("/a", "POST", 200, 1, 1, 1.0, record)
    exposition = bytes(metrics.exposition().body).decode()  # type: ignore[union-attr]
    shown = {
        family.name: {label for sample in family.samples for label in sample.labels} - {"le"}
        for family in text_string_to_metric_families(exposition)
        if not family.name.endswith("_created")
    }
    table = {
        name.removesuffix("_total"): set(words(row[1]))
        for row in rows(PAGE, "Metrics")
        if len(row) == 3
        for name in words(row[0])
    }
    assert table.keys() == shown.keys()
    of_python = {name for name in table if name.startswith("python_")}  # labelled as by any program in Python
    assert {name: table[name] for name in table if name not in of_python} == {
        name: shown[name] for name in shown if name not in of_python
    }


def test_stages() -> None:
    row = next(row for row in rows(PAGE, "Metrics") if row[0] == "`renderd_stage_seconds`")
    assert re.findall(r"`(\w+)`:", row[2]) == list(STAGES)


def test_kinds_of_anomalies() -> None:
    listed = {words(row[0])[0] for row in rows(PAGE, "Metrics") if len(row) == 2}
    assert listed == set(re.findall(r"`(\w+)` \(", Anomaly.__doc__ or ""))


def test_fields_of_log_lines() -> None:
    listed = [name for row in rows(PAGE, "Logs") for name in words(row[0])]
    assert sorted(listed) == sorted(field.name for field in msgspec.structs.fields(Line))
