"""`renderd bench parsers`: CPU time of the parsers alone, by family, one token at a time.

The answers are carried as data: an entry of `answers.json` has reasoning, text and calls as a family's models
write them (`python -m tests.parsers.generator FILE` makes the file anew). With `--worst` it is not answers
that are read but a megabyte of what costs most: markers that never end, braces, what is almost a marker, deep
nesting. The time a token must not grow with the number of tokens read.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from parsers import Family, Marker, RequestContext, State, build, reasoning_parser_names, tool_parser_names
from parsers.events import CallEnd
from parsers.grammar import ModelFacts

LIMIT = 25.0
"""Microseconds a token that no family may exceed."""

RATIO = 1.5
"""How much dearer the last tenth of an output may be than its first."""

TOKENS = 6000
_ROUNDS = 3
_TRIED = 500
_TOKEN = re.compile(r"\s?\w{1,6}|\s?[^\w\s]{1,2}|\s", re.ASCII)


class Entry(msgspec.Struct):
    """An answer of a family.

    `pieces`: text, and markers that are one token, each as a list of itself. `verdict`: what the prompt says
    of the reasoning. `without`: tokens that the family's tokenizers lack. `config`: of the tokenizer.
    """

    reasoning: str | None
    tools: str | None
    verdict: str
    pieces: list[str | list[str]]
    kwargs: dict[str, Any] = {}
    without: list[str] = []
    config: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return " + ".join(name for name in (self.reasoning, self.tools) if name)


class Answers(msgspec.Struct):
    """`answers.json`: the tools of the requests, and an answer a family."""

    tools: list[dict[str, Any]]
    entries: list[Entry]


class Row(msgspec.Struct):
    """What a family costs: microseconds a token, fed alone, and with the state saved and restored after each.

    `calls`: whole ones that were read, None for a family that reads none. For the worst input: `input` says
    which it was, `ratio` is that of its last tenth to its first.
    """

    family: str
    tokens: int
    fed: float
    stateless: float | None = None
    ratio: float | None = None
    input: str = ""
    calls: int | None = None


def answers() -> Answers:
    """The answers that the package carries."""
    return msgspec.json.decode(files(__package__).joinpath("answers.json").read_bytes(), type=Answers)


class Subject:
    """A family, and the request in which it is measured."""

    def __init__(self, entry: Entry, tools: list[dict[str, Any]]) -> None:
        facts = ModelFacts(is_token=lambda text: text not in entry.without, tokenizer_config=entry.config)
        self.name = entry.name
        self.family: Family = build(entry.reasoning, entry.tools, facts)
        tokens = {piece[0] for piece in entry.pieces if not isinstance(piece, str)}
        self.markers = self.family.markers & (tokens | self.family.required_tokens)
        verdict: Any = entry.verdict
        self.context: RequestContext = self.family.context(
            tools, "auto" if entry.tools else None, entry.kwargs, verdict
        )
        self._texts = [piece for piece in entry.pieces if isinstance(piece, str)]
        self.lexemes = list(self._lexemes(entry.pieces))

    def _lexemes(self, pieces: Sequence[str | list[str]]) -> Iterator[str]:
        for piece in pieces:
            if isinstance(piece, str):
                yield from _TOKEN.findall(piece)
            else:
                yield Marker(piece[0]) if piece[0] in self.markers else piece[0]

    def feed(self, lexemes: Sequence[str], tenths: list[float] | None = None) -> float:
        """CPU seconds of reading an output token by token. `tenths`: gets the seconds of each tenth of it."""
        machine = self.family.start(self.context, self.markers)
        size = len(lexemes)
        total = 0.0
        for tenth in range(10):
            part = lexemes[size * tenth // 10 : size * (tenth + 1) // 10]
            began = time.process_time()
            for lexeme in part:
                machine.feed((lexeme,))
            spent = time.process_time() - began
            total += spent
            if tenths is not None:
                tenths.append(spent)
        machine.finish()
        return total

    def calls(self) -> int | None:
        """Whole calls of the carried answer, None where the family reads none."""
        machine = self.family.start(self.context, self.markers)
        events = [*machine.feed(self.lexemes), *machine.finish()]
        return sum(isinstance(event, CallEnd) for event in events) if self.family.has_tools else None

    def feed_stateless(self, lexemes: Sequence[str]) -> float:
        """The same through a written state between any two tokens, as a stateless server has it."""
        family, context, markers = self.family, self.context, self.markers
        machine = family.start(context, markers)
        began = time.process_time()
        for lexeme in lexemes:
            machine.feed((lexeme,))
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(machine.state), type=State)
            machine = family.resume(context, markers, state)
        machine.finish()
        return time.process_time() - began

    def worst(self) -> dict[str, tuple[list[str], list[str]]]:
        """Inputs that cost, by a name: what opens them, and what is then repeated, a token each.

        Openers are the beginnings of the carried answer, up to its markers and into its texts. What is
        repeated is as long as a usual token, if it is no token itself.
        """
        tags = [tag for lexeme in self._texts for tag in _TAG.findall(lexeme)]
        fillers: dict[str, str] = {text: text for text in _FILLERS}
        for marker in dict.fromkeys([*map(str, sorted(self.markers)), *tags]):
            fillers[f"{marker} cut"] = marker[:-1]
            fillers[f"{marker} spelled"] = marker
            if marker in self.markers:
                fillers[f"{marker} token"] = Marker(marker)
        openers = {0: "nothing"}
        for at, lexeme in enumerate(self.lexemes, 1):
            if type(lexeme) is Marker:
                openers.setdefault(at, str(lexeme))
        for part in range(1, 12):
            openers.setdefault(len(self.lexemes) * part // 12, f"{part}/12 of an answer")
        if len(openers) > 24:
            openers = dict(list(openers.items())[:12] + list(openers.items())[-12:])
        return {
            f"{filler} behind {name}": (self.lexemes[:at], [_as_token(text)])
            for at, name in openers.items()
            for filler, text in fillers.items()
        }


def _as_token(text: str) -> str:
    return text if type(text) is Marker or len(text) > 3 else text * (4 // len(text))


_TAG = re.compile(r"[<｜|\]][^\s<>=]{2,40}[>｜|\]=]")
_FILLERS = (
    "<",
    "{",
    "[",
    '"',
    "\\",
    "\n",
    " ",
    "a",
    "1",
    ",",
    "'",
    "(",
    "</",
    '{"a": ',
    "[[",
    "`",
    "-",
    "é",
    "=",
    ":",
)


def measure(entry: Entry, tools: list[dict[str, Any]], rounds: int = 0) -> Row:
    """A family on its answer, over and over: as many rounds as make up `TOKENS`, or fewer."""
    subject = Subject(entry, tools)
    rounds = rounds or max(1, TOKENS // max(1, len(subject.lexemes)))
    tokens = rounds * len(subject.lexemes)
    fed = min(sum(subject.feed(subject.lexemes) for _ in range(rounds)) for _ in range(_ROUNDS))
    kept = min(sum(subject.feed_stateless(subject.lexemes) for _ in range(rounds)) for _ in range(_ROUNDS))
    return Row(subject.name, tokens, fed / tokens * 1e6, kept / tokens * 1e6, calls=subject.calls())


def measure_worst(entry: Entry, tools: list[dict[str, Any]], size: int, share: int = 1) -> Row:
    """A family on the dearest of its worst inputs and on the one whose cost rises most: tried short, then
    `size` characters of each. Cost and ratio are the greater of the two. `share`: try one in so many."""
    subject = Subject(entry, tools)
    dearest, rising = (0.0, ""), (0.0, "")
    inputs = subject.worst()
    for name in list(inputs)[::share]:
        opener, repeated = inputs[name]
        tenths: list[float] = []
        subject.feed([*opener, *repeated * _TRIED], tenths)
        first, last = sum(tenths[:5]), sum(tenths[5:])
        dearest = max(dearest, (first + last, name))
        rising = max(rising, (last / max(first, 1e-9), name))
    found: list[Row] = []
    for name in {dearest[1], rising[1]}:
        opener, repeated = inputs[name]
        found.append(steepest(subject, [*opener, *repeated * (size // len(repeated[0]))], name))
    worst = max(found, key=lambda row: row.ratio or 0.0)
    worst.fed = max(row.fed for row in found)
    return worst


def steepest(subject: Subject, lexemes: Sequence[str], name: str) -> Row:
    """The cost of an output, and that of its last tenth beside its first: the best of some runs, since a busy
    machine only adds."""
    runs: list[list[float]] = []
    while len(runs) < 2 or (len(runs) < 5 and _ratio(runs) > RATIO):
        runs.append([])
        subject.feed(lexemes, runs[-1])
    best = min(map(sum, runs))
    return Row(subject.name, len(lexemes), best / len(lexemes) * 1e6, None, _ratio(runs), name)


def _ratio(runs: Sequence[Sequence[float]]) -> float:
    return min(run[-1] for run in runs) / max(min(run[0] for run in runs), 1e-9)


def rows(worst: bool, size: int, names: Sequence[str] = ()) -> Iterator[Row]:
    """A row a family, as each is measured. `names`: of parsers, none for all."""
    carried = answers()
    known = {None, *reasoning_parser_names(), *tool_parser_names()}
    for entry in carried.entries:
        if not {entry.reasoning, entry.tools} <= known:
            continue
        if names and not {entry.reasoning, entry.tools} & set(names):
            continue
        yield measure_worst(entry, carried.tools, size) if worst else measure(entry, carried.tools)


def failed(row: Row, limit: float) -> bool:
    """Whether a row breaks the limits, or an answer shows nothing of what calls cost."""
    return row.calls == 0 or max(row.fed, row.stateless or 0.0) > limit or (row.ratio or 0.0) > RATIO


def report(worst: bool, size: int, limit: float, names: Sequence[str], as_json: bool) -> int:
    """Measure and print. Exit status 1 where a family breaks a limit, or no call was read of its answer."""
    found: list[Row] = []
    if not as_json:
        columns = ("fed", "last/first", "input") if worst else ("fed", "with its state saved and restored")
        print(f"| microseconds a token | tokens | {' | '.join(columns)} |")
        print("|---|---:|---:|" + ("---:|---|" if worst else "---:|"))
    for row in rows(worst, size, names):
        found.append(row)
        if not as_json:
            print(_line(row, worst), flush=True)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    over = [row.family for row in found if failed(row, limit)]
    if over:
        print(f"over the limit, or without a call: {', '.join(over)}", file=sys.stderr)
    return 1 if over else 0


def _line(row: Row, worst: bool) -> str:
    cells = [row.family, f"{row.tokens:,}", f"{row.fed:.1f}"]
    cells += [f"{row.ratio:.2f}", f"`{row.input}`"] if worst else [f"{row.stateless:.1f}"]
    return f"| {' | '.join(cells)} |"
