"""Results as files: JSON with everything, JUnit's XML for CI, one HTML page for people."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec

from renderd.conformance.checks import Finding
from renderd.conformance.paths import ABSENT
from renderd.conformance.report import WORDS, areas
from renderd.conformance.runner import OUTCOMES, Result

Json = dict[str, Any]

KINDS = (".html", ".json", ".xml")
"""Endings of the names of reports."""


class Run(msgspec.Struct):
    """What was asked of whom.

    Attributes:
        url, version: the server, and what its /version says (None where it says nothing).
        against: what the answers were compared with, in words.
        at: when, ISO 8601.
        flags: that the recorded server of each configuration was started with.
        notes: lines about the run as a whole: what was left out, and why.
        faults: of them those for which it must not count as good, whatever its cases say.
    """

    url: str
    version: Any
    against: str
    servers: list[str]
    at: str
    flags: dict[str, list[str]] = {}
    notes: list[str] = []
    faults: list[str] = []


def write(paths: Iterable[Path], run: Run, results: Sequence[Result]) -> list[str]:
    """Write the reports that the names' endings say. A sentence about each that could not be written."""
    kinds = {".html": as_html, ".json": as_json, ".xml": as_junit}
    unwritten = []
    for path in paths:
        try:
            path.write_text(kinds[path.suffix](run, results), encoding="utf-8")
        except OSError as error:
            unwritten.append(f"{path} is not written: {error.strerror}")
    return unwritten


def add_report(parser: argparse.ArgumentParser, about: str) -> None:
    """The flag that says which reports are to be written. `about`: for its help."""
    parser.add_argument("--report", type=Path, action="append", default=[], metavar="FILE", help=about)


def check_path(path: Path) -> None:
    """ValueError when a file's name does not say what it is to be, OSError when it cannot be written."""
    if path.suffix not in KINDS:
        raise ValueError(f"{path}: reports end in {', '.join(KINDS)}")
    new = not os.path.lexists(path)
    path.open("ab").close()
    if new:
        path.unlink()  # an empty report would say something


def document(run: Run, results: Sequence[Result]) -> Json:
    """Everything: the run, counts by outcome, and each case with its request and what was found."""
    outcomes = [result.outcome() for result in results]
    return {
        "run": msgspec.to_builtins(run),
        "counts": {kind: outcomes.count(kind) for kind in OUTCOMES},
        "cases": [_case(result) for result in results],
    }


def _case(result: Result) -> Json:
    case = result.case
    return {
        "id": case.id,
        "server": case.server,
        "family": result.family,
        "areas": areas(result),
        "api": case.api,
        "about": case.about,
        "outcome": result.outcome(),
        "request": case.request,
        "output": case.output,
        "checks": [
            {"name": name, "outcome": result.outcome(name), "findings": [_finding(one) for one in found]}
            for name, found in result.found.items()
        ],
    }


def _finding(finding: Finding) -> Json:
    """`wanted` and `got` are left out where there is no such value."""
    said: Json = {"what": finding.what}
    if finding.declared:
        said["declared"] = finding.declared
    if finding.aside == "equivalent":
        said["equivalent"] = True
    if finding.values is not None:
        pairs = zip(("wanted", "got"), finding.values, strict=True)
        said["compared"] = True
        said |= {key: value for key, value in pairs if value is not ABSENT}
    return said


def as_json(run: Run, results: Sequence[Result]) -> str:
    return msgspec.json.format(msgspec.json.encode(document(run, results)), indent=1).decode() + "\n"


def as_html(run: Run, results: Sequence[Result]) -> str:
    """One page that needs nothing else. The requests of cases that passed are left out."""
    told = document(run, results)
    for case in told["cases"]:
        if case["outcome"] == "pass":
            del case["request"], case["output"]
    told["words"] = WORDS
    page = files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    # Inside a script element only "<" could end it, or begin a comment.
    data = msgspec.json.encode(told).decode().replace("<", "\\u003c")
    return page.replace("/*DATA*/", data)


def as_junit(run: Run, results: Sequence[Result]) -> str:
    """A test suite a configuration. What is not offered, or does not fit, is skipped."""
    root = ElementTree.Element("testsuites", name=_xml(f"renderd conformance {run.url}"))
    for server in dict.fromkeys(result.case.server for result in results):
        own = [result for result in results if result.case.server == server]
        outcomes = [result.outcome() for result in own]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(server),
            timestamp=run.at,
            tests=str(len(own)),
            failures=str(outcomes.count("fail")),
            errors="0",
            skipped=str(outcomes.count("absent") + outcomes.count("unfit")),
        )
        for result, outcome in zip(own, outcomes, strict=True):
            name = f"{result.family}.{areas(result)[0]}"
            element = ElementTree.SubElement(
                suite, "testcase", classname=_xml(name), name=_xml(result.case.id)
            )
            said = [f"{check}: {finding.what}" for check, finding in _by_weight(result)]
            if outcome == "fail":
                ElementTree.SubElement(element, "failure", message=_xml(said[0])).text = _xml("\n".join(said))
            elif outcome in WORDS:
                ElementTree.SubElement(element, "skipped", message=_xml(said[0]))
            elif said:
                ElementTree.SubElement(element, "system-out").text = _xml("\n".join(said))
    if run.faults:
        suite = ElementTree.SubElement(
            root, "testsuite", name="the run itself", timestamp=run.at, tests="1", failures="0", errors="1"
        )
        element = ElementTree.SubElement(suite, "testcase", classname="run", name="all was asked")
        ElementTree.SubElement(element, "error", message=_xml(run.faults[0])).text = _xml(
            "\n".join(run.faults)
        )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _by_weight(result: Result) -> list[tuple[str, Finding]]:
    """What was found, by check: first what makes the case fail, last what no engine notices."""
    found = [(check, finding) for check, several in result.found.items() for finding in several]
    return sorted(
        found, key=lambda one: _WEIGHTS.index(one[1].aside or ("declared" if one[1].declared else ""))
    )


_WEIGHTS = ("", "unfit", "absent", "declared", "equivalent")

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    """Characters that XML has no way to write are replaced."""
    return _NO_XML.sub("\ufffd", text)
