"""Gemma 4 and FunctionGemma: calls of the form `call:name{key:value}`."""

from __future__ import annotations

from parsers.bodies.gemma import GemmaArguments
from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, ToolGrammar, always_closed

_CALL, _CALL_END = "<|tool_call>", "<tool_call|>"
_LABEL = On("thought\n", "reasoning", as_text=True)

REASONING = ReasoningGrammar(
    names=("gemma4",),
    start="<|channel>",
    end="<channel|>",
    initial=always_closed,
    ends=(_CALL,),
    content=(On("<|channel>", "label"),),
    regions={
        "outset": Region(
            Text.CONTENT,
            (
                On("<|channel>", "label"),
                On("<channel|>", "outset"),
                _LABEL,  # the template may have written the opener
                On(_CALL, "content", keep=True),
            ),
        ),
        "label": Region(
            Text.REASONING,
            (_LABEL, On("<channel|>", "content"), On(_CALL, "content", keep=True)),
            on_text="reasoning",
            counts=True,
        ),
    },
    begin="outset",
    boundary=("<|turn>", "<|tool_response>"),
    absorbs=True,
    strip=True,
    unknown_is_over=lambda kwargs: not kwargs.get("enable_thinking"),
    required_tokens=("<|channel>", "<channel|>"),
    models="Gemma 4",
    format="<|channel>thought ... <channel|>",
    signs=(Signs(template=("<|turn>",), tokens=("<|channel>", "<channel|>")),),
)

TOOLS = ToolGrammar(
    names=("gemma4",),
    content=(On(_CALL, "head"),),
    regions={
        "head": Region(
            Text.DROP,
            (
                On("call:", "name", as_text=True),
                On(":", "name", as_text=True),
                On(_CALL_END, "content"),
            ),
        ),
        "name": Region(
            Text.NAME,
            (
                On("{", "arguments", keep=True, as_text=True),
                On("(", "arguments", keep=True, as_text=True),
                On(_CALL_END, "arguments", keep=True),
            ),
        ),
        "arguments": Region(
            Text.BODY, (On(_CALL_END, "content"),), GemmaArguments('<|"|>', _CALL_END), then="closing"
        ),
        "closing": Region(Text.DROP, (On(_CALL_END, "content", as_text=True), On(_CALL, "head"))),
    },
    strip=True,
    absorbs=True,
    typed=True,
    forced="markup",
    needs_special_tokens="always",
    required_tokens=(_CALL, _CALL_END),
    models="Gemma 4",
    format='<|tool_call>call:name{key:<|"|>text<|"|>,other:3}<tool_call|>',
    signs=(Signs(template=("<|turn>",), tokens=(_CALL, _CALL_END)),),
)

_FUNCTION, _FUNCTION_END = "<start_function_call>", "<end_function_call>"

FUNCTION_TOOLS = ToolGrammar(
    names=("functiongemma",),
    content=(On(_FUNCTION, "head", tentative=True),),
    regions={
        "head": Region(Text.DROP, (On("call:", "name", as_text=True), On(_FUNCTION_END, "content"))),
        "name": Region(
            Text.NAME,
            (On("{", "arguments", keep=True, as_text=True), On(_FUNCTION_END, "arguments", keep=True)),
        ),
        "arguments": Region(
            Text.BODY,
            (On(_FUNCTION_END, "content"),),
            GemmaArguments("<escape>", _FUNCTION_END, json=True),
            then="closing",
        ),
        "closing": Region(
            Text.DROP,
            (On(_FUNCTION_END, "content", as_text=True), On(_FUNCTION, "head", tentative=True)),
        ),
    },
    typed=True,
    forced="json",
    needs_special_tokens="with tools",
    models="FunctionGemma",
    format="<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>",
    signs=(Signs(template=("<start_function_call>",)),),
)
