"""DeepSeek V3.2, V4 and V4.1: calls in DSML. V4 opens its reasoning again, V3.2 thinks as V3.1 does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parsers import schema
from parsers.bodies.values import Values
from parsers.bodies.xml_parameters import XmlParameters
from parsers.grammar import (
    Initial,
    On,
    ReasoningGrammar,
    Region,
    Signs,
    Text,
    ToolGrammar,
    open_unless_both_off,
)
from parsers.tags import DEEPSEEK_V4_TAG, DEEPSEEK_V32_TAG, DEEPSEEK_V41_TAG


def _calls(words: tuple[str, ...], blank: str = "") -> ToolGrammar:
    """Calls in a section of one of these names. `blank`: between the bar and the word of a tag."""
    opens, closes = f"<｜DSML｜{blank}", f"</｜DSML｜{blank}"
    sections = tuple(On(f"{opens}{word}>", "section") for word in words)
    ends = tuple(f"{closes}{word}>" for word in words)
    call = f'{opens}invoke name="'
    named = (On('">', "parameters", as_text=True),)
    parameters = XmlParameters(
        opening=f"{opens}parameter name=",
        closing=f"{closes}parameter>",
        done=(f"{closes}invoke>", *ends),
        stops=ends,
        is_text="string",
        wrappers=("arguments", "input"),
        values=Values(json=True, convert=schema.read, keys_wait=True),
    )
    return ToolGrammar(
        names=(),
        content=(*sections, On(call, "bare name", tentative=True)),
        regions={
            "section": Region(Text.DROP, (On(call, "name"), *(On(end, "after") for end in ends))),
            "name": Region(Text.NAME, named, rejected="section"),
            "bare name": Region(Text.NAME, named, known_names=True),
            "parameters": Region(Text.BODY, (), parameters, then="section"),
            "after": Region(Text.DROP, sections),
        },
        absorbs=True,
        typed=True,
        needs_special_tokens="always",
        format=f'{opens}invoke name="NAME">{opens}parameter name="KEY">VALUE</...></...>',
    )


# The signs have the bar's word apart from what follows: templates put the tags together from a variable.
V32_TOOLS = replace(
    _calls(("function_calls",)),
    names=("deepseek_v32",),
    structural_tag=DEEPSEEK_V32_TAG,
    models="DeepSeek V3.2",
    signs=(Signs(template=("｜DSML｜", "function_calls>")),),
)
V4_TOOLS = replace(
    _calls(("tool_calls", "toolcalls", "tool")),
    names=("deepseek_v4",),
    structural_tag=DEEPSEEK_V4_TAG,
    models="DeepSeek V4",
    signs=(Signs(template=("｜DSML｜", "tool_calls>")),),
)
V41_TOOLS = replace(
    _calls(("calls",), blank=" "),
    names=("deepseek_v41",),
    structural_tag=DEEPSEEK_V41_TAG,
    models="DeepSeek V4.1",
    signs=(Signs(template=("｜DSML｜", " calls>")),),
)


def _initial(kwargs: Mapping[str, Any]) -> Initial:
    """Where thinking is off, `<think>` opens it all the same."""
    off = kwargs.get("reasoning_effort") == "none" or open_unless_both_off(kwargs) == "off"
    return "closed" if off else "open"


V4 = ReasoningGrammar(
    names=("deepseek_v4",),
    start="<think>",
    end="</think>",
    initial=_initial,
    unknown_is_over=lambda kwargs: _initial(kwargs) == "closed",
    ends=("<｜DSML｜tool_calls>", "<｜DSML｜toolcalls>", "<｜DSML｜tool>"),
    content=(On("<think>", "reasoning"),),
    absorbs=True,
    strip=True,
    required_tokens=("<think>", "</think>"),
    models="DeepSeek V4",
    format="<think>...</think>",
    signs=(Signs(template=("<｜Assistant｜>", "</think>", "｜DSML｜", "tool_calls>")),),
)
V41 = replace(
    V4,
    names=("deepseek_v41",),
    ends=("<｜DSML｜ calls>",),
    models="DeepSeek V4.1",
    signs=(Signs(template=("<｜Assistant｜>", "</think>", "｜DSML｜", " calls>")),),
)
