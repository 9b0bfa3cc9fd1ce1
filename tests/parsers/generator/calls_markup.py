"""Families whose calls are written parameter by parameter."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

from tests.parsers.generator.formats import Call, Calling, Pieces, Token


def _plain(value: Any) -> str:
    """A value outside JSON's quotes, as chat templates write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(rng: random.Random) -> str:
    return rng.choice(("\n", "\n", ""))


def qwen_blocks(
    start: str, end: str, verbatim: bool = False, lines_between: bool = True
) -> Callable[[random.Random, list[Call]], Pieces]:
    def write(rng: random.Random, calls: list[Call]) -> Pieces:
        pieces: Pieces = []
        for number, call in enumerate(calls):
            pieces += [_line(rng)] if number and lines_between else []
            lines = [f"\n<function={call.name}>\n"]
            for key, value in call.arguments.items():
                edge = "" if verbatim else "\n"
                close = rng.choice(("</parameter>\n", "</parameter>"))
                lines.append(f"<parameter={key}>{edge}{_plain(value)}{edge}{close}")
            pieces += [Token(start), "".join(lines) + "</function>" + _line(rng), Token(end)]
        return pieces

    return write


def _dsml(word: str, space: str = "") -> Callable[[random.Random, list[Call]], Pieces]:
    def write(rng: random.Random, calls: list[Call]) -> Pieces:
        if not calls:
            return []
        bar = "｜DSML｜" + space
        lines = [f"<{bar}{word}>"]
        for call in calls:
            lines.append(f'<{bar}invoke name="{call.name}">')
            for key, value in call.arguments.items():
                string = "true" if isinstance(value, str) else "false"
                opening = f'<{bar}parameter name="{key}" string="{string}">'
                lines.append(f"{opening}{_plain(value)}</{bar}parameter>")
            lines.append(f"</{bar}invoke>")
        return [_line(rng).join([*lines, f"</{bar}{word}>"])]

    return write


def _invokes(start: str, end: str, token: bool = True) -> Callable[[random.Random, list[Call]], Pieces]:
    """MiniMax M2's and Dots' blocks: all calls in one wrapper."""

    def write(rng: random.Random, calls: list[Call]) -> Pieces:
        if not calls:
            return []
        lines = [""]
        for call in calls:
            lines.append(f'<invoke name="{call.name}">')
            lines += [f'<parameter name="{k}">{_plain(v)}</parameter>' for k, v in call.arguments.items()]
            lines.append("</invoke>")
        body = _line(rng).join([*lines, ""])
        return [Token(start), body, Token(end)] if token else [start + body + end]

    return write


def _glm(
    start: str = "<tool_call>",
    end: str = "</tool_call>",
    words: tuple[str, str] = ("arg_key", "arg_value"),
    around: tuple[str, str] | None = None,
    separator: str = "",
) -> Callable[[random.Random, list[Call]], Pieces]:
    """NAME, then pairs of key and value."""

    def write(rng: random.Random, calls: list[Call]) -> Pieces:
        key_word, value_word = words
        pieces: Pieces = []
        for number, call in enumerate(calls):
            line = _line(rng)
            pairs = [
                f"<{key_word}>{key}</{key_word}>{line}<{value_word}>{_plain(value)}</{value_word}>{line}"
                for key, value in call.arguments.items()
            ]
            mark: Pieces = [Token(separator)] if separator else []
            pieces += [_line(rng)] if number and not around else []
            pieces += [Token(start), call.name, *mark, line + "".join(pairs), Token(end)]
        return [Token(around[0]), *pieces, Token(around[1])] if around and calls else pieces

    return write


def _step3(rng: random.Random, calls: list[Call]) -> Pieces:
    if not calls:
        return []
    pieces: Pieces = [Token("<｜tool_calls_begin｜>")]
    for call in calls:
        values = "".join(
            f'<steptml:parameter name="{key}">{_plain(value)}</steptml:parameter>'
            for key, value in call.arguments.items()
        )
        invoke = f'<steptml:invoke name="{call.name}">{values}</steptml:invoke>'
        pieces += [Token("<｜tool_call_begin｜>"), "function", Token("<｜tool_sep｜>"), invoke]
        pieces.append(Token("<｜tool_call_end｜>"))
    return [*pieces, Token("<｜tool_calls_end｜>")]


_M3 = "]<]minimax[>["


def _m3_value(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"{_M3}<{key}>{_m3_value(inner)}{_M3}</{key}>" for key, inner in value.items())
    if isinstance(value, list):
        return "".join(f"{_M3}<item>{_m3_value(inner)}{_M3}</item>" for inner in value)
    return _plain(value)


def _minimax_m3(rng: random.Random, calls: list[Call]) -> Pieces:
    if not calls:
        return []
    line = _line(rng)
    parts = [f"{_M3}<tool_call>{line}"]
    for call in calls:
        parts.append(
            f'{_M3}<invoke name="{call.name}">{line}{_m3_value(call.arguments)}{line}{_M3}</invoke>{line}'
        )
    return ["".join([*parts, f"{_M3}</tool_call>"])]


def _gemma_value(value: Any) -> Pieces:
    if isinstance(value, str):
        return [Token('<|"|>'), value, Token('<|"|>')]
    if isinstance(value, dict):
        return ["{", *_gemma_pairs(value), "}"]
    if isinstance(value, list):
        return ["[", *[p for n, v in enumerate(value) for p in (([","] if n else []) + _gemma_value(v))], "]"]
    return [json.dumps(value)]


def _gemma_pairs(values: dict[str, Any]) -> Pieces:
    pieces: Pieces = []
    for number, (key, value) in enumerate(values.items()):
        pieces += [("," if number else "") + f"{key}:", *_gemma_value(value)]
    return pieces


def _gemma4(rng: random.Random, calls: list[Call]) -> Pieces:
    pieces: Pieces = []
    for call in calls:
        body = _gemma_pairs(call.arguments)
        pieces += [Token("<|tool_call>"), f"call:{call.name}{{", *body, "}", Token("<tool_call|>")]
    return [piece for piece in pieces if piece]


def _functiongemma(rng: random.Random, calls: list[Call]) -> Pieces:
    pieces: Pieces = []
    for call in calls:
        pieces += [Token("<start_function_call>"), f"call:{call.name}{{"]
        for number, (key, value) in enumerate(call.arguments.items()):
            pieces += [
                ("," if number else "") + f"{key}:",
                Token("<escape>"),
                _plain(value),
                Token("<escape>"),
            ]
        pieces += ["}", Token("<end_function_call>")]
    return [piece for piece in pieces if piece]


def _escaped(text: str, rng: random.Random) -> str:
    """Text as XML has it."""
    return f"<![CDATA[{text}]]>" if "]]>" not in text and rng.random() < 0.3 else escape(text)


def _minicpm5(rng: random.Random, calls: list[Call]) -> Pieces:
    parts = []
    for call in calls:
        values = "".join(
            f'<param name="{key}">{_escaped(_plain(value), rng)}</param>'
            for key, value in call.arguments.items()
        )
        parts.append(f'<function name="{call.name}">{values}</function>')
    return [_line(rng).join(parts)]


def _python(value: Any, rng: random.Random) -> str:
    """A Python literal; sometimes with JSON's words."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_python(inner, rng)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_python(inner, rng) for inner in value) + "]"
    if isinstance(value, str) and rng.random() < 0.4:
        return json.dumps(value)
    return repr(value)


def _python_call(call: Call, rng: random.Random) -> str:
    values = ", ".join(f"{key}={_python(value, rng)}" for key, value in call.arguments.items())
    return f"{call.name}({values})"


def _python_list(start: str = "", end: str = "") -> Callable[[random.Random, list[Call]], Pieces]:
    def write(rng: random.Random, calls: list[Call]) -> Pieces:
        if not calls:
            return []
        listed = "[" + ", ".join(_python_call(call, rng) for call in calls) + "]"
        return [Token(start), listed, Token(end)] if start else [listed]

    return write


def _llama4(rng: random.Random, calls: list[Call]) -> Pieces:
    marked = rng.random() < 0.5
    return _python_list(*(("<|python_start|>", "<|python_end|>") if marked else ()))(rng, calls)


def _olmo3(rng: random.Random, calls: list[Call]) -> Pieces:
    if not calls:
        return []
    return ["<function_calls>" + "\n".join(_python_call(call, rng) for call in calls) + "</function_calls>"]


_TOOL_CALL = ("<tool_call>", "</tool_call>")
_QWEN_AVOID = ("</parameter", "<parameter", "</function", "<function")
_QWEN_NEAR = ("<function", "<func", "</fun", "<parameter", "<tool_cal", ">", "<b>", "{")
_GLM_NEAR = ("<arg_key>", "<tool_cal", "</arg_value", "<arg", "get_weather")
_DSML_TAG = r"<｜DSML｜[^>]*(?:>|$)"
_DSML_NEAR = ("<｜DSML", "<｜", "｜DSML｜", "</｜DSML｜", "<invoke")
_PYTHON_NEAR = ("[", "ping", "(", "]", "[ping", "=", "ping()")


def _without(*words: str) -> Callable[[str], str]:
    def clean(text: str) -> str:
        for word in words:
            text = text.replace(word, "")
        return text.strip()

    return clean


MARKUP_CALLS = (
    Calling(
        ("qwen3_coder", "qwen3_xml", "step3p5"),
        qwen_blocks(*_TOOL_CALL),
        tokens=_TOOL_CALL,
        avoid=_QWEN_AVOID,
        strips=True,
        after="content",
        near=_QWEN_NEAR,
    ),
    Calling(
        ("step5",),
        qwen_blocks(*_TOOL_CALL),
        tokens=_TOOL_CALL,
        avoid=_QWEN_AVOID,
        after="content",
        near=_QWEN_NEAR,
    ),
    Calling(
        ("mimo",),
        qwen_blocks(*_TOOL_CALL, verbatim=True),
        tokens=_TOOL_CALL,
        avoid=_QWEN_AVOID,
        strips=True,
        after="content",
        near=_QWEN_NEAR,
    ),
    Calling(
        ("seed_oss",),
        qwen_blocks("<seed:tool_call>", "</seed:tool_call>"),
        tokens=("<seed:tool_call>", "</seed:tool_call>"),
        avoid=_QWEN_AVOID,
        strips=True,
        after="content",
        near=_QWEN_NEAR,
    ),
    Calling(("deepseek_v32",), _dsml("function_calls"), avoid=("DSML",), near=_DSML_NEAR, tag=_DSML_TAG),
    Calling(("deepseek_v4",), _dsml("tool_calls"), avoid=("DSML",), near=_DSML_NEAR, tag=_DSML_TAG),
    Calling(("deepseek_v41",), _dsml("calls", " "), avoid=("DSML",), near=_DSML_NEAR, tag=_DSML_TAG),
    Calling(
        ("minimax_m2",),
        _invokes("<minimax:tool_call>", "</minimax:tool_call>"),
        tokens=("<minimax:tool_call>", "</minimax:tool_call>"),
        avoid=("parameter", "invoke"),
        strips=True,
        after="content",
        near=("<invoke", "<minimax:", "<parameter", "</inv"),
        tag=r"<(?:parameter|invoke)[^>]*(?:>|$)",
    ),
    Calling(
        ("minimax_m3",),
        _minimax_m3,
        avoid=("minimax", "]<]"),
        text_only=True,
        near=("]<]", "]<]minimax[>[", "<invoke", "]"),
        tag=r"\]<\]minimax\[>\[<[^>]*(?:>|$)",
        prose=("<tool_call>",),
    ),
    Calling(
        ("glm45", "glm47", "ling3"),
        _glm(),
        tokens=_TOOL_CALL,
        avoid=("arg_",),
        strips=True,
        after="content",
        near=_GLM_NEAR,
    ),
    Calling(
        ("poolside_v1",),
        _glm(),
        tokens=_TOOL_CALL,
        avoid=("arg_",),
        text_only=True,
        after="either",
        near=_GLM_NEAR,
    ),
    Calling(
        ("hy_v3",),
        _glm(around=("<tool_calls>", "</tool_calls>"), separator="<tool_sep>"),
        tokens=(*_TOOL_CALL, "<tool_calls>", "</tool_calls>", "<tool_sep>"),
        avoid=("arg_",),
        after="either",
        near=_GLM_NEAR,
    ),
    Calling(
        ("hy_v4",),
        _glm(around=("<tool_calls>", "</tool_calls>")),
        tokens=(*_TOOL_CALL, "<tool_calls>", "</tool_calls>"),
        avoid=("arg_",),
        after="either",
        near=_GLM_NEAR,
    ),
    Calling(
        ("k2_horizon",),
        _glm(
            "<ifm|tool_call>",
            "</ifm|tool_call>",
            ("ifm|arg_key", "ifm|arg_value"),
            ("<ifm|tool_calls>", "</ifm|tool_calls>"),
        ),
        tokens=("<ifm|tool_call>", "</ifm|tool_call>", "<ifm|tool_calls>", "</ifm|tool_calls>"),
        avoid=("arg_",),
        after="either",
        near=("<ifm|", "</ifm|tool", "<ifm|arg_key>"),
    ),
    Calling(
        ("dots",),
        _invokes("<dots_function_call>", "</dots_function_call>", token=False),
        avoid=("parameter", "invoke", "dots_"),
        after="either",
        near=("<dots_", "<invoke", "</dots_function"),
        tag=r"<(?:parameter|invoke)[^>]*(?:>|$)",
        prose=("<dots_function_call>",),
    ),
    Calling(
        ("step3",),
        _step3,
        tokens=(
            "<｜tool_calls_begin｜>",
            "<｜tool_call_begin｜>",
            "<｜tool_sep｜>",
            "<｜tool_call_end｜>",
            "<｜tool_calls_end｜>",
        ),
        values=_without("<"),
        after="either",
        near=("<｜tool", "<steptml", "<｜"),
        tag=r"<steptml:[^>]*(?:>|$)",
    ),
    Calling(
        ("gemma4",),
        _gemma4,
        tokens=("<|tool_call>", "<tool_call|>", '<|"|>'),
        strips=True,
        after="either",
        near=("<|tool", "call:ping", "<|", "{"),
    ),
    Calling(
        ("functiongemma",),
        _functiongemma,
        tokens=("<start_function_call>", "<end_function_call>", "<escape>"),
        text_only=True,
        after="either",
        near=("<start_", "call:ping", "<esc"),
    ),
    Calling(
        ("minicpm5",),
        _minicpm5,
        avoid=("param", "function"),
        values=_without(),
        after="either",
        near=("<function", "<param", "</func", "<function name="),
        tag=r"<(?:param|function)[^>]*(?:>|$)",
    ),
    Calling(("pythonic",), _python_list(), before=False, after="never", near=_PYTHON_NEAR),
    Calling(
        ("llama4_pythonic",),
        _llama4,
        tokens=("<|python_start|>", "<|python_end|>"),
        before=False,
        after="never",
        near=_PYTHON_NEAR,
    ),
    Calling(
        ("olmo3",),
        _olmo3,
        before=False,
        after="never",
        near=("<function_", "<func", "ping()", "</function_calls"),
        prose=("<function_calls>",),
    ),
    Calling(
        ("lfm2",),
        _python_list("<|tool_call_start|>", "<|tool_call_end|>"),
        tokens=("<|tool_call_start|>", "<|tool_call_end|>"),
        strips=True,
        after="either",
        near=("<|tool", *_PYTHON_NEAR),
    ),
)
