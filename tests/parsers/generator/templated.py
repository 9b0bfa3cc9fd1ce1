"""hf and beam: models that bring the description of their format with them."""

from __future__ import annotations

from typing import Any

from tests.parsers.generator.calls_json import hermes_blocks
from tests.parsers.generator.calls_markup import qwen_blocks
from tests.parsers.generator.formats import Calling, Thinking
from tests.parsers.generator.thinking import think_pair

NAMES = ("hf", "beam")

_THINKING = {"open": "<think>", "close": "</think>", "content": "text"}
_CONTENT = {"close": "<|im_end|>", "content": "text"}
_TOOL_CALL = ("<tool_call>", "</tool_call>")


def template(tool_calls: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer's configuration with a response template."""
    fields = {"thinking": _THINKING, "tool_calls": {"repeats": True, **tool_calls}, "content": _CONTENT}
    start = "<|im_start|>assistant\n"
    return {"response_template": {"defaults": {"role": "assistant"}, "start_anchor": start, "fields": fields}}


OBJECTS = template(
    {
        "open": "<tool_call>",
        "close": "</tool_call>",
        "content": "json",
        "transform": {"type": "function", "function": "{content}"},
    }
)
TAGS = template(
    {
        "open_pattern": r"<tool_call>\s*<function=(?P<name>\w+)>",
        "close": "</tool_call>",
        "content": "xml-inline",
        "content_args": {
            "tag_pattern": r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
            "value_parser": {"name": "json", "args": {"allow_non_json": True}},
        },
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
    }
)

TEMPLATED_THINKING = (
    Thinking(
        NAMES,
        think_pair("<think>", "</think>", opener=1),
        tokens=("<think>", "</think>"),
        begins="before",
        near=("<thi", "</", "</thin"),
        facts={"config": OBJECTS},
    ),
)

TEMPLATED_CALLS = (
    Calling(
        NAMES,
        hermes_blocks(*_TOOL_CALL, ("",), fixed=True),
        tokens=_TOOL_CALL,
        after="content",
        blank=True,
        near=("<tool", "<tool_cal", "{", "</tool_", "["),
        facts={"config": OBJECTS},
    ),
    Calling(
        NAMES,
        qwen_blocks(*_TOOL_CALL, lines_between=False),
        tokens=_TOOL_CALL,
        avoid=("</parameter", "<parameter", "</function", "<function"),
        text_only=True,
        values=str.strip,
        after="content",
        blank=True,
        near=("<func", "<tool_cal", "{", "</param"),
        facts={"config": TAGS},
    ),
)
