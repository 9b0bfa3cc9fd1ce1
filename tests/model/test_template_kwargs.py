"""Variables of a chat template (contract B.5, C.4)."""

from __future__ import annotations

from typing import Any

import pytest

from renderd.model.template_kwargs import effective_kwargs
from renderd.wire.chat import decode_chat_request

DEFAULTS = {"enable_thinking": False, "zz": None, "yy": "auto"}
BASE = {"cohere_format": "cmd4", "add_generation_prompt": True, "continue_final_message": False}


def effective(request: dict[str, Any], defaults: dict[str, Any] | None = None) -> dict[str, Any]:
    decoded = decode_chat_request({"messages": [], **request})
    return effective_kwargs(decoded, defaults or {}, {"medium": "low", "high": "none"})


def test_layers() -> None:
    assert effective({}) == BASE
    assert list(effective({})) == list(BASE)
    kwargs = effective({"chat_template_kwargs": {"a": 1}}, DEFAULTS)
    assert list(kwargs) == [
        *DEFAULTS,
        "cohere_format",
        "a",
        "add_generation_prompt",
        "continue_final_message",
    ]


@pytest.mark.parametrize("value", [None, "auto"])
def test_values_that_override_nothing(value: Any) -> None:
    assert effective({"chat_template_kwargs": {"enable_thinking": value, "q": value}}, DEFAULTS) == {
        **DEFAULTS,
        **BASE,
    }


def test_fields_beat_kwargs() -> None:
    asked = {"add_generation_prompt": False, "documents": [{"a": "b"}], "reasoning_effort": "q"}
    kwargs = effective({"chat_template_kwargs": asked, "documents": [{"c": "d"}], "reasoning_effort": "low"})
    assert kwargs["add_generation_prompt"] is True
    assert kwargs["documents"] == [{"c": "d"}]
    assert kwargs["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("effort", "sent", "thinking"),
    [("none", "none", False), ("medium", "low", True), ("high", "none", False), ("max", "max", True)],
)
def test_effort_implies_thinking(effort: str, sent: str, thinking: bool) -> None:
    kwargs = effective({"reasoning_effort": effort}, DEFAULTS)
    assert (kwargs["reasoning_effort"], kwargs["enable_thinking"]) == (sent, thinking)
    asked = {"reasoning_effort": effort, "chat_template_kwargs": {"enable_thinking": True}}
    assert effective(asked)["enable_thinking"] is True
