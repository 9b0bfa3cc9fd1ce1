"""Families whose reasoning, content and calls share one framing: they write whole answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from html import escape
from typing import Any

from tests.parsers.generator.formats import Answer, Calling, Framing, Pieces, Thinking, Token
from tests.parsers.generator.words import dumps


def _unwritten(rng: random.Random, what: Any) -> Pieces:
    raise AssertionError("a framing writes whole answers")


def _framing(
    names: tuple[str, ...],
    write: Callable[[random.Random, Answer], Pieces],
    tokens: tuple[str, ...],
    *,
    near: tuple[str, ...],
    tools: tuple[str, ...] | None = None,
    begins: str = "before",
    edges: str = "kept",
    trims: bool = False,
    tag: str = "",
    **calling: Any,
) -> Framing:
    return Framing(
        names,
        write,
        Thinking(names, _unwritten, tokens, begins=begins, near=near, edges=edges, trims=trims, tag=tag),
        Calling(tools or names, _unwritten, tokens, near=near, trims=trims, tag=tag, **calling),
    )


# Harmony

_HARMONY = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>")


def _harmony(rng: random.Random, answer: Answer) -> Pieces:
    channel, message = Token("<|channel|>"), Token("<|message|>")
    messages: list[Pieces] = []
    if answer.reasoning is not None:
        messages.append([channel, "analysis", message, answer.reasoning, Token("<|end|>")])
    if answer.content:
        name = "commentary" if answer.calls else "final"
        messages.append([channel, name, message, answer.content, Token("<|end|>")])
    for call in answer.calls:
        body = [message, dumps(rng, call.arguments), Token("<|call|>")]
        if rng.random() < 0.7:
            kind = [" ", Token("<|constrain|>"), "json"] if rng.random() < 0.7 else []
            messages.append([channel, f"commentary to=functions.{call.name}", *kind, *body])
        else:
            messages.append([f" to=functions.{call.name}", channel, "commentary json", *body])
    pieces: Pieces = []
    for number, written in enumerate(messages):
        pieces += [Token("<|start|>"), "assistant"] if number else []
        pieces += written
    if pieces and rng.random() < 0.6:
        pieces.pop()  # the last terminator is a stop token
    return pieces


# Kimi K3

_OPEN, _CLOSE, _SEP = Token("<|open|>"), Token("<|close|>"), Token("<|sep|>")
_K3_TYPES = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}


def _opened(word: str) -> Pieces:
    return [_OPEN, word, _SEP]


def _closed(word: str) -> Pieces:
    return [_CLOSE, word, _SEP]


def _kimi_k3(rng: random.Random, answer: Answer) -> Pieces:
    pieces: Pieces = _opened("think") if rng.random() < 0.5 else []
    pieces += [answer.reasoning] if answer.reasoning else []
    pieces += _closed("think")
    if answer.content or rng.random() < 0.5:
        pieces += [*_opened("response"), *([answer.content] if answer.content else []), *_closed("response")]
    if answer.calls:
        pieces += _opened("tools")
        for number, call in enumerate(answer.calls):
            pieces += _opened(f'call tool="{call.name}" index="{number + 1}"')
            for key, value in call.arguments.items():
                kind = _K3_TYPES.get(type(value), "null")
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                pieces += _opened(f'argument key="{escape(key)}" type="{kind}"')
                pieces += [*([text] if text else []), *_closed("argument")]
            pieces += _closed("call")
        pieces += _closed("tools")
    if rng.random() < 0.7:
        pieces += _closed("message")
    return pieces


# Inkling

_INKLING = (
    "<|message_model|>",
    "<|content_thinking|>",
    "<|content_text|>",
    "<|content_invoke_tool_json|>",
    "<|end_message|>",
    "<|content_model_end_sampling|>",
)


def _inkling(rng: random.Random, answer: Answer) -> Pieces:
    blocks: list[Pieces] = []
    if answer.reasoning is not None:
        blocks.append([Token("<|content_thinking|>"), answer.reasoning])
    if answer.content:
        blocks.append([Token("<|content_text|>"), answer.content])
    for call in answer.calls:
        body = dumps(rng, {"name": call.name, "args": call.arguments})
        named = [call.name] if rng.random() < 0.5 else []
        blocks.append([*named, Token("<|content_invoke_tool_json|>"), body])
    if answer.after:
        blocks.append([Token("<|content_text|>"), answer.after])
    pieces: Pieces = []
    for number, block in enumerate(blocks):
        pieces += [Token("<|message_model|>")] if number or rng.random() < 0.3 else []
        pieces += [*block, Token("<|end_message|>")]
    return [*pieces, Token("<|content_model_end_sampling|>")]


# Muse


def _muse(rng: random.Random, answer: Answer) -> Pieces:
    messages: list[tuple[str, str, str]] = []
    if answer.reasoning is not None:
        messages.append(("self", answer.reasoning, "<|eom|>"))
    if answer.content:
        messages.append(("user", answer.content, "<|eom|>" if answer.calls else "<|eot|>"))
    for call in answer.calls:
        values = "".join(
            f'<atem:parameter name="{key}">{v if isinstance(v, str) else json.dumps(v)}</atem:parameter>'
            for key, v in call.arguments.items()
        )
        invoke = f'<atem:invoke name="{call.name}">{values}</atem:invoke>'
        messages.append((call.name, invoke, "<|eot|>"))
    pieces: Pieces = []
    for number, (recipient, body, end) in enumerate(messages):
        pieces += [Token("<|start|>"), "assistant"] if number else []
        pieces += [f" to={recipient}", Token("<|message|>"), body, Token(end)]
    return pieces


# Cohere Command


def _cohere(words: tuple[str, str]) -> Callable[[random.Random, Answer], Pieces]:
    def write(rng: random.Random, answer: Answer) -> Pieces:
        pieces: Pieces = []
        if answer.reasoning is not None:
            pieces += [Token("<|START_THINKING|>"), answer.reasoning, Token("<|END_THINKING|>")]
        if answer.calls:
            listed = [
                {"tool_call_id": str(number), "tool_name": call.name, "parameters": call.arguments}
                for number, call in enumerate(answer.calls)
            ]
            pieces += [Token("<|START_ACTION|>"), dumps(rng, listed), Token("<|END_ACTION|>")]
        elif answer.content:
            pieces += [Token(words[0]), answer.content, Token(words[1])]
        return pieces

    return write


_COHERE = ("<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>")
_RESPONSE = ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
_TEXT = ("<|START_TEXT|>", "<|END_TEXT|>")
_MUSE = ("<|start|>", "<|message|>", "<|eom|>", "<|eot|>")

FRAMED = (
    _framing(
        ("openai_gptoss",),
        _harmony,
        _HARMONY,
        near=("<|chan", "to=functions.ping", "analysis"),
        tools=("openai",),
        tag=r"(?:^|<\|(?:start|end|call|return|channel)\|>).*?(?:<\|message\|>|$)",
        after="never",
    ),
    _framing(
        ("kimi_k3",),
        _kimi_k3,
        ("<|open|>", "<|close|>", "<|sep|>"),
        near=("<|op", "think", "<|close"),
        tag=r"<\|(?:open|close)\|>.*?(?:<\|sep\|>|$)",
        begins="inside",
        after="never",
        edges="none",
    ),
    _framing(
        ("inkling",),
        _inkling,
        _INKLING,
        near=("<|content", "<|end_"),
        after="content",
        edges="dropped",
        tag=r"(?:^|<\|message_model\|>).*?(?:<\|content|$)",
    ),
    _framing(
        ("muse", "muse_glimmer", "musespark1x"),
        _muse,
        _MUSE,
        near=("<atem:", " to=user", "<|eo"),
        avoid=("atem:",),
        tag=r"<atem:[^>]*(?:>|$)|\bto=[^\s<]*(?=\s*<\|message\|>)",
        text_only=True,
        after="never",
        edges="none",
    ),
    _framing(
        ("cohere_command3",),
        _cohere(_RESPONSE),
        (*_COHERE, *_RESPONSE),
        near=("<|START", "<|END_"),
        before=False,
        after="never",
        edges="none",
        trims=True,
    ),
    _framing(
        ("cohere_command4",),
        _cohere(_TEXT),
        (*_COHERE, *_TEXT),
        near=("<|START", "<|END_"),
        before=False,
        after="never",
        edges="none",
        trims=True,
    ),
)
