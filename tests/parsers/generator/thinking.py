"""How families mark reasoning that stands before the answer."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.parsers.generator.formats import Pieces, Thinking, Token


def think_pair(
    start: str, end: str, tokens: bool = True, opener: float = 0.5
) -> Callable[[random.Random, str], Pieces]:
    """`start` text `end`; the start is often in the prompt."""
    kind = Token if tokens else str

    def write(rng: random.Random, text: str) -> Pieces:
        first: Pieces = [kind(start)] if rng.random() < opener else []
        return [*first, text, kind(end)]

    return write


def _think(*names: str, opener: float = 0.5, **more: object) -> Thinking:
    return Thinking(
        names,
        think_pair("<think>", "</think>", opener=opener),
        tokens=("<think>", "</think>"),
        near=("<thi", "</", "</thin", "think>"),
        **more,  # type: ignore[arg-type]
    )


def _response(rng: random.Random, text: str) -> Pieces:
    return ["\n\n", Token("<response>"), "\n" + text + "\n", Token("</response>"), rng.choice(("", "\n"))]


def _answer(rng: random.Random, text: str) -> Pieces:
    return ["\n<answer>\n" + text + "\n</answer>"]


def _granite(rng: random.Random, text: str) -> Pieces:
    first = rng.choice(("Here is my thought process:", "Here's my thought process:"))
    return [first + text + rng.choice(("Here is my response:", "Here's my response:"))]


def _suffixed(rng: random.Random, text: str) -> Pieces:
    return [Token("<think>"), text, Token("</think>")]


THINKING = (
    _think("deepseek_r1", "step5"),
    _think("deepseek_v3", kwargs={"thinking": True}),
    _think("holo2"),
    _think("poolside_v1", kwargs={"enable_thinking": True}),
    _think("qwen3", "mimo"),
    _think("minicpmv", edges="none", pair=("\\n", "\\r")),
    _think(
        "deepseek_v4", "deepseek_v41", "glm45", "glm47", "ling3", "kimi_k2", "minimax_m2", edges="dropped"
    ),
    _think("nemotron_v3", "step3p5", edges="dropped"),
    _think("granite_thinking_parser", edges="dropped", skips="\n"),
    _think("step3", opener=0, edges="none"),
    _think("ernie45", opener=0, edges="none", wrap=_response),
    _think("minimax_m2_append_think", lead="<think>", never=True),
    Thinking(
        ("seed_oss",),
        think_pair("<seed:think>", "</seed:think>"),
        tokens=("<seed:think>", "</seed:think>"),
        near=("<seed:", "</seed:think"),
    ),
    Thinking(
        ("mistral",),
        think_pair("[THINK]", "[/THINK]", opener=1),
        tokens=("[THINK]", "[/THINK]"),
        begins="before",
        edges="dropped",
        near=("[TH", "[/"),
    ),
    Thinking(
        ("gemma4",),
        think_pair("<|channel>", "<channel|>", opener=1),
        tokens=("<|channel>", "<channel|>"),
        begins="before",
        edges="dropped",
        near=("<|chan", "<chan"),
    ),
    Thinking(
        ("minimax_m3",),
        think_pair("<mm:think>", "</mm:think>", tokens=False, opener=1),
        pair=("<mm:think>", "</mm:think>"),
        begins="before",
        edges="none",
        near=("<mm:", "</mm:thin"),
    ),
    Thinking(
        ("olmo3",),
        think_pair("<think>", "</think>", tokens=False),
        pair=("<think>", "</think>"),
        near=("<thi", "</th", "</"),
    ),
    Thinking(
        ("granite",),
        _granite,
        pair=("Here",),
        begins="before",
        edges="kept",
        near=("Her", "Hers is"),
    ),
    Thinking(
        ("hunyuan_a13b",),
        lambda rng, text: ["<think>\n" + text + "\n</think>"],
        pair=("<think>", "</think>", "<answer>", "</answer>"),
        begins="before",
        edges="none",
        wrap=_answer,
        near=("<thi", "</ans"),
    ),
    Thinking(
        ("hy_v3", "hy_v4"),
        _suffixed,
        tokens=("<think>", "</think>"),
        kwargs={"reasoning_effort": "high"},
        edges="none",
        near=("<thi", "</"),
    ),
    Thinking(
        ("k2_horizon",),
        think_pair("<ifm|think>", "</ifm|think>"),
        tokens=("<ifm|think>", "</ifm|think>"),
        kwargs={"reasoning_effort": "high"},
        edges="none",
        near=("<ifm|", "</ifm|thi"),
    ),
    Thinking(
        ("plamo3",),
        think_pair("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>", tokens=False),
        pair=("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
        edges="none",
        near=("<|plamo:", "<|plamo:end_thin"),
    ),
)
