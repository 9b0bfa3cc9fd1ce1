"""Reasoning between phrases or wrappers of plain text: Granite 3 and Hunyuan A13B."""

from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, always_closed

_THOUGHTS = ("Here is my thought process:", "Here's my thought process:")
_RESPONSES = ("Here is my response:", "Here's my response:")

GRANITE_REASONING = ReasoningGrammar(
    names=("granite",),
    models="Granite 3.2",
    format="Here is my thought process: ... Here is my response: ...",
    signs=(Signs(template=("Here is my thought process",)),),
    end=_RESPONSES[0],
    other_ends=_RESPONSES[1:],
    initial=always_closed,
    begin="phrase",
    counted="none",
    untold=True,
    regions={
        "phrase": Region(Text.CONTENT, tuple(On(phrase, "reasoning") for phrase in _THOUGHTS)),
    },
)

_THINK = "<think>\n"
_ANSWERS = ("\n</think>\n<answer>\n", "\n</think>\n", "\n</think>")
_OVER = ("\n</answer>\n", "\n</answer>")

HUNYUAN_REASONING = ReasoningGrammar(
    names=("hunyuan_a13b",),
    models="Hunyuan A13B",
    format="<think>...</think><answer>...</answer>",
    signs=(Signs(template=("<think>", "<answer>")),),
    end=_ANSWERS[0],
    other_ends=_ANSWERS[1:],
    initial=always_closed,
    begin="think",
    counted="none",
    content=tuple(On(marker, "content") for marker in _OVER),
    regions={"think": Region(Text.CONTENT, (On(_THINK, "reasoning"),))},
)
