"""Muse: messages by recipient."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parsers.test_families import read

_NEXT = "<|start|>assistant "
CALL = (
    '<atem:invoke name="get_weather"><atem:parameter name="city">Paris</atem:parameter>'
    '<atem:parameter name="days">3</atem:parameter></atem:invoke>'
)
PARIS = ("get_weather", '{"city": "Paris", "days": 3}')


@pytest.mark.parametrize("name", ["muse", "muse_glimmer", "musespark1x"])
@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        ("Nice weather today", None, "Nice weather today", []),
        ("<b>to=self</b>", None, "<b>to=self</b>", []),
        ("to=self I said", None, "to=self I said", []),
        (
            f"to=self<|message|>why\n<|eom|>{_NEXT}to=user<|message|>So\n be it<|eot|>",
            "why\n",
            "So\n be it",
            [],
        ),
        ("to=self<|message|>A<|start|>assistant to=user<|message|>B<|eot|>", "A", "B", []),
        ("<|start|>assistant<|message|>Hm<|eot|>", "Hm", None, []),
        (f"to=self<|message|>A<|eom|><|start|>assistant{_NEXT}to=x<|message|>{CALL}", "A", None, [PARIS]),
        (f" to=user<|message|>One.<|eom|>{_NEXT}to=user<|message|>Two.<|eot|>", None, "One.Two.", []),
        (f"{_NEXT}to=get_weather<|message|>{CALL}<|eot|>", None, None, [PARIS]),
        (f"to=tools<|message|>\n{CALL}\n{CALL}\n<|eot|>", None, None, [PARIS, PARIS]),
        ('to=x<|message|><atem:invoke name="ping.ping"></atem:invoke><|eom|>', None, None, [("ping", "{}")]),
        (
            'to=x<|message|><atem:invoke name="get_weather"><atem:parameter name="days">\n3</atem:parameter>',
            None,
            None,
            [("get_weather", '{"days": 3}')],
        ),
        (
            'to=x<|message|><atem:invoke name="ping"><atem:parameter name="a">b "c',
            None,
            None,
            [("ping", '{"a": "b \\"c')],
        ),
        (
            'to=x<|message|><atem:invoke name="no"><atem:parameter name="a">9</atem:parameter></atem:invoke>',
            None,
            None,
            [("no", '{"a": 9}')],
        ),
        ('to=x<|message|><atem:invoke name="pi', None, None, []),
        (f"to=user<|message|>Write {CALL}", None, f"Write {CALL}", []),
    ],
)
def test_muse(name: str, text: str, reasoning: str | None, content: str | None, calls: list[Any]) -> None:
    message = read(name, name, text)
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


def test_values_without_a_schema_are_json_or_else_text() -> None:
    values = "".join(
        f'<atem:parameter name="{key}">{value}</atem:parameter>' for key, value in (("a", "9"), ("b", "Mars"))
    )
    message = read("muse", "muse", f'to=x<|message|><atem:invoke name="f">{values}</atem:invoke><|eot|>')
    assert message.calls == [("f", '{"a": 9, "b": "Mars"}')]


def test_calls_that_nobody_asked_for_are_text() -> None:
    text = f"{_NEXT}to=x<|message|>{CALL}"
    message = read("muse", "muse", f"to=self<|message|>A<|eom|>{text}", choice="none")
    assert (message.reasoning, message.content, message.calls) == ("A", text, [])
    assert read("muse", None, text, offered=None).content == text
