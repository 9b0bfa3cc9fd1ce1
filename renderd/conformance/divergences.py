"""golden/divergences.toml and golden/divergences/: the only place where an answer may differ from vLLM.

The header of golden/divergences.toml has the format.
"""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from renderd.conformance.cases import Case, Folder, Recording, read
from renderd.conformance.compare import Difference, identifier
from renderd.conformance.defects import DEFECTS, UNKNOWN, Evidence, superset
from renderd.conformance.formats import outline
from renderd.conformance.paths import ABSENT, covers, find, get, parse, show

Where = Literal["batch", "stream", "render", "http", "error"]

RULES = ("as_batch", "as_stream", "as_output", "null", "text")
"""What `ours = {rule = ...}` may say instead of a value."""


class _Text:
    def __repr__(self) -> str:
        return "(a text)"


TEXT = _Text()
"""Stands for any text that is not empty, or an object of such."""


class Divergence(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of the file."""

    id: str
    cases: list[str] | dict[str, Any]
    where: Where
    field: str | list[str]
    reason: str
    reproducer: str
    ours: Any = None
    defect: str = ""
    kind: Literal["", "superset"] = ""
    upstream: str = ""

    def __post_init__(self) -> None:
        if not self.reason.strip() or not self.reproducer.strip() or not self.cases:
            raise ValueError(f"{self.id}: reason, reproducer and cases must say something")
        if bool(self.defect) == bool(self.kind):
            raise ValueError(f"{self.id}: one of `defect` and `kind` is needed")
        if self.defect and self.defect not in DEFECTS:
            raise ValueError(f"{self.id}: unknown defect {self.defect!r}, known: {', '.join(DEFECTS)}")
        if self.rule is not None and self.rule not in RULES:
            raise ValueError(f"{self.id}: unknown rule {self.rule!r}, known are {', '.join(RULES)}")
        by_case = isinstance(self.cases, dict)
        if by_case == (self.ours is not None) and (by_case or self.where != "stream"):
            raise ValueError(f"{self.id}: `ours` is needed, once, it may be left out of a stream only")
        for pattern in self.fields:
            parse(pattern)
        if self.where == "error":
            for ours in self.cases.values() if isinstance(self.cases, dict) else [self.ours]:
                if not isinstance(ours, dict) or type(ours.get("status")) is not int:
                    raise ValueError(f"{self.id}: `ours` must say the status")
                if ours["status"] == 200:
                    msgspec.json.decode(ours.get("answer", ""))

    @property
    def fields(self) -> list[str]:
        return [self.field] if isinstance(self.field, str) else self.field

    @property
    def rule(self) -> str | None:
        """The rule that stands for our value, None where a value stands."""
        return self.ours["rule"] if isinstance(self.ours, dict) and set(self.ours) == {"rule"} else None

    def answer(self, case: Case) -> Any:
        """Our whole answer to a request that the reference refuses; ABSENT where ours is an error too."""
        text = self._ours(case).get("answer")
        return ABSENT if text is None else msgspec.json.decode(text)

    def _ours(self, case: Case) -> Any:
        return self.cases[case.id] if isinstance(self.cases, dict) else self.ours

    def names(self, case: Case) -> bool:
        """Whether it speaks of a case."""
        return any(fnmatchcase(case.id, pattern) for pattern in self.cases)

    def wanted(self, case: Case, recording: Recording, path: tuple[str | int, ...], own_batch: Any) -> Any:
        """What ours should be at `path`, UNKNOWN where anything goes or only an answer could tell.

        `own_batch` is the batch answer of the server under test, an `outline`; UNKNOWN before there is one.
        """
        ours = self._ours(case)
        if self.where == "error":  # a place, if any, says nothing where ours does not; the words are free
            return UNKNOWN if path == ("message",) else ours.get(path[0])
        if self.rule == "null":
            return None
        if self.rule == "text":
            return TEXT
        if ours is None:
            return UNKNOWN if own_batch is UNKNOWN else get(own_batch, path)
        if self.rule == "as_output":
            return case.text(int(path[1]) if path[:1] == ("choices",) else 0)
        if self.rule is not None:
            view = recording.view("batch" if self.rule == "as_batch" else "stream")
            return get(outline(view) if self.rule == "as_batch" and self.where == "stream" else view, path)
        return ours


def _same(wanted: Any, got: Any) -> bool:
    """Whether an answer has what an entry states: of an object only the keys that the entry names count."""
    if wanted is TEXT:
        texts = got.values() if isinstance(got, dict) else [got]
        return bool(got) and all(isinstance(one, str) and one.strip() for one in texts)
    if isinstance(wanted, dict) and isinstance(got, dict):
        return all(_same(value, got.get(key, ABSENT)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and all(map(_same, wanted, got))
    wanted, got = (None if value is ABSENT else value for value in (wanted, got))
    return identifier(wanted, got)


class Verdict(msgspec.Struct, frozen=True):
    """What the entries say to a difference.

    Attributes:
        entry: the one that allows it.
        why_not: why those that name its place do not.
        shown: what an entry could rightly say of it: names of defects, "superset".
    """

    entry: Divergence | None
    why_not: list[str] = []
    shown: list[str] = []


class Divergences:
    """All entries, and which of them were needed so far."""

    def __init__(self, entries: Iterable[Divergence]) -> None:
        self.entries = list(entries)
        self._used: dict[str, set[str]] = {entry.id: set() for entry in self.entries}
        if len(self._used) != len(self.entries):
            raise ValueError("two divergences have the same id")

    @classmethod
    def load(cls, path: Folder) -> Divergences:
        """Read the file and those in the folder of its name; without any nothing may differ.

        Raises ValueError for a malformed entry.
        """
        entries: list[Divergence] = []
        parent = path.parent
        assert isinstance(parent, Path | zipfile.Path)  # typeshed thinks less of an archive's
        folder = parent / path.name.removesuffix(".toml")
        more = [one for one in folder.iterdir() if one.name.endswith(".toml")] if folder.is_dir() else []
        for one in [*([path] if path.exists() else []), *sorted(more, key=lambda file: file.name)]:
            tables = tomllib.loads(read(one).decode()).get("divergence", [])
            try:
                entries += msgspec.convert(tables, list[Divergence])
            except msgspec.ValidationError as error:
                raise ValueError(f"{one}: {error}") from error
        return cls(entries)

    def judge(
        self,
        case: Case,
        recording: Recording,
        where: Where,
        recorded: Any,
        got: Any,
        difference: Difference,
        own_batch: Any,
    ) -> Verdict:
        """Whether an entry allows a difference between the whole values `recorded` and `got`."""
        why_not: list[str] = []
        for entry in self.entries:
            if entry.where != where or not entry.names(case):
                continue
            for field in entry.fields:
                pattern = parse(field)
                if not covers(pattern, difference.path):
                    continue
                place = difference.path[: len(pattern)]
                ours = get(got, place)
                wanted = entry.wanted(case, recording, place, own_batch)
                evidence = Evidence(case, recording, where, recorded, place, get(recorded, place), ours)
                if wanted is not UNKNOWN and not _same(wanted, ours):
                    why_not.append(f"divergence {entry.id} wants {wanted!r} at {show(place)}")
                elif where == "error" and got["status"] != entry.wanted(
                    case, recording, ("status",), own_batch
                ):
                    why_not.append(f"divergence {entry.id} is of another status")
                elif (problem := (DEFECTS[entry.defect] if entry.defect else superset)(evidence)) is not None:
                    why_not.append(f"divergence {entry.id}: {problem}")
                else:
                    self._used[entry.id].add(case.id)
                    return Verdict(entry)
        evidence = Evidence(
            case, recording, where, recorded, difference.path, difference.want, difference.got
        )
        return Verdict(None, why_not, _shown(evidence))

    def stale(self, asked: Iterable[Case], known: Iterable[Case]) -> list[str]:
        """Entries that no answer needed. A sentence each.

        A case that an entry names by its full id must differ. Of those that a pattern finds one must, which
        only shows when all of them, out of the `known` ones, were asked.
        """
        asked_names = {case.id for case in asked}
        known_names = {case.id for case in known} | asked_names
        found = []
        for entry in self.entries:
            for pattern in entry.cases:
                named = {name for name in known_names if fnmatchcase(name, pattern)}
                if named and named <= asked_names and not named & self._used[entry.id]:
                    found.append(f"divergence {entry.id}: {pattern} does not differ (any more)")
        return found


def _shown(evidence: Evidence) -> list[str]:
    # Of a pair of names for one check only the name that fits.
    other = "stream_differs_from_batch" if evidence.where == "batch" else "batch_differs_from_stream"
    checks = {**DEFECTS, "superset": superset}
    return [name for name, check in checks.items() if name != other and check(evidence) is None]


def check_entry(entry: Divergence, cases: Iterable[Case], recordings: Mapping[str, Recording]) -> list[str]:
    """What is wrong with an entry as far as the recordings (by case id) show. No sentence: nothing.

    Every case named by its full id must show the defect, and one of those that a pattern finds.
    """
    problems: list[str] = []
    cases = list(cases)
    names = {case.id for case in cases}
    if "/" in entry.reproducer and " " not in entry.reproducer and entry.reproducer not in names:
        problems.append(f"{entry.id}: reproducer {entry.reproducer} is no case")
    for pattern in entry.cases:
        matched = [case for case in cases if fnmatchcase(case.id, pattern) and case.id in recordings]
        reasons = [_unshown(entry, case, recordings[case.id]) for case in matched]
        if not matched:
            problems.append(f"{entry.id}: {pattern} is no recorded case")
        elif None not in reasons:
            problems.append(f"{entry.id}: {matched[0].id}: {reasons[0]}")
    return problems


def _unshown(entry: Divergence, case: Case, recording: Recording) -> str | None:
    """Why a recording does not show what its entry says; None when it does, at one place at least."""
    check = DEFECTS[entry.defect] if entry.defect else superset
    reason = f"nothing was recorded of kind {entry.where}"
    for view in recording.views(entry.where):
        for field in entry.fields:
            for place in find(view, parse(field)):
                ours = entry.wanted(case, recording, place, UNKNOWN)
                evidence = Evidence(case, recording, entry.where, view, place, get(view, place), ours)
                problem = check(evidence)
                if problem is None:
                    return None
                reason = problem
        if reason.startswith("nothing was"):
            reason = f"no recorded value has a place {entry.fields}"
    return reason
