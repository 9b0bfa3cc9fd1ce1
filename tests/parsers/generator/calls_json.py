"""Families whose calls are JSON objects."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.parsers.generator.formats import Call, Calling, Pieces, Token, tokenised
from tests.parsers.generator.words import dumps


def _object(rng: random.Random, call: Call, key: str = "arguments", fixed: bool = False) -> str:
    """`{"name": ..., "arguments": ...}` in the usual order, or sometimes the other one."""
    pair: dict[str, Any] = {"name": call.name, key: call.arguments}
    if not fixed and rng.random() < 0.15:
        pair = dict(reversed(pair.items()))
    return dumps(rng, pair)


def hermes_blocks(
    start: str, end: str, between: Sequence[str], inside: tuple[str, ...] = (), fixed: bool = False
) -> Callable[[random.Random, list[Call]], Pieces]:
    """`start` object `end` for each call."""

    def write(rng: random.Random, calls: list[Call]) -> Pieces:
        pieces: Pieces = []
        for number, call in enumerate(calls):
            pieces += [rng.choice(between)] if number else []
            line = rng.choice(("\n", "\n", "", " "))
            pieces += [
                Token(start),
                line,
                *tokenised(_object(rng, call, fixed=fixed), inside),
                line,
                Token(end),
            ]
        return pieces

    return write


def _array(
    start: Pieces, end: Pieces, key: str = "arguments", fixed: bool = True
) -> Callable[[random.Random, list[Call]], Pieces]:
    """One array of objects."""

    def write(rng: random.Random, calls: list[Call]) -> Pieces:
        if not calls:
            return []
        listed = ", ".join(_object(rng, call, key, fixed) for call in calls)
        return [*start, f"[{listed}]", *end]

    return write


def _deepseek(rng: random.Random, calls: list[Call], *, fenced: bool) -> Pieces:
    if not calls:
        return []
    pieces: Pieces = [Token("<｜tool▁calls▁begin｜>")]
    for number, call in enumerate(calls):
        body = dumps(rng, call.arguments)
        pieces += ["\n"] if number and rng.random() < 0.5 else []
        pieces.append(Token("<｜tool▁call▁begin｜>"))
        if fenced:
            pieces += ["function", Token("<｜tool▁sep｜>"), f"{call.name}\n```json\n{body}\n```"]
        else:
            pieces += [call.name, Token("<｜tool▁sep｜>"), body]
        pieces.append(Token("<｜tool▁call▁end｜>"))
    return [*pieces, Token("<｜tool▁calls▁end｜>")]


def _llama(rng: random.Random, calls: list[Call]) -> Pieces:
    if not calls:
        return []
    key = rng.choice(("parameters", "arguments"))
    first: Pieces = [Token("<|python_tag|>")] if rng.random() < 0.5 else []
    return [*first, "; ".join(_object(rng, call, key) for call in calls)]


def _mistral(rng: random.Random, calls: list[Call]) -> Pieces:
    pieces: Pieces = []
    for call in calls:
        marked: Pieces = [Token("[ARGS]")] if rng.random() < 0.7 else []
        pieces += [Token("[TOOL_CALLS]"), call.name, *marked, dumps(rng, call.arguments)]
    return pieces


def _mistral_array(rng: random.Random, calls: list[Call]) -> Pieces:
    space = rng.choice(("", " "))
    return _array([Token("[TOOL_CALLS]"), space], [])(rng, calls)


def _kimi_k2(rng: random.Random, calls: list[Call]) -> Pieces:
    if not calls:
        return []
    pieces: Pieces = [Token("<|tool_calls_section_begin|>")]
    for number, call in enumerate(calls):
        call.id = f"functions.{call.name}:{number}"
        pieces += [
            Token("<|tool_call_begin|>"),
            call.id,
            Token("<|tool_call_argument_begin|>"),
            dumps(rng, call.arguments),
            Token("<|tool_call_end|>"),
        ]
    return [*pieces, Token("<|tool_calls_section_end|>")]


def _granite(rng: random.Random, calls: list[Call]) -> Pieces:
    start = rng.choice((Token("<|tool_call|>"), "<tool_call>"))
    return _array([start], [])(rng, calls)


def _granite4(rng: random.Random, calls: list[Call]) -> Pieces:
    pieces: Pieces = []
    for call in calls:
        written: Any = call.arguments
        if rng.random() < 0.2:
            written = json.dumps(written)
        body = dumps(rng, {"name": call.name, "arguments": written})
        line = rng.choice(("\n", ""))
        pieces += [Token("<tool_call>"), line + body + line, Token("</tool_call>")]
    return pieces


def _granite_20b(rng: random.Random, calls: list[Call]) -> Pieces:
    return ["".join(f"<function_call> {_object(rng, call, fixed=True)}" for call in calls)]


def _internlm(rng: random.Random, calls: list[Call]) -> Pieces:
    pieces: Pieces = []
    for call in calls:
        body = _object(rng, call, rng.choice(("parameters", "arguments")), fixed=True)
        pieces += [Token("<|action_start|>"), Token("<|plugin|>"), "\n", body, Token("<|action_end|>"), "\n"]
    return pieces


def _gigachat3(rng: random.Random, calls: list[Call]) -> Pieces:
    return [piece for call in calls for piece in (Token("<|function_call|>"), _object(rng, call, fixed=True))]


def _xlam(rng: random.Random, calls: list[Call]) -> Pieces:
    start, end = rng.choice(
        (("", ""), ("```json\n", "\n```"), ("[TOOL_CALLS]", ""), ("<tool_call>", "</tool_call>"))
    )
    return _array([start], [end])(rng, calls)


def _apertus(rng: random.Random, calls: list[Call]) -> Pieces:
    if not calls:
        return []
    listed = ", ".join(dumps(rng, {call.name: call.arguments}) for call in calls)
    return [Token("<|tools_prefix|>"), f"[{listed}]", Token("<|tools_suffix|>")]


_PLAMO = "<|plamo:{}:plamo|>"


def _plamo3(rng: random.Random, calls: list[Call]) -> Pieces:
    if not calls:
        return []
    parts = [_PLAMO.format("begin_tool_requests")]
    for call in calls:
        name = [_PLAMO.format("begin_tool_name"), call.name, _PLAMO.format("end_tool_name")]
        body = ["<|plamo:constrain|>json<|plamo:msg|>", dumps(rng, call.arguments)]
        arguments = [_PLAMO.format("begin_tool_arguments"), *body, _PLAMO.format("end_tool_arguments")]
        request = [_PLAMO.format("begin_tool_request"), *name, *arguments, _PLAMO.format("end_tool_request")]
        parts.append("".join(request))
    return ["".join([*parts, _PLAMO.format("end_tool_requests")])]


_TOOL_CALL = ("<tool_call>", "</tool_call>")
_NEAR = ("<tool", "<tool_cal", "{", "}", "</tool_", "[", "]")
_SECTION = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
)
_K2 = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)


JSON_CALLS = (
    Calling(
        ("hermes", "qwen3_json"),
        hermes_blocks(*_TOOL_CALL, ("\n", "", "\n\n"), inside=_TOOL_CALL[1:]),
        tokens=_TOOL_CALL,
        near=_NEAR,
        inside=_TOOL_CALL[1:],
    ),
    Calling(
        ("longcat",),
        hermes_blocks("<longcat_tool_call>", "</longcat_tool_call>", ("\n", "")),
        tokens=("<longcat_tool_call>", "</longcat_tool_call>"),
        near=("<longcat", "<tool_call", "{"),
    ),
    Calling(
        ("deepseek_v3",),
        lambda rng, calls: _deepseek(rng, calls, fenced=True),
        tokens=_SECTION,
        after="content",
        near=("<｜tool", "```json", "<｜"),
    ),
    Calling(
        ("deepseek_v31",),
        lambda rng, calls: _deepseek(rng, calls, fenced=False),
        tokens=_SECTION,
        after="either",
        near=("<｜tool", "<｜", "{"),
    ),
    Calling(
        ("llama3_json", "llama4_json"),
        _llama,
        tokens=("<|python_tag|>",),
        before=False,
        after="never",
        near=("<|python", "{", '{"name": ', ";"),
    ),
    Calling(
        ("mistral",),
        _mistral,
        tokens=("[TOOL_CALLS]", "[ARGS]"),
        strips=True,
        after="either",
        near=("[TOOL", "[", "{"),
    ),
    Calling(
        ("mistral",),
        _mistral_array,
        tokens=("[TOOL_CALLS]",),
        after="either",
        near=("[TOOL", "[", "{"),
        facts={"without": ("[ARGS]",)},
    ),
    Calling(("kimi_k2",), _kimi_k2, tokens=_K2, near=("<|tool_calls", "<|", "functions.x:0")),
    Calling(
        ("granite",),
        _granite,
        tokens=("<|tool_call|>",),
        strips=True,
        after="either",
        near=("<|tool", "<tool_", "["),
        prose=("<tool_call>",),
    ),
    Calling(("granite4",), _granite4, tokens=_TOOL_CALL, after="content", near=_NEAR),
    Calling(("granite-20b-fc",), _granite_20b, near=("<function_", "<func", "{"), prose=("<function_call>",)),
    Calling(
        ("phi4_mini_json",),
        _array(["functools"], []),
        before=False,
        after="either",
        near=("functools", "func", "["),
        prose=("functools[",),
    ),
    Calling(
        ("hunyuan_a13b", "jamba"),
        _array([Token("<tool_calls>")], [Token("</tool_calls>")]),
        tokens=("<tool_calls>", "</tool_calls>"),
        after="either",
        near=("<tool_", "[", "</tool_calls"),
    ),
    Calling(
        ("ernie45",),
        hermes_blocks(*_TOOL_CALL, ("\n", ""), fixed=True),
        tokens=_TOOL_CALL,
        strips=True,
        near=_NEAR,
    ),
    Calling(
        ("internlm",),
        _internlm,
        tokens=("<|action_start|>", "<|plugin|>", "<|action_end|>"),
        after="either",
        most=1,
        near=("<|action", "<|", "{"),
    ),
    Calling(
        ("gigachat3",),
        _gigachat3,
        tokens=("<|function_call|>",),
        after="either",
        most=1,
        near=("<|function", "function call", "{"),
    ),
    Calling(
        ("xlam",),
        _xlam,
        before=False,
        after="either",
        near=("```json", "<tool_call", "[TOOL_CALL", "[", '[{"name"'),
        prose=("<tool_call>", "[TOOL_CALLS]"),
    ),
    Calling(
        ("apertus",),
        _apertus,
        tokens=("<|tools_prefix|>", "<|tools_suffix|>"),
        after="either",
        near=("<|tools", "[", "{"),
    ),
    Calling(
        ("plamo3",),
        _plamo3,
        after="content",
        near=("<|plamo:", "<|plamo:begin_tool_req", "<|"),
        prose=("<|plamo:begin_tool_requests",),
    ),
)
