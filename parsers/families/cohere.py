"""Cohere Command 3 and 4: thoughts, answer and calls in sections of their own, citations inside the text."""

from parsers.bodies.json_call import JsonCall
from parsers.grammar import (
    Channels,
    On,
    ReasoningGrammar,
    Region,
    Signs,
    Text,
    ToolGrammar,
    always_closed,
    always_open,
)
from parsers.tags import COHERE_TAG

_THINK, _THINK_END = "<|START_THINKING|>", "<|END_THINKING|>"
_CALLS, _CALLS_END = "<|START_ACTION|>", "<|END_ACTION|>"
_TURN = ("<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>")

_CALL = JsonCall(
    ("parameters",), certain_by_name=True, name_key="tool_name", id_key="tool_call_id", verbatim=True
)
_CITED, _CITATION = "<co>", "</co"


def _sections(text: Text, kind: str, sections: tuple[On, ...]) -> dict[str, Region]:
    """Text of a kind, whose citations are dropped and what they are of is kept."""
    return {
        kind: Region(text, (*sections, On(_CITED, f"cited_{kind}", as_text=True))),
        f"cited_{kind}": Region(text, (*sections, On(_CITATION, f"citation_{kind}", as_text=True))),
        f"citation_{kind}": Region(Text.MARKUP, (*sections, On(">", kind, as_text=True))),
    }


def _channels(start: str, answer: str, answer_end: str) -> Channels:
    sections = (
        On(_THINK, "reasoning"),
        On(_THINK_END, "gap"),
        On(answer, "content"),
        On(answer_end, "gap"),
        On(_CALLS, "calls"),
        On(_CALLS_END, "after"),
    )
    item = On("{", "call", keep=True, as_text=True)
    return Channels(
        start=start,
        regions={
            **_sections(Text.CONTENT, "content", sections),
            **_sections(Text.REASONING, "reasoning", sections),
            "gap": Region(Text.MARKUP, sections, on_text="content"),
            "calls": Region(Text.DROP, (*sections, item, *_SEPARATORS)),
            "call": Region(Text.BODY, sections, _CALL, then="calls", rejected="calls"),
            "after": Region(Text.DROP, sections),
        },
        trims=True,
        always_reasons=True,
    )


_SEPARATORS = tuple(On(char, "calls", as_text=True) for char in "[,]")


def _family(version: int, begins: str, answer: str) -> tuple[ReasoningGrammar, ToolGrammar]:
    """`begins`: the section of text before any marker. `answer`: the word of the answer's markers."""
    start, end = f"<|START_{answer}|>", f"<|END_{answer}|>"
    channels = _channels(begins, start, end)
    signs = (Signs(tokens=(_THINK, _CALLS, start)),)
    names, models = (f"cohere_command{version}",), f"Command {version}"
    reasoning = ReasoningGrammar(
        names=names,
        start=_THINK,
        end=_THINK_END,
        initial=always_open if begins == "reasoning" else always_closed,
        ends=(start, _CALLS),
        boundary=_TURN,
        channels=channels,
        counted="marked",
        end_counts=True,
        needs_special_tokens=True,
        models=models,
        format=f"{_THINK}...{_THINK_END}",
        signs=signs,
        framing=f"cohere{version}",
    )
    tools = ToolGrammar(
        names=names,
        channels=channels,
        needs_special_tokens="always",
        structural_tag=COHERE_TAG,
        default_strictness="parameter",
        models=models,
        format=f'{_CALLS}[{{"tool_call_id": ID, "tool_name": NAME, "parameters": {{...}}}}]{_CALLS_END}',
        signs=signs,
        framing=f"cohere{version}",
    )
    return reasoning, tools


COMMAND3, COMMAND3_TOOLS = _family(3, "content", "RESPONSE")
COMMAND4, COMMAND4_TOOLS = _family(4, "reasoning", "TEXT")
