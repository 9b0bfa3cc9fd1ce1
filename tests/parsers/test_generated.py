"""Every family reads what a model of it writes, and makes no mess of what it should not have written.

The outputs come from `tests.parsers.generator`, which states every format once more and knows nothing of
`parsers.families`. An example is a seed: it stands for an answer, its output, how that is cut into chunks,
and what is done to it.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers import Event, Family, Marker, RequestContext, build, reasoning_parser_names, tool_parser_names
from parsers.family import ToolChoice
from parsers.grammar import ModelFacts
from parsers.prompt_markers import PromptVerdict
from tests.parsers.generator import TOOLS, WORD, Format, Pieces, Sample, Token, Words, formats, sample
from tests.parsers.generator.pairs import PAIRS
from tests.parsers.reading import Message, add_up, resumed

EXAMPLES = int(os.environ.get("RENDERD_FUZZ", "15"))
"""Examples a test; `make fuzz-parsers` takes more."""

Chunks = list[list[str]]


def configurations() -> Iterator[Any]:
    """The pairs of names that are registered, with each format that they stand for."""
    known = (set(reasoning_parser_names()), set(tool_parser_names()))
    for reasoning, tools in PAIRS:
        if (reasoning and reasoning not in known[0]) or (tools and tools not in known[1]):
            continue
        for number, form in enumerate(formats(reasoning, tools)):
            name = f"{reasoning or ''}+{tools or ''}" + (f"-{number}" if number else "")
            yield pytest.param(reasoning, tools, form, id=name)


def family_of(reasoning: str | None, tools: str | None, form: Format) -> Family:
    without = form.facts.get("without", ())
    model = ModelFacts(
        is_token=lambda text: text not in without, tokenizer_config=form.facts.get("config", {})
    )
    return build(reasoning, tools, model)


def lexemes(pieces: Pieces, markers: frozenset[str]) -> list[str]:
    """What the tokens of an output give."""
    return [
        Marker(piece) if isinstance(piece, Token) and piece in markers else str(piece) for piece in pieces
    ]


def chunked(rng: random.Random, found: list[str]) -> Chunks:
    """The same lexemes cut finer, some of them together."""
    longest = rng.choice((1, 3, 8))
    cut: list[str] = []
    for lexeme in found:
        at = 0
        while type(lexeme) is str and at < len(lexeme):
            size = rng.randint(1, longest)
            cut.append(lexeme[at : at + size])
            at += size
        if type(lexeme) is not str:
            cut.append(lexeme)
    chunks: Chunks = []
    while cut:
        size = rng.choice((1, 1, 1, 2, 5))
        chunks.append(cut[:size])
        del cut[:size]
    return chunks


def read(family: Family, context: RequestContext, markers: frozenset[str], chunks: Chunks) -> Message:
    """Read an output chunk by chunk, with a written state after each."""
    machine = family.start(context, markers)
    events: list[Event] = []
    for chunk in chunks:
        events += machine.feed(chunk)
        machine = resumed(family, context, markers, machine)
    events += machine.finish()
    assert machine.finish() == []
    return add_up(events)


def read_both_ways(
    rng: random.Random, family: Family, context: RequestContext, markers: frozenset[str], pieces: Pieces
) -> Message:
    """Read an output at once and in chunks, which must come to the same."""
    found = lexemes(pieces, markers)
    machine = family.start(context, markers)
    whole = add_up([*machine.feed(found), *machine.finish()])
    cut = read(family, context, markers, chunked(rng, found))
    assert (cut.reasoning, cut.content, cut.calls) == (whole.reasoning, whole.content, whole.calls)
    assert cut.complete == whole.complete
    assert settled(cut) == settled(whole)
    return whole


def settled(message: Message) -> dict[str, int]:
    """The anomalies that are counted alike however an output is cut. The cut decides how much of a text that
    was no call was still waiting, and of text behind an object that ended too early how much was dropped."""
    open_kinds = ("dropped_text", "unfinished_value", "markup_in_content")
    return {kind: characters for kind, characters in message.anomalies.items() if kind not in open_kinds}


def check_accounts(form: Format, pieces: Pieces, message: Message) -> None:
    """No word was doubled, and those that are nowhere were counted as dropped, or stand inside markup."""
    text = "".join(pieces)
    written = Counter(WORD.findall(text))
    parts = [message.reasoning or "", message.content or ""]
    for name, arguments in message.calls:
        parts += [name, arguments]
    said = Counter(WORD.findall("\0".join(parts)))
    assert not said - written
    lost = written - said - Counter(WORD.findall("\0".join(one or "" for one in message.ids)))
    if form.tags:
        inside = re.finditer(form.tags, text, re.DOTALL)
        lost -= Counter(word for tag in inside for word in WORD.findall(tag.group()))
    counted = sum(n for kind, n in message.anomalies.items() if kind != "markup_in_content")
    assert sum(len(word) * n for word, n in lost.items()) <= counted, (lost, message.anomalies)


def is_json(text: str) -> bool:
    """Python reads NaN and Infinity too, which are no JSON."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


def check_reading(one: Sample, message: Message) -> None:
    """A valid output was read as it was meant."""
    calls = [(call.name, call.arguments) for call in one.answer.calls]
    assert [(name, json.loads(arguments)) for name, arguments in message.calls] == calls
    assert all(message.complete)
    for call, own_id in zip(one.answer.calls, message.ids, strict=True):
        assert call.id is None or call.id == own_id
    assert (message.reasoning or "") == one.reasoning
    content = message.content or ""
    if one.loose:
        assert content.startswith(one.content)
    elif one.answer.after:
        assert "".join(content.split()) == "".join(one.content.split())
    else:
        assert content == one.content


ATOM = re.compile(WORD.pattern + "|.", re.DOTALL)


def mutated(rng: random.Random, pieces: Pieces, other: Pieces) -> Pieces:
    """An output that was cut, doubled, spliced, or strewn with what does not belong in it."""
    atoms, foreign = atomised(pieces), atomised(other)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(atoms) + 1)
        to = rng.randrange(at, len(atoms) + 1)
        there = rng.randrange(len(foreign) + 1)
        match rng.randrange(7):
            case 0:
                del atoms[at:]
            case 1:
                del atoms[at : min(to, at + 12)]
            case 2:
                atoms[to:to] = atoms[at:to]
            case 3:
                atoms[at:at] = foreign[there:]
            case 4:
                atoms[at:] = foreign[there:]
            case 5:
                atoms[at:at] = [rng.choice((Token, str))(rng.choice(MARKERS))]
            case 6:
                atoms[at:at] = [odd_character(rng)]
    return joined(atoms)


def odd_character(rng: random.Random) -> str:
    return chr(rng.choice((rng.randrange(1, 128), rng.randrange(0xA0, 0xD800), 0x1F600)))


def atomised(pieces: Pieces) -> Pieces:
    """Words, other characters, and tokens."""
    atoms: Pieces = []
    for piece in pieces:
        atoms += [piece] if isinstance(piece, Token) else ATOM.findall(piece)
    return atoms


def joined(atoms: Pieces) -> Pieces:
    pieces: Pieces = []
    for atom in atoms:
        if pieces and not isinstance(atom, Token) and not isinstance(pieces[-1], Token):
            pieces[-1] += atom
        else:
            pieces.append(atom)
    return pieces


CONFIGURATIONS = list(configurations())
FORMS: list[Format] = [one.values[2] for one in CONFIGURATIONS]
STRAY = ("{", "}", '"', "<function=ping>", "[ping()]")
MARKERS = sorted({*STRAY, *(text for form in FORMS for text in form.tokens)})

CHOICES: tuple[ToolChoice | None, ...] = ("auto", "auto", "auto", "none", "required", None)
VERDICTS: tuple[PromptVerdict, ...] = ("open", "over", "unknown")

profile = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES < 50,
    database=None,
    suppress_health_check=list(HealthCheck),
)
seeds = st.integers(0, 2**48)


def check_valid(family: Family, form: Format, seed: int) -> None:
    """A random valid output is read as it was meant, in chunks too."""
    rng = random.Random(seed)
    fixed = family.required_tokens or form.framing or form.facts
    spelled = rng.random() < 0.25 and not fixed
    one = sample(rng, rng.choice((2, 6, 12)), form, spelled)
    markers = frozenset() if spelled else family.markers & form.tokens
    context = family.context(TOOLS, "auto", form.kwargs, one.verdict)
    message = read_both_ways(rng, family, context, markers, one.pieces)
    check_reading(one, message)
    check_accounts(form, one.pieces, message)


def check_mutated(family: Family, form: Format, seed: int) -> None:
    """What is left of a valid output is read the same in chunks, and no word of it is lost or doubled."""
    rng = random.Random(seed)
    words = Words(rng)
    one = sample(rng, 4, form, words=words)
    other = sample(rng, 4, rng.choice((form, rng.choice(FORMS))), words=words)
    pieces = mutated(rng, one.pieces, other.pieces)
    markers = family.markers & form.tokens
    choice: ToolChoice | None = rng.choice(CHOICES)
    limit = rng.choice((65536, 65536, 65536, 40))
    context = family.context(TOOLS, choice, form.kwargs, rng.choice(VERDICTS), limit)
    message = read_both_ways(rng, family, context, markers, pieces)
    for (_, arguments), complete in zip(message.calls, message.complete, strict=True):
        assert not complete or is_json(arguments)
    check_accounts(form, pieces, message)


@pytest.mark.parametrize(("reasoning", "tools", "form"), CONFIGURATIONS)
@profile
@given(seed=seeds)
def test_what_a_model_writes_is_read_as_meant(
    reasoning: str | None, tools: str | None, form: Format, seed: int
) -> None:
    check_valid(family_of(reasoning, tools, form), form, seed)


@pytest.mark.parametrize(("reasoning", "tools", "form"), CONFIGURATIONS)
@profile
@given(seed=seeds)
def test_what_no_model_should_write_is_read_in_one_way(
    reasoning: str | None, tools: str | None, form: Format, seed: int
) -> None:
    check_mutated(family_of(reasoning, tools, form), form, seed)
