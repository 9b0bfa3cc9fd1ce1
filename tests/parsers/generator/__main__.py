"""Writes the answers that `renderd bench parsers` reads: `python -m tests.parsers.generator FILE`."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from tests.parsers.generator import TOOLS, Format, Sample, Token, Words, formats, sample
from tests.parsers.generator.pairs import REASONING
from tests.parsers.generator.pairs import TOOLS as TOOL_NAMES

PREFERRED = {
    "apertus": "qwen3", "dots": "qwen3", "functiongemma": None, "openai": "openai_gptoss",
    "deepseek_v31": "deepseek_v3", "deepseek_v32": "deepseek_v3",
}  # fmt: skip


def bench_pairs() -> list[tuple[str | None, str | None]]:
    """Each name once: with its own kind where there is one."""
    pairs: list[tuple[str | None, str | None]] = [(name, name) for name in REASONING if name in TOOL_NAMES]
    pairs += [(PREFERRED.get(name), name) for name in TOOL_NAMES if name not in REASONING]
    used = {reasoning for reasoning, _ in pairs}
    return [*pairs, *((name, None) for name in REASONING if name not in used)]


def long_sample(form: Format, seed: int) -> Sample:
    """An answer with everything in it that the format allows, a call in any case: the fullest of some."""
    found: list[Sample] = []
    for number in range(60):
        rng = random.Random(seed + number)
        found.append(sample(rng, 80, form, words=Words(rng)))

    def fullness(one: Sample) -> tuple[bool, int, int]:
        made = one.answer
        values = [value for call in made.calls for value in call.arguments.values()]
        parts = (made.reasoning or made.content, made.content, len(values) > 3, not made.after)
        return bool(made.calls), sum(map(bool, parts)), sum(map(len, one.pieces))

    return max(found, key=fullness)


def entry(reasoning: str | None, tools: str | None, form: Format) -> dict[str, Any]:
    one = long_sample(form, 7)
    found: dict[str, Any] = {"reasoning": reasoning, "tools": tools, "verdict": one.verdict}
    found["pieces"] = [[piece] if isinstance(piece, Token) else piece for piece in one.pieces]
    facts = form.facts
    for key, value in (
        ("kwargs", form.kwargs), ("without", list(facts.get("without", ()))), ("config", facts.get("config"))
    ):  # fmt: skip
        if value:
            found[key] = value
    return found


def main(path: str) -> None:
    entries = [
        entry(reasoning, tools, form)
        for reasoning, tools in bench_pairs()
        for form in formats(reasoning, tools)
    ]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in entries)
    tools = json.dumps(TOOLS, ensure_ascii=False)
    Path(path).write_text(f'{{"tools": {tools},\n"entries": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
