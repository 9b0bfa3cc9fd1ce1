"""Qwen3, Qwen3-Coder and relatives: `<think>` reasoning, calls in XML. Seed-OSS has words of its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parsers.bodies.values import Values
from parsers.bodies.xml_parameters import XmlParameters
from parsers.grammar import (
    On,
    ReasoningGrammar,
    Region,
    Signs,
    Text,
    ToolGrammar,
    always_open,
    open_unless_disabled,
)
from parsers.rewrite import newlines
from parsers.tags import MIMO_TAG, QWEN_CODER_TAG


def _wants_content(kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("force_nonempty_content") is True


REASONING = ReasoningGrammar(
    names=("qwen3",),
    start="<think>",
    end="</think>",
    initial=open_unless_disabled,
    ends=("<tool_call>",),
    boundary=("<|im_start|>", "<|im_end|>"),
    absorbs=True,
    required_tokens=("<think>", "</think>"),
    models="Qwen3, QwQ",
    format="<think>...</think>",
    signs=(Signs(template=("<|im_start|>", "<think>")),),
)

STEP_REASONING = replace(
    REASONING,
    names=("step3p5",),
    initial=always_open,
    strip=True,
    models="Step 3.5, Step 3.7",
    signs=(Signs(template=("<|im_start|>", "<think>"), model_type="step3p5"),),
)
MIMO_REASONING = replace(
    REASONING,
    names=("mimo",),
    models="MiMo",
    signs=(Signs(template=("<|im_start|>", "<think>"), model_type="mimo_v2_flash"),),
)
NEMOTRON_REASONING = replace(
    REASONING,
    names=("nemotron_v3",),
    strip=True,
    promotes=_wants_content,
    models="Nemotron 3",
    signs=(Signs(template=("<|im_start|>", "<think>"), model_type="nemotron_h"),),
)
MINICPMV_REASONING = replace(
    REASONING,
    names=("minicpmv",),
    rewrite=newlines,
    models="MiniCPM-V",
    signs=tuple(
        Signs(template=("<|im_start|>", "<think>"), model_type=version)
        for version in ("minicpmv", "minicpmv4_6")
    ),
)
GRANITE_REASONING = replace(
    NEMOTRON_REASONING,
    names=("granite_thinking_parser",),
    skip="\n",
    models="Granite 4.2 thinking",
    signs=(Signs(template=("<|start_of_role|>", "<think>", "enable_thinking")),),
)
SEED_REASONING = replace(
    REASONING,
    names=("seed_oss",),
    start="<seed:think>",
    end="</seed:think>",
    ends=("<seed:tool_call>",),
    boundary=("<seed:bos>", "<seed:eos>"),
    required_tokens=("<seed:think>", "</seed:think>"),
    models="Seed-OSS",
    format="<seed:think>...</seed:think>",
    signs=(Signs(template=("<seed:think>",)),),
)


def _calls(start: str, end: str, values: Values) -> ToolGrammar:
    """Calls between these two tokens. Models leave the wrapper out; prose names no real function."""
    parameters = XmlParameters(
        opening="<parameter=",
        closing="</parameter>",
        done=("</function>",),
        stops=("<function=",),
        values=values,
    )
    named = (On(">", "parameters", as_text=True),)
    again = (On("<function=", "name", as_text=True), On(start, "wrapper"), On(end, "content"))
    return ToolGrammar(
        names=(),
        content=(On(start, "wrapper"), On("<function=", "bare_name", tentative=True, as_text=True)),
        regions={
            "wrapper": Region(Text.DROP, again),
            "name": Region(Text.NAME, named, rejected="wrapper"),
            "bare_name": Region(Text.NAME, named, known_names=True),
            "parameters": Region(Text.BODY, (On(start, "wrapper"),), parameters, then="between"),
            "between": Region(Text.DROP, again),
        },
        strip=True,
        absorbs=True,
        typed=True,
        needs_special_tokens="always",
        required_tokens=(start, end),
        format="<function=NAME><parameter=KEY>VALUE</parameter></function>",
    )


TOOLS = replace(
    _calls("<tool_call>", "</tool_call>", Values("newline")),
    names=("qwen3_coder", "qwen3_xml"),
    structural_tag=QWEN_CODER_TAG,
    models="Qwen3-Coder, Qwen3-Next, Qwen3.5",
    signs=(Signs(template=("<tool_call>", "<function=", "<parameter=")),),
)
STEP_TOOLS = replace(
    TOOLS,
    names=("step3p5",),
    models="Step 3.5, Step 3.7",
    signs=(Signs(template=("<tool_call>", "<function=", "<parameter="), model_type="step3p5"),),
)
STEP5_TOOLS = replace(
    STEP_TOOLS,
    names=("step5",),
    content=tuple(replace(on, tentative=True) for on in TOOLS.content),
    strip=False,
    models="Step 5",
    signs=(Signs(template=("<tool_call>", "<function=", "<parameter="), model_type="step5"),),
)
MIMO_TOOLS = replace(
    _calls("<tool_call>", "</tool_call>", Values("none")),
    names=("mimo",),
    structural_tag=MIMO_TAG,
    models="MiMo",
    signs=(Signs(template=("<tool_call>", "<function=", "<parameter="), model_type="mimo_v2_flash"),),
)
SEED_TOOLS = replace(
    _calls("<seed:tool_call>", "</seed:tool_call>", Values("newline")),
    names=("seed_oss",),
    forced="json",
    models="Seed-OSS",
    signs=(Signs(template=("<seed:tool_call>",)),),
)
