"""What came of asking servers the golden cases, as it is kept between asking and writing about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from golden.cases import load_servers
from golden.processes import REPOSITORY
from renderd.conformance import kinds
from renderd.conformance.cases import Recording
from renderd.conformance.checks import Finding
from renderd.conformance.reading import MORE
from renderd.conformance.runner import OUTCOMES, Result

KEPT = REPOSITORY / ".cache" / "results"
"""The folder, with a file NAME/CONFIGURATION.json each."""


class Kind(msgspec.Struct):
    """One kind of difference. `cases`: family by id; `values`: of the first few, what was wanted and came."""

    api: str
    route: str
    place: str
    cases: dict[str, str] = {}
    values: list[str] = []


class Asked(msgspec.Struct):
    """What came of one configuration.

    Attributes:
        at: when, ISO 8601; version: of the server.
        family: the parsers of the configuration.
        left_out: flags of the configuration that the server does not know.
        not_started: why none of its cases was asked, "" if they were.
        cases: how many cases the configuration has.
        counts: by route ("chat render"), and for "all cases", how many had which outcome.
        rendered: of requests that were rendered when they were recorded: "all" of them, those whose route is
            "absent" now, those that are "refused", those with the recorded "token_ids", and those whose
            "sampling_params" differ in nothing that makes a case fail.
        kinds: what differs and makes a case fail.
        declared: by id of the divergence, the cases that needed it.
    """

    at: str
    version: str
    family: str
    cases: int
    left_out: list[str] = []
    not_started: str = ""
    counts: dict[str, dict[str, int]] = {}
    rendered: dict[str, int] = {}
    kinds: list[Kind] = []
    declared: dict[str, list[str]] = {}


Everything = dict[str, dict[str, Asked]]
"""By server, by configuration in the order of servers.toml."""

_PARTS = ("token_ids", "sampling_params")

_OWN = ("stream against whole", "order", "eager", "repeat", "hop")
"""Checks of streams that need no recording of them, or more than one."""


def row(api: str, route: str) -> str:
    """The line of the table that something asked is counted in."""
    if api == "http":
        return "other routes"
    return f"{api} own streams" if route in _OWN else f"{api} {route}"


def count(asked: Asked, results: Sequence[Result], recordings: Mapping[str, Recording]) -> None:
    """Fill in what the results of a configuration's cases say."""
    found: dict[kinds.Kind, Kind] = {}
    asked.rendered = dict.fromkeys(("all", "absent", "refused", *_PARTS), 0)
    for result in results:
        rows: dict[str, dict[str, list[Finding]]] = {"all cases": result.found}
        for check, findings in result.found.items():
            rows.setdefault(row(*kinds.asked(result.case, check)), {})[check] = findings
            for finding in findings:
                if finding.declared:
                    cases = asked.declared.setdefault(finding.declared, [])
                    cases += [] if result.case.id in cases else [result.case.id]
                elif kinds.undeclared(finding) and finding != MORE:
                    kind = kinds.kind_of(result.case, check, finding)
                    one = found.setdefault(kind, Kind(kind.api, kind.route, kind.place))
                    one.cases[result.case.id] = result.family
                    one.values += [] if len(one.values) > 4 else [f"{result.case.id}: {finding.what[:600]}"]
        for name, checks in rows.items():
            outcomes = asked.counts.setdefault(name, dict.fromkeys(OUTCOMES, 0))
            outcomes[Result(result.case, checks).outcome()] += 1
        if "render" in result.found and recordings[result.case.id].status == 200:
            absent = any(one.aside == "absent" for one in result.found["render"])
            paths = [one.path for one in result.found["render"] if kinds.undeclared(one)]
            refused = any(path[:1] == ("error",) for path in paths)
            asked.rendered["all"] += 1
            asked.rendered["absent"] += absent
            asked.rendered["refused"] += refused
            for part in _PARTS:
                same = all(path and part not in path for path in paths)
                asked.rendered[part] += same and not refused and not absent
    asked.kinds = list(found.values())


def kept(folder: Path, renderers: Iterable[str]) -> Everything:
    """What was asked so far, as far as it was kept."""
    found: Everything = {}
    for name in renderers:
        paths = ((one, folder / name / f"{one}.json") for one in load_servers())
        found[name] = {
            one: msgspec.json.decode(path.read_bytes(), type=Asked) for one, path in paths if path.exists()
        }
    return found
