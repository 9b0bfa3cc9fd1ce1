"""Calls in JSON behind a marker, in lists and alone, and reasoning between phrases or wrappers of text."""

from __future__ import annotations

from typing import Any

import pytest

from parsers import build
from tests.parsers.reading import TOOLS, Message, lexemes, parse

PARIS = ("get_weather", '{"city": "Paris"}')
PING = ("ping", "{}")
WEATHER = '{"name": "get_weather", "arguments": {"city":"Paris"}}'
IDLE = '{"name": "ping", "arguments": {}}'
BOTH = f"[{WEATHER} , {IDLE}]"
TEXTUAL = '{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}'
AS_STRING = ("get_weather", '"{\\"city\\": \\"Paris\\"}"')
CUT = '{"name": "get_weather", "arguments": {"city": "Pa'
PA = ("get_weather", '{"city": "Pa')
JSON = '[{"name": "Anna", "age": 3}]'


def read(reasoning: str | None, tools: str | None, text: str, **request: Any) -> Message:
    """The message of a text, the same whole and cut, with markers as tokens and as text."""
    family = build(reasoning, tools)
    context = family.context(request.get("offered", TOOLS), request.get("choice", "auto"), {}, "unknown")
    whole = parse(family, lexemes(family, text), context)
    for seed in range(6):
        assert parse(family, lexemes(family, text, seed), context, resume=True) == whole
    return whole


LISTS = [
    ("hunyuan_a13b", "<tool_calls>", "</tool_calls>"),
    ("jamba", "<tool_calls>", "</tool_calls>"),
    ("phi4_mini_json", "functools", ""),
    ("granite", "<|tool_call|>", ""),
    ("granite", "<tool_call>", ""),
    ("xlam", "", ""),
    ("xlam", "```json\n", "\n```"),
    ("xlam", "[TOOL_CALLS]", ""),
    ("xlam", "<tool_call>", "</tool_call>"),
]


@pytest.mark.parametrize(("tools", "before", "behind"), LISTS)
def test_lists(tools: str, before: str, behind: str) -> None:
    paris = ("get_weather", '{"city":"Paris"}') if tools == "granite" else PARIS
    message = read(None, tools, f"{before}{BOTH}{behind}")
    assert (message.content, message.calls, message.complete) == (None, [paris, PING], [True, True])
    message = read(None, tools, f"{before}[{CUT}")
    assert (message.content, message.calls, message.complete) == (None, [PA], [False])
    message = read(None, tools, f'{before}[{WEATHER}, {{"no": 1}}, 2, {IDLE}]{behind}')
    assert (message.content, message.calls) == (None, [paris, PING])
    assert sum(message.anomalies.values()) > 0
    for broken in ("[1]", "{none}", '[{"na', "["):
        if not (tools == "xlam" and not before and broken == "{none}"):
            text = f"{before}{broken}{behind}"
            assert (read(None, tools, text).content, read(None, tools, text).calls) == (text, [])


OBJECTS = [
    ("granite4", "<tool_call>\n", "\n</tool_call>"),
    ("granite-20b-fc", "<function_call> ", ""),
    ("ernie45", "<tool_call>\n", "\n</tool_call>"),
    ("internlm", "<|action_start|><|plugin|>", "<|action_end|>"),
    ("gigachat3", "<|function_call|>", ""),
    ("gigachat3", "function call<|role_sep|>\n", ""),
]


@pytest.mark.parametrize(("tools", "before", "behind"), OBJECTS)
def test_objects(tools: str, before: str, behind: str) -> None:
    message = read(None, tools, f"{before}{WEATHER}{behind}")
    assert (message.content, message.calls, message.complete) == (None, [PARIS], [True])
    message = read(None, tools, f"{before}{CUT}")
    assert (message.content, message.calls, message.complete) == (None, [PA], [False])
    for broken in (f"{before}none{behind}", f"{before}[1]{behind}", before):
        assert (read(None, tools, broken).content, read(None, tools, broken).calls) == (broken, [])


@pytest.mark.parametrize(
    ("tools", "text", "content", "calls"),
    [
        ("hunyuan_a13b", f"a <tool_calls>[{TEXTUAL}]</tool_calls> b", "a  b", [PARIS]),
        ("hunyuan_a13b", "<tool_calls>[]</tool_calls>x", "x", []),
        (
            "hunyuan_a13b",
            f"<think>no {BOTH} <tool_calls>{BOTH}</tool_calls></think><tool_calls>[{IDLE}]</tool_calls>",
            f"<think>no {BOTH} <tool_calls>{BOTH}</tool_calls></think>",
            [PING],
        ),
        ("jamba", f"a <tool_calls>[{TEXTUAL}]</tool_calls> b", "a ", [AS_STRING]),
        ("phi4_mini_json", 'I functools.reduce; functools[{"name": "ping"}]', None, []),
        ("phi4_mini_json", f"Sure functools[{IDLE}]", "Sure ", [PING]),
        ("phi4_mini_json", 'functools[{"name": "f", "parameters": {"a": [1]}}]', "", [("f", '{"a": [1]}')]),
        ("granite", f"ok\n<tool_call>[{TEXTUAL}] tail", "ok", [PARIS]),
        (
            "granite",
            '<tool_call>[{"name": "get_weather", "arguments": {"days":"3"}}]',
            "",
            [("get_weather", '{"days":3}')],
        ),
        (
            "granite4",
            f"a <tool_call>{TEXTUAL}</tool_call> b <tool_call>{IDLE}</tool_call> c",
            "a  b  c",
            None,
        ),
        ("granite4", '<tool_call>{"name": "ping"}</tool_call>', None, []),
        (
            "granite-20b-fc",
            f"<function_call>{WEATHER}\n<function_call>bad\n<function_call>{IDLE} x",
            "",
            None,
        ),
        ("ernie45", f"ok\n<tool_call>{TEXTUAL}</tool_call>\ntail", "ok", [AS_STRING]),
        ("internlm", '<|action_start|><|plugin|>{"name": "f", "parameters": {}}', "", [("f", "{}")]),
        ("internlm", "<|action_start|><|interpreter|>print(1)", None, []),
        ("gigachat3", f"hi<|message_sep|>\n\nfunction call<|role_sep|>\n{WEATHER}", "hi", [PARIS]),
        ("gigachat3", "a function call<|role_sep|>\n", None, []),
        ("xlam", f"r</think>{BOTH}", "r</think>", [PARIS, PING]),
        ("xlam", f"{BOTH} tail", " tail", [PARIS, PING]),
        ("xlam", f"so {BOTH}", None, []),
        ("xlam", JSON, None, []),
        ("xlam", "```python\nprint([1])\n```", None, []),
        ("xlam", '[{"name": "ping"}]', "", [PING]),
        (
            "apertus",
            'a<|tools_prefix|>[{"get_weather": {"city": "Paris"}}, {"ping" : {}}]<|tools_suffix|>b',
            "ab",
            None,
        ),
        ("apertus", '<|tools_prefix|>{"f": 1, "g": [{"}": 2}]}<|tools_suffix|>', "", [("f", "1")]),
        ("apertus", "<|tools_prefix|>[]<|tools_suffix|>x", "x", []),
        ("apertus", '<|tools_prefix|>[{"f": {"a": "x', "", [("f", '{"a": "x')]),
        ("apertus", "<|tools_prefix|>[{1: 2}]<|tools_suffix|>", None, []),
    ],
)
def test_families(tools: str, text: str, content: str | None, calls: Any) -> None:
    """Content None: the text as it is. Calls None: the two usual ones."""
    message = read(None, tools, text)
    assert (message.content or "") == (text if content is None else content)
    assert message.calls == ([PARIS, PING] if calls is None else calls)


HERE, HERES = "Here is my thought process:", "Here's my thought process:"


@pytest.mark.parametrize(
    ("reasoning", "tools", "text", "thought", "content", "calls"),
    [
        ("granite", None, f"{HERE} t Here's my response: a", " t ", " a", []),
        ("granite", "granite", f"{HERES} t\nHere is my response: <tool_call>[{IDLE}]", " t\n", None, [PING]),
        ("granite", "granite", f"<tool_call>[{IDLE}]", None, None, [PING]),
        ("granite", "granite", f"ok <tool_call>[{IDLE}]", None, "ok", [PING]),
        ("granite", None, f"x {HERE} t", None, f"x {HERE} t", []),
        ("granite", None, f"{HERE} never ends", " never ends", None, []),
        ("granite", "pythonic", "[ping()]", None, None, [PING]),
        ("granite", None, "Here is", None, "Here is", []),
        ("hunyuan_a13b", None, "<think>\nr\n</think>\n<answer>\nc\n</answer>", "r", "c", []),
        ("hunyuan_a13b", None, "<think>\nr\n</think>\n<answer>\nc\n</answer>\n", "r", "c", []),
        ("hunyuan_a13b", None, "<think>\nr</think>\nr\n</think>c", "r</think>\nr", "c", []),
        ("hunyuan_a13b", None, "<think>r</think>", None, "<think>r</think>", []),
        ("hunyuan_a13b", "hunyuan_a13b", f"<tool_calls>[{IDLE}]</tool_calls>", None, None, [PING]),
        (
            "hunyuan_a13b",
            "hunyuan_a13b",
            f"<think>\nr\n</think>\n<answer>\nok<tool_calls>[{IDLE}]</tool_calls>\n</answer>",
            "r",
            "ok",
            [PING],
        ),
        ("ernie45", "ernie45", "r\n</think>\n\n<response>\nHi\n</response>\n", "r\n", "Hi", []),
        ("ernie45", "ernie45", "r</think>\n<response>\na</response>", "r", "a", []),
        ("ernie45", "ernie45", f"<think>r</think>\n\n<tool_call>{IDLE}</tool_call>\n", "r", None, [PING]),
        ("ernie45", "ernie45", "no end", "no end", None, []),
        ("ernie45", "ernie45", "r</think>\n\nno tags", "r", "\n\nno tags", []),
        ("deepseek_r1", "xlam", f"r</think>{BOTH}", "r", None, [PARIS, PING]),
    ],
)
def test_reasoning(
    reasoning: str, tools: str | None, text: str, thought: str | None, content: str | None, calls: Any
) -> None:
    message = read(reasoning, tools, text)
    assert (message.reasoning, message.content, message.calls) == (thought, content, calls)


@pytest.mark.parametrize("tools", ["hunyuan_a13b", "pythonic", "ernie45", "apertus", "xlam"])
def test_forced_choices_are_json(tools: str) -> None:
    text = '[{"name": "get_weather", "parameters": {"city": "Paris"}}, {"name": "ping"}]'
    message = read(None, tools, text, choice="required")
    assert (message.content, message.calls) == (None, [PARIS, PING])
