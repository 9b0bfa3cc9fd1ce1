"""DeepSeek R1, V3 and V3.1: `<think>` reasoning read by token id, as others have it too, and calls in a
section of marker tokens.
"""

from dataclasses import replace

from parsers.bodies.raw_json import RawJson
from parsers.grammar import (
    On,
    ReasoningGrammar,
    Region,
    Signs,
    Text,
    ToolGrammar,
    always_open,
    off_unless_enabled,
    open_unless_both_off,
)
from parsers.tags import DEEPSEEK_V3_TAG, DEEPSEEK_V31_TAG

R1 = ReasoningGrammar(
    names=("deepseek_r1",),
    start="<think>",
    end="</think>",
    initial=always_open,
    empty="section",
    counted="marked",
    end_counts=True,
    required_tokens=("<think>", "</think>"),
    models="DeepSeek R1",
    format="<think>...</think>",
    signs=(Signs(template=("<｜Assistant｜>", "</think>"), lacks=("thinking = false",)),),
)

V3 = replace(
    R1,
    names=("deepseek_v3",),
    initial=off_unless_enabled,
    models="DeepSeek V3.1, V3.2",
    signs=(Signs(template=("<｜Assistant｜>", "</think>", "thinking = false")),),
)

STEP5 = replace(
    R1, names=("step5",), models="Step 5", signs=(Signs(template=("<think>",), model_type="step5"),)
)
HOLO2 = replace(
    R1,
    names=("holo2",),
    initial=open_unless_both_off,
    told={"thinking": True, "enable_thinking": True},
    models="Holo2",
    signs=tuple(
        Signs(template=("<|im_start|>", "<think>", "thinking"), lacks=("enable_thinking",), model_type=base)
        for base in ("qwen3_vl", "qwen3_vl_moe")
    ),
)
POOLSIDE = replace(
    R1,
    names=("poolside_v1",),
    initial=off_unless_enabled,
    boundary=("<assistant>",),
    required_tokens=("<think>", "</think>", "<assistant>"),
    models="Laguna",
    signs=(Signs(template=("<assistant>", "<think>"), model_type="laguna"),),
)

_CALLS, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _CALL_END, _SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_LEAVE = (On(_CALL_END, "section"), On(_CALLS_END, "content"))

V3_TOOLS = ToolGrammar(
    names=("deepseek_v3",),
    content=(On(_CALLS, "section"),),
    regions={
        "section": Region(Text.CONTENT, (On(_CALL, "type"), *_LEAVE)),
        "type": Region(Text.DROP, (On("function", "type", as_text=True), On(_SEP, "name"), *_LEAVE)),
        "name": Region(Text.NAME, (On("\n", "arguments", as_text=True),), rejected="section"),
        "arguments": Region(Text.BODY, (On(_CALL, "type"), *_LEAVE), RawJson(opening="```json", fence="```")),
    },
    required_tokens=(_CALLS, _CALLS_END, _CALL, _CALL_END),
    structural_tag=DEEPSEEK_V3_TAG,
    models="DeepSeek V3, R1",
    format="<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME ```json {...}```",
    signs=(Signs(template=(_CALLS, _SEP, "```json")),),
)

V31_TOOLS = ToolGrammar(
    names=("deepseek_v31",),
    content=(On(_CALLS, "section"),),
    regions={
        "section": Region(Text.CONTENT, (On(_CALL, "name"), *_LEAVE)),
        "name": Region(Text.NAME, (On(_SEP, "arguments"),), rejected="section"),
        "arguments": Region(Text.BODY, (On(_CALL, "name"), *_LEAVE), RawJson()),
    },
    required_tokens=(_CALLS, _CALLS_END, _CALL, _CALL_END),
    structural_tag=DEEPSEEK_V31_TAG,
    models="DeepSeek V3.1",
    format="<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}",
    signs=(Signs(template=(_CALLS, _SEP), lacks=("```json",)),),
)
