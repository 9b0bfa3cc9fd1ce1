"""The pages that say which server answers how much as vLLM did: counts, what differs, what it means."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from golden.asked import Asked, Everything
from renderd.conformance.divergences import Divergences
from renderd.conformance.report import WORDS
from renderd.conformance.runner import OUTCOMES

BEGIN = "<!-- results: python -m golden.results -->"
END = "<!-- end of results -->"
MINOR = "Minor. "
SHOWN = 3
"""Families that a row names; of the others it says how many there are."""

NAMES = {"vllm": "vLLM", "vllm-rs": "vllm-rs", "renderd": "renderd"}
ROUTES = (
    *(f"{api} render" for api in ("chat", "completion", "messages", "responses")),
    *(f"{api} derender" for api in ("chat", "completion", "messages", "responses")),
    *(f"{api} derender stream" for api in ("chat", "completion", "messages", "responses")),
    *(f"{api} own streams" for api in ("chat", "completion", "messages", "responses")),
    "other routes",
)


class Explanation(msgspec.Struct, forbid_unknown_fields=True):
    """What kinds of differences mean.

    Attributes:
        of: the servers it speaks of.
        kinds: patterns, in which "*" is any text.
        cases: patterns of their ids, where a kind is something else in other cases; none: all.
        minor: whether nothing changes for an engine that answers token ids, and for its client.
    """

    of: list[str]
    kinds: list[str]
    what: str
    cases: list[str] = []
    minor: bool = False

    def fits(self, server: str, kind: str, case: str) -> bool:
        """Whether it explains a kind of a server in a case."""
        named = server in self.of and _any(self.kinds, kind)
        return named and (not self.cases or _any(self.cases, case))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"))


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(_compiled(pattern).fullmatch(text) for pattern in patterns)


class Explanations(msgspec.Struct, forbid_unknown_fields=True):
    """golden/explanations.toml. `defects`: of each name that a divergence has for its reason, a sentence."""

    explanation: list[Explanation]
    defects: dict[str, str]

    def of(self, server: str, kind: str, case: str) -> Explanation | None:
        """The first that fits a kind in a case."""
        return next((one for one in self.explanation if one.fits(server, kind, case)), None)


def explanations(path: Path) -> Explanations:
    """Read the file. Raises OSError, ValueError."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Explanations)


class Failing(msgspec.Struct):
    """A kind of difference that makes cases fail, of all configurations. `cases`: family by id."""

    name: str
    cases: dict[str, str]
    value: str


class Reason(msgspec.Struct):
    """Why some cases differ on purpose. `upstream`: vLLM's issue, "" where there is none."""

    words: str
    upstream: str
    cases: set[str]


def failing(configurations: Mapping[str, Asked]) -> list[Failing]:
    """All kinds of a server, the most frequent first."""
    found: dict[str, Failing] = {}
    for asked in configurations.values():
        for kind in asked.kinds:
            name = f"{kind.api} {kind.route}: {kind.place}".removesuffix(": ")
            one = found.setdefault(name, Failing(name, {}, kind.values[0]))
            one.cases |= kind.cases
    return sorted(found.values(), key=lambda one: (-len(one.cases), one.name))


def unexplained(everything: Everything, known: Explanations) -> list[str]:
    """A sentence for each kind that has no explanation."""
    found = []
    for server, configurations in everything.items():
        for kind in failing(configurations):
            cases = [case for case in kind.cases if known.of(server, kind.name, case) is None]
            if cases:
                names = f"{len(cases)} cases, the first is {cases[0]}"
                found.append(
                    f"{server}: no explanation of {kind.name} in {names}; of this kind: {kind.value}"
                )
    return found


def write(
    docs: Path, everything: Everything, configurations: int, known: Explanations, declared: Divergences
) -> None:
    """Put the results into conformance.md, and renderd's divergences into divergences.md.

    `configurations`: how many there are. Raises ValueError when the page has no place for them, KeyError for
    a defect without a sentence.
    """
    page = docs / "conformance.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: no {BEGIN} with {END} behind it")
    asked = {server: everything[server] for server in NAMES}
    section = "\n".join(_section(asked, configurations, known, declared))
    page.write_text(f"{before}{BEGIN}\n{section}\n{END}{after}", encoding="utf-8")
    text = "\n".join(_divergences(asked["renderd"], known, declared))
    (docs / "divergences.md").write_text(text + "\n", encoding="utf-8")


def _section(
    everything: Everything, configurations: int, known: Explanations, declared: Divergences
) -> Iterator[str]:
    yield from ("", "### Counts", "")
    yield from _overview(everything, configurations)
    yield ""
    yield from _prompts(everything)
    yield from ("", "By what was asked:", "")
    yield from _routes(everything)
    for server, found in everything.items():
        yield from ("", f"### What {NAMES[server]} answers otherwise", "")
        yield from _not_asked(server, found, configurations)
        if server == "renderd":
            yield from _declared(found, known, declared)
        yield from _kinds(server, found, known)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> Iterator[str]:
    """Lines of a table; columns from `numbers` on are aligned to the right."""
    yield _line(heads)
    yield _line(["---" if at < numbers else "---:" for at in range(len(heads))])
    for row in rows:
        yield _line([cell.replace("|", "\\|") for cell in row])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heads() -> list[str]:
    return [WORDS.get(outcome, outcome) for outcome in OUTCOMES]


def _sum(found: Iterable[Asked], row: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for asked in found:
        total.update(asked.counts.get(row, {}))
    return total


def _overview(everything: Everything, configurations: int) -> Iterator[str]:
    rows = []
    for server, found in everything.items():
        total = _sum(found.values(), "all cases")
        days = sorted({asked.at for asked in found.values()})
        versions = sorted({asked.version for asked in found.values()})
        out = sum(bool(asked.not_started) for asked in found.values())
        counts = (str(total[outcome]) for outcome in OUTCOMES)
        started = f"{len(found) - out} of {configurations}"
        when = " to ".join(dict.fromkeys((days[0], days[-1])))
        rows.append((NAMES[server], ", ".join(versions), when, started, str(total.total()), *counts))
    yield from _table(("server", "version", "asked on", "configurations", "cases", *_heads()), rows, 4)


_RENDERED = {
    "all": "requests that vLLM renders",
    "absent": WORDS["absent"],
    "refused": "refused",
    "token_ids": "same prompt tokens",
    "sampling_params": "same sampling parameters",
}


def _prompts(everything: Everything) -> Iterator[str]:
    rows = []
    for server, found in everything.items():
        total: Counter[str] = Counter()
        for asked in found.values():
            total.update(asked.rendered)
        rows.append((NAMES[server], *(str(total[part]) for part in _RENDERED)))
    yield from _table(("server", *_RENDERED.values()), rows, 1)


def _routes(everything: Everything) -> Iterator[str]:
    rows = []
    for route in ROUTES:
        for server, found in everything.items():
            total = _sum(found.values(), route)
            if total.total():
                counts = (str(total[outcome]) for outcome in OUTCOMES)
                rows.append((route, NAMES[server], str(total.total()), *counts))
    yield from _table(("asked", "server", "cases", *_heads()), rows, 2)


def _not_asked(server: str, found: Mapping[str, Asked], configurations: int) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name, asked in found.items():
        if asked.not_started:
            why = re.sub(r"[`'][^`']*[`']", "...", asked.not_started)
            reasons.setdefault(why, []).append(name)
    if reasons:
        cases = sum(asked.cases for asked in found.values() if asked.not_started)
        count = sum(map(len, reasons.values()))
        yield f"It does not start with {count} configurations of {cases} cases, which count nowhere:"
        yield ""
        yield from _table(
            ("what it says", "configurations"),
            ((f"`{why}`", ", ".join(names)) for why, names in reasons.items()),
            2,
        )
        yield ""
    left_out = Counter(flag for asked in found.values() for flag in asked.left_out)
    if left_out:
        flags = ", ".join(f"`{flag}` ({count})" for flag, count in left_out.most_common())
        yield f"Flags that it does not know, and was started without (in how many configurations): {flags}."
        yield ""
    if len(found) < configurations:
        yield f"{configurations - len(found)} configurations were not asked. Asked were: {', '.join(found)}."
        yield ""


def _kinds(server: str, found: Mapping[str, Asked], known: Explanations) -> Iterator[str]:
    """A row for each explanation: the kinds, the cases that have one of them, what they mean."""
    groups: dict[int, tuple[Explanation, dict[str, dict[str, str]]]] = {}
    for kind in failing(found):
        for case, family in kind.cases.items():
            explanation = known.of(server, kind.name, case)
            if explanation is None:
                raise ValueError(f"no explanation of {kind.name} in {case}")
            _, explained = groups.setdefault(id(explanation), (explanation, {}))
            explained.setdefault(kind.name, {})[case] = family
    if not groups:
        yield "No case fails."
        return
    rows = []
    failed: set[str] = set()
    major: set[str] = set()
    for explanation, explained in groups.values():
        by_count = sorted(explained.items(), key=lambda item: -len(item[1]))
        cases = {case: family for _, own in by_count for case, family in own.items()}
        names = "<br>".join(f"`{name}` {len(own)}" for name, own in by_count)
        example = next(iter(cases))
        failed.update(cases)
        major.update(() if explanation.minor else cases)
        what = f"{MINOR if explanation.minor else ''}{explanation.what}"
        rows.append((len(cases), (names, str(len(cases)), _families(cases), f"`{example}`", what)))
    rows.sort(key=lambda one: -one[0])
    yield f"{len(failed)} cases fail."
    if major < failed:
        yield f"{len(failed - major)} of them differ in minor kinds alone: nothing changes for an engine that"
        yield "answers token ids, and for its client."
    yield ""
    heads = ("kinds, with the cases that have them", "cases", "families", "example", "what it is")
    yield from _table(heads, (row for _, row in rows), len(heads))


def _families(cases: Mapping[str, str]) -> str:
    counts = Counter(cases.values()).most_common()
    more = [f"{len(counts) - SHOWN} more"] if len(counts) > SHOWN else []
    return ", ".join([f"{family} ({count})" for family, count in counts[:SHOWN]] + more)


def _used(found: Mapping[str, Asked], declared: Divergences) -> dict[str, dict[str, Reason]]:
    """Why cases differ that do so on purpose: by defect, by the words of the reason.

    What was no entry of the divergences is a character that comes late: its reason is a defect of its own.
    """
    entries = {entry.id: entry for entry in declared.entries}
    groups: dict[str, dict[str, Reason]] = {}
    for asked in found.values():
        for name, cases in asked.declared.items():
            entry = entries.get(name)
            defect = name if entry is None else entry.defect or entry.kind
            words, upstream = ("", "") if entry is None else (entry.reason, entry.upstream)
            reason = groups.setdefault(defect, {}).setdefault(words, Reason(words, upstream, set()))
            reason.cases.update(cases)
    return groups


def _declared(found: Mapping[str, Asked], known: Explanations, declared: Divergences) -> Iterator[str]:
    by_defect = {
        name: set().union(*(reason.cases for reason in reasons.values()))
        for name, reasons in _used(found, declared).items()
    }
    if not by_defect:
        return
    several = set().union(*by_defect.values())
    yield f"On purpose, in {len(several)} cases. [divergences.md](divergences.md) has each reason; in short:"
    yield ""
    rows = sorted(by_defect.items(), key=lambda item: -len(item[1]))
    yield from _table(
        ("what is wrong with vLLM's answer", "cases"),
        ((known.defects[name], str(len(cases))) for name, cases in rows),
        1,
    )
    yield ""


def _divergences(found: Mapping[str, Asked], known: Explanations, declared: Divergences) -> Iterator[str]:
    yield "# Where renderd answers otherwise than vLLM"
    yield ""
    yield "On purpose, and nowhere else in the golden cases. Written by `python -m golden.results` from"
    yield "`golden/divergences.toml` and the files of `golden/divergences/`: they have place and evidence."
    yield "How the whole compares: [conformance.md](conformance.md)."
    groups = _used(found, declared)
    for name, reasons in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield from ("", f"## {known.defects[name]}", "")
        rows = [
            (one.words, str(len(one.cases)), f"`{min(one.cases)}`", one.upstream and f"#{one.upstream}")
            for one in sorted(reasons.values(), key=lambda one: (-len(one.cases), one.words))
        ]
        yield from _table(("reason", "cases", "example", "upstream"), rows, 4)
