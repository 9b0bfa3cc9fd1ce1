"""hf and beam: grammars made of a model's response_template."""

from __future__ import annotations

from typing import Any

import pytest

from parsers import Family, Marker
from parsers.families.templates import REASONING, TOOLS
from parsers.grammar import ModelFacts, ReasoningGrammar, ToolGrammar, UnfitModelError
from tests.parsers.generator.templated import OBJECTS, TAGS, template
from tests.parsers.reading import TOOLS as OFFERED
from tests.parsers.reading import Message, lexemes, parse

Call = tuple[str, str]

LIST = template(
    {
        "open": "<|START_ACTION|>",
        "close": "<|END_ACTION|>",
        "content": "json",
        "transform_each": True,
        "transform": {"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}},
    }
)
HEADED = template(
    {
        "open_pattern": r"<\|call\|>\s*functions\.(?P<name>\w+)<\|message\|>",
        "close": "<|end|>",
        "content": "json",
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
    }
)


def facts(config: dict[str, Any]) -> ModelFacts:
    return ModelFacts(is_token=lambda text: True, tokenizer_config=config)


def family(config: dict[str, Any]) -> Family:
    reasoning, tools = REASONING[0].make(facts(config)), TOOLS[0].make(facts(config))
    assert isinstance(reasoning, ReasoningGrammar)
    assert isinstance(tools, ToolGrammar)
    return Family(reasoning, tools)


def read(config: dict[str, Any], text: str, choice: Any = "auto") -> Message:
    made = family(config)
    context = made.context(OFFERED, choice, {}, "unknown")
    whole = parse(made, lexemes(made, text), context)
    for seed in (1, 2):
        cut = parse(made, lexemes(made, text, seed), context, resume=True)
        assert (cut.reasoning, cut.content, cut.calls) == (whole.reasoning, whole.content, whole.calls)
    return whole


PING = '<tool_call>{"name": "ping", "arguments": {}}</tool_call>'
CITY = "<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"


@pytest.mark.parametrize(
    ("config", "text", "reasoning", "content", "calls"),
    [
        (OBJECTS, "<think>\nhm \n</think>\n\nHello \n", "\nhm \n", "\n\nHello \n", []),
        (OBJECTS, "Hello", None, "Hello", []),
        (OBJECTS, "<think>\nhm", "\nhm", None, []),
        (OBJECTS, "x <think>a</think> y <think>b</think> z", "ab", "x  y  z", []),
        (OBJECTS, f"a{PING}b{PING}c", None, "abc", [("ping", "{}"), ("ping", "{}")]),
        (OBJECTS, f"a<think>b{PING}c</think>d", f"b{PING}c", "ad", []),
        (OBJECTS, "a<|im_end|>b", None, "ab", []),
        (OBJECTS, "</think>b", None, "</think>b", []),
        (
            OBJECTS,
            '<tool_call>{"name": "ping", "arguments": "{}"}</tool_call>',
            None,
            None,
            [("ping", "{}")],
        ),
        (
            OBJECTS,
            '<tool_call>{"arguments": {"a":1}, "name": "f"}</tool_call>',
            None,
            None,
            [("f", '{"a": 1}')],
        ),
        (
            TAGS,
            f"<think>t</think>\nOk.\n<tool_call>\n<function=get_weather>\n{CITY}</function>\n</tool_call> z",
            "t",
            "\nOk.\n z",
            [("get_weather", '{"city": "Paris", "days": 3}')],
        ),
        (TAGS, "<tool_call>\n<function=ping>\n</function>\n</tool_call>", None, None, [("ping", "{}")]),
        (TAGS, "<tool_call>\nno function</tool_call>", None, "<tool_call>\nno function</tool_call>", []),
        (
            LIST,
            '<|START_ACTION|>[{"tool_name": "ping", "parameters": {}}, '
            '{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>x',
            None,
            "x",
            [("ping", "{}"), ("f", '{"a": 1}')],
        ),
        (HEADED, 'a<|call|> functions.f<|message|>{"a": 1}<|end|>b', None, "ab", [("f", '{"a": 1}')]),
    ],
)
def test_readings(
    config: dict[str, Any], text: str, reasoning: str | None, content: str | None, calls: list[Call]
) -> None:
    message = read(config, text)
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            TAGS,
            "<tool_call>\n<function=f>\n<parameter=a>\nx</tool_call>y\n</parameter>\n</function>\n</tool_call>z",
        ),
        (HEADED, '<|call|> functions.f<|message|>{"a": "x<|end|>y"}<|end|>z'),
    ],
)
def test_closers_inside_values_are_text(config: dict[str, Any], text: str) -> None:
    made = family(config)
    spelled = lexemes(made, text)
    inside = next(at for at, one in enumerate(spelled) if isinstance(one, Marker) and at > 0)
    spelled[inside] = str(spelled[inside])
    message = parse(made, spelled, made.context(OFFERED, "auto", {}, "unknown"))
    assert message.content == "z"
    assert "x<" in message.calls[0][1]


def test_content_that_is_blank_stays_beside_calls() -> None:
    message = read(OBJECTS, f"<think>a</think>\n\n{PING}\n{PING}")
    assert (message.content, message.calls) == ("\n\n\n", [("ping", "{}"), ("ping", "{}")])


def test_calls_stay_text_where_none_is_wanted() -> None:
    assert read(OBJECTS, PING, "none").content == PING


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "requires a response_template"),
        ({"response_template": {"fields": {}}}, "no object with fields"),
        ({"response_template": {"fields": {"content": {}}}}, "with a field tool_calls"),
        (template({"open_pattern": "<(a|b)>", "close": "x"}), "cannot be read while it is generated"),
        (template({"open": "<c>", "close": "</c>", "content": "kv-lines"}), "need their name in the opener"),
        (
            template({"open_pattern": r"<c (?P<name>\w+)>", "close": "</c>", "content": "kv-lines"}),
            "cannot be read while they are generated",
        ),
    ],
)
def test_models_that_cannot_be_read_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(UnfitModelError, match=words):
        TOOLS[0].make(facts(config))
