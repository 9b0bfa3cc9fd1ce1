"""Families whose format the template's variables choose."""

from __future__ import annotations

from typing import Any

import pytest

from parsers import UnfitRequestError, build
from tests.parsers.test_families import read

_JSON = (
    '<ifm|tool_calls><ifm|tool_call>{"name": "get_weather", "arguments": {"city": 5, "days": "3"}}'
    "</ifm|tool_call></ifm|tool_calls>"
)
_CALL = ("get_weather", '{"city": "5", "days": 3}')


@pytest.mark.parametrize(
    ("kwargs", "text", "reasoning", "content", "calls"),
    [
        ({}, "a</ifm|think_fast>b</ifm|think>c", "a</ifm|think_fast>b", "c", []),
        ({"reasoning_effort": None}, "a</ifm|think>b", "a", "b", []),
        ({"reasoning_effort": "medium"}, "a</ifm|think_fast>b</ifm|think>", "a", "b</ifm|think>", []),
        ({"reasoning_effort": "low"}, "<ifm|think_faster>a</ifm|think_faster>b", "a", "b", []),
        ({}, f"a</ifm|think>{_JSON}", "a", _JSON, []),
        ({"tool_call_format": "json"}, f"a</ifm|think>{_JSON}", "a", None, [_CALL]),
        ({"tool_call_format": "json", "reasoning_effort": "low"}, f"a{_JSON}", "a", None, [_CALL]),
    ],
)
def test_variables_choose(
    kwargs: dict[str, Any], text: str, reasoning: str, content: str | None, calls: list[Any]
) -> None:
    message = read("k2_horizon", "k2_horizon", text, kwargs=kwargs)
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        (
            {"reasoning_effort": "max"},
            "Unsupported reasoning_effort 'max'. Supported values: high, medium, low.",
        ),
        ({"tool_call_format": 5}, "Unsupported tool_call_format 5. Supported values: json, xml, xml_typed."),
    ],
)
def test_other_values_are_refused(kwargs: dict[str, Any], sentence: str) -> None:
    family = build("k2_horizon", "k2_horizon")
    with pytest.raises(UnfitRequestError) as caught:
        family.check(kwargs)
    assert str(caught.value) == sentence
    with pytest.raises(UnfitRequestError):
        family.context([], None, kwargs, "unknown")


def test_a_state_of_another_family() -> None:
    family = build("k2_horizon", "k2_horizon")
    with pytest.raises(ValueError, match="formats"):
        family.start(build("qwen3", "hermes").context([], None, {}, "unknown"), family.markers)
