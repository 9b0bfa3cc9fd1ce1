"""`renderd conformance diff`: what changed between two references, by kind and family."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from renderd.conformance import documents, kinds
from renderd.conformance.cases import Case, Golden, Recording, carried
from renderd.conformance.checks import Finding, brief, comparable_failures, failed
from renderd.conformance.compare import Rules, differences, number, request_id
from renderd.conformance.equivalents import Equivalents
from renderd.conformance.lines import printable, say
from renderd.conformance.paths import ABSENT, show
from renderd.conformance.rules import BATCH, ENGINE, HTTP, RENDER, stream_rules
from renderd.conformance.runner import Result

_REQUEST_IDS = {"request_id": request_id, "[*].request_id": request_id}

SHOWN = 3
"""Families that a row of a page's table names."""


def _candidates(want: Any, got: Any) -> bool:
    """As many other tokens, numbers for numbers. A completion's sampled token may be among them or not."""
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got)
    if isinstance(want, dict) and isinstance(got, dict):
        return True
    return number(want, got) if isinstance(want, int | float) else bool(want == got)


_LIKELY = {
    f"{logprobs}.{field}": _candidates
    for logprobs, fields in {
        "choices[*].logprobs.content[*]": ("logprob", "top_logprobs"),
        "choices[*].logprobs": ("token_logprobs[*]", "top_logprobs[*]"),
        "output[*].content[*].logprobs[*]": ("logprob", "top_logprobs"),
    }.items()
    for field in fields
}
"""Which tokens were likely, and how likely, is the engine's affair where two engines were asked."""


def changes(
    case: Case, before: Recording, after: Recording, engine: bool, equivalents: Equivalents
) -> dict[str, list[Finding]]:
    """What a later recording of a case has otherwise, by what was compared: all that both of them have.

    The rules are those by which answers are compared with recordings. `engine`: of a tokens-only engine.
    """
    choices = 1 if case.output is None else int(case.request.get("n") or 1)  # else it may be no number
    likely = {} if before.generate == after.generate else _LIKELY
    rules = {
        "render": RENDER.after(_REQUEST_IDS),
        "http": ENGINE if engine else HTTP.after(_REQUEST_IDS),
        "batch": BATCH.after(likely),
        "stream": stream_rules(choices, own=False).after(likely),
    }
    found: dict[str, list[Finding]] = {}
    renders = case.api == "http" and case.request["path"].partition("?")[0].endswith("/render")

    def compare(name: str, view: str, *pair: Recording) -> None:
        values = [one.view(view) for one in pair]
        if ABSENT not in values:
            allowed = equivalents if view == "render" or renders else None
            found[name] = list(_findings(values[0], values[1], rules[view], allowed))

    if case.api == "http":
        compare("http", "http", before, after)
        found["http"] += _headers(before, after)
        return found
    compare("render", "render", before, after)
    # Without a coupled answer the recorded server had no engine: what was generated is another's.
    if before.batch is not None and after.batch is not None:
        generated = [one if isinstance(one, list) else [one] for one in (before.generate, after.generate)]
        pairs = zip(generated[0], generated[1], strict=False)
        found["generate"] = [one for want, got in pairs for one in _findings(want, got, ENGINE)]
    # A coupled server's answer stands beside derender's own, and where only one has it, for it.
    if before.batch is not None or after.batch is not None:
        compare("answer", "batch", before, after)
        compare("answer stream", "stream", before, after)
    if (before.batch is None) == (after.batch is None):
        own = [_derendered(one) for one in (before, after)]
        compare("derender", "batch", *own)
        compare("derender stream", "stream", *own)
    return found


def _derendered(one: Recording) -> Recording:
    """The answers of derender alone."""
    return Recording(id=one.id, derender_batch=one.derender_batch, derender_stream=one.derender_stream)


def _findings(want: Any, got: Any, rules: Rules, equivalents: Equivalents | None = None) -> Iterator[Finding]:
    error = failed(want) or failed(got)
    if error:
        want, got, rules = comparable_failures(want, got)
    for difference in differences(want, got, rules):
        what = f"{show(difference.path)}: {brief(difference.want)} -> {brief(difference.got)}"
        values = (difference.want, difference.got)
        if error:
            yield Finding(what, values=values, path=("error", *difference.path))
        elif equivalents is not None and equivalents.allow(want, difference.path, *values, None):
            yield Finding(what, aside="equivalent", values=values, path=difference.path)
        else:
            yield Finding(what, values=values, path=difference.path)


def _headers(before: Recording, after: Recording) -> Iterator[Finding]:
    for name in {**before.headers, **after.headers}:
        pair = tuple(one.headers.get(name, "").partition(";")[0] for one in (before, after))
        if pair[0] != pair[1]:
            what = f"header {name}: {pair[0]!r} -> {pair[1]!r}"
            yield Finding(what, values=(pair[0], pair[1]), path=("header", name))


class Comparison:
    """Two references, case by case.

    Attributes:
        results: of the cases that both have: what is otherwise in the second is a failure.
        alone: how many cases the first, and the second, has alone.
        apart: how many both have, but no answer of the same route.
    """

    def __init__(self, before: Golden, after: Golden, servers: Sequence[str]) -> None:
        self.names = before.reference, after.reference
        self.servers: list[str] = []
        self.results: list[Result] = []
        self.alone = [0, 0]
        self.apart = 0
        equivalents = Equivalents.load(before.folder)
        for server in servers:
            engine = before.servers[server].get("kind") == "engine"
            cases, family = before.cases(server), before.family(server)
            theirs, ours = before.recordings(server), after.recordings(server)
            both = [case for case in cases if case.id in theirs and case.id in ours]
            self.servers += [server] if both else []
            for side, recorded in enumerate((theirs, ours)):
                self.alone[side] += sum(case.id in recorded for case in cases) - len(both)
            for case in both:
                found = changes(case, theirs[case.id], ours[case.id], engine, equivalents)
                if found:
                    self.results.append(Result(case, found, family))
                self.apart += not found
        self.counts = kinds.count(self.results)

    def differing(self) -> int:
        """How many cases are not answered alike."""
        return sum(result.outcome() == "fail" for result in self.results)

    def example(self, count: kinds.Count) -> Finding:
        """The first difference of a kind."""
        result = next(one for one in self.results if one.case.id == count.example)
        return next(
            finding
            for check, findings in result.found.items()
            for finding in findings
            if not finding.aside and kinds.kind_of(result.case, check, finding) == count.kind
        )

    def summary(self) -> str:
        """One line: `a -> b: 20 cases in both, 3 differ; 2 in a alone`."""
        alone = [f"{n} in {name} alone" for n, name in zip(self.alone, self.names, strict=True) if n]
        differ = f"{len(self.results)} cases in both, {self.differing()} differ"
        apart = [f"{self.apart} of which nothing can be compared"] if self.apart else []
        return f"{' -> '.join(self.names)}: {'; '.join([differ, *apart, *alone])}"

    def text(self) -> str:
        """Every kind for people in a terminal: how many cases of which family, and one example."""
        paragraphs = []
        for count in self.counts:
            cases = f"{count.cases} case{'s' if count.cases > 1 else ''}"
            families = ", ".join(f"{name} {cases}" for name, cases in by_count(count))
            kind, what = map(printable, (str(count.kind), self.example(count).what))
            paragraphs.append(f"{kind}: {cases}\n  {families}\n  {count.example}: {what}")
        return "\n\n".join([*paragraphs, self.summary()])

    def markdown(self) -> str:
        """The same as a table for a page, without the values."""
        lines = ["| Where | Place | Cases | Families | Example |", "|---|---|---:|---|---|"]
        for count in self.counts:
            named = [f"{name} {cases}" for name, cases in by_count(count)]
            more = [f"{len(named) - SHOWN} more"] if len(named) > SHOWN else []
            families = ", ".join(named[:SHOWN] + more)
            kind = count.kind
            where = kind.route if kind.api == "http" else f"{kind.api} {kind.route}"
            place = printable(kind.place).replace("|", "\\|")
            cells = (where, f"`{place}`" if place else "", str(count.cases), families, f"`{count.example}`")
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join([*lines, "", self.summary()])


def by_count(count: kinds.Count) -> list[tuple[str, int]]:
    """Its families, the one with most cases first."""
    return sorted(count.families.items(), key=lambda item: (-item[1], item[0]))


def main(argv: Sequence[str]) -> int:
    """The command. Exit status, as diff's: 0 when nothing differs, 1 when something does, 2 for trouble."""
    arguments = _parser().parse_args(argv)
    try:
        for path in arguments.report:
            documents.check_path(path)
        before, after = (Golden(arguments.cases, name) for name in (arguments.before, arguments.after))
        unknown = [server for server in arguments.server if server not in before.servers]
        if unknown:
            raise ValueError(f"no configuration {unknown[0]!r} in servers.toml")
        compared = Comparison(before, after, arguments.server or list(before.servers))
        if not compared.results:
            raise ValueError(f"{before.reference} and {after.reference} have no answer to the same case")
        at = datetime.now(UTC).isoformat(timespec="seconds")
        run = documents.Run(after.reference, None, before.reference, compared.servers, at)
        say(*(compared.markdown() if arguments.markdown else compared.text()).split("\n"))
        unwritten = documents.write(arguments.report, run, compared.results)
    except (OSError, ValueError) as error:
        unwritten = [str(error)]
    for sentence in unwritten:
        say(f"renderd conformance diff: {sentence}", file=sys.stderr)
    return 2 if unwritten else int(compared.differing() > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="renderd conformance diff",
        description="Say what one reference answers otherwise than another, by kind and family.",
    )
    parser.add_argument("before", metavar="A", help="a version that the package carries, or a folder")
    parser.add_argument("after", metavar="B", help="the same; what B has otherwise is told")
    parser.add_argument(
        "--server", action="append", default=[], metavar="NAME", help="only this configuration; repeatable"
    )
    parser.add_argument("--markdown", action="store_true", help="print a table for a page, without values")
    documents.add_report(parser, "write every difference as .html, .json or .xml; repeatable")
    parser.add_argument("--cases", type=Path, default=carried(), metavar="DIR", help="folder of other cases")
    return parser
