"""Hunyuan v3 and v4: a section of calls, each a name and pairs of key and value.

Every tag bears the checkpoint's own suffix, such as `<think:abc>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from parsers.bodies.conversions import narrow_first
from parsers.bodies.key_value import KeyValues
from parsers.bodies.values import Values
from parsers.grammar import (
    ForModel,
    Initial,
    ModelFacts,
    On,
    ReasoningGrammar,
    Region,
    Signs,
    Text,
    ToolGrammar,
)
from parsers.tags import hy_v4_tag

_SUFFIXED = re.compile(r"<think(:[^<>]+)>")


def _v3_initial(kwargs: Mapping[str, Any]) -> Initial:
    return "open" if kwargs.get("reasoning_effort") not in (None, "no_think") else "off"


def _v4_initial(kwargs: Mapping[str, Any]) -> Initial:
    return "off" if kwargs.get("reasoning_effort") == "no_think" else "open"


def _v3_suffix(model: ModelFacts) -> str:
    """The suffix that the tokenizer's configuration names."""
    found = model.tokenizer_config.get("token_suffix")
    return found if isinstance(found, str) else ""


def _v4_suffix(model: ModelFacts) -> str:
    """The suffix that the vocabulary shows."""
    found = (_SUFFIXED.fullmatch(token) for token in model.added_tokens)
    suffixes = [match.group(1) for match in found if match]
    return suffixes[0] if suffixes and "<think>" not in model.added_tokens else ""


def _reasoning(name: str, suffix: str, initial: Callable[[Mapping[str, Any]], Initial]) -> ReasoningGrammar:
    start, end = f"<think{suffix}>", f"</think{suffix}>"
    return ReasoningGrammar(
        names=(name,),
        start=start,
        end=end,
        initial=initial,
        counted="marked" if name == "hy_v3" else "section",
        end_counts=True,
        required_tokens=(start, end),
        **{**_V[name], "format": _THINKING},
    )


def _tools(name: str, suffix: str) -> ToolGrammar:
    """Version 3 has a separator behind the name; in version 4 the first key ends it."""

    def tag(word: str) -> str:
        return f"<{word}{suffix}>"

    section, section_end = tag("tool_calls"), tag("/tool_calls")
    call, call_end = tag("tool_call"), tag("/tool_call")
    key, value = tag("arg_key"), tag("arg_value")
    if name == "hy_v3":
        ends = (On(tag("tool_sep"), "arguments"), On(call_end, "section"))
    else:
        ends = (
            On(key, "arguments", keep=True, as_text=True),
            On(call_end, "arguments", keep=True, as_text=True),
        )
    pairs = KeyValues(
        (key, tag("/arg_key")),
        (value, tag("/arg_value")),
        done=call_end,
        opaque=True,
        values=Values(convert=narrow_first, opens=True),
    )
    return ToolGrammar(
        names=(name,),
        content=(On(section, "section", tentative=name == "hy_v4"),),
        regions={
            "section": Region(Text.DROP, (On(call, "name"), On(section_end, "after"))),
            "name": Region(Text.NAME, ends, rejected="section"),
            "arguments": Region(Text.BODY, (), pairs, then="section"),
            "after": Region(Text.DROP, (On(section, "section"),)),
        },
        typed=True,
        forced="json" if name == "hy_v3" else "markup",
        required_tokens=(section, section_end, call, call_end),
        structural_tag=hy_v4_tag(suffix) if name == "hy_v4" else None,
        **_V[name],
    )


_THINKING = "<think> ... </think>"
_V: dict[str, Any] = {
    "hy_v3": {
        "models": "Hunyuan 3",
        "format": "<tool_calls> of names, <tool_sep>, keys and values",
        "signs": (Signs(template=("<think", "<tool_sep", "<arg_key")),),
    },
    "hy_v4": {
        "models": "Hunyuan 4",
        "format": "<tool_calls> of names, keys and values",
        "signs": (Signs(template=("<think", "<tool_calls", "<arg_key"), lacks=("<tool_sep",)),),
    },
}

V3_REASONING = ForModel(
    ("hy_v3",),
    lambda model: _reasoning("hy_v3", _v3_suffix(model), _v3_initial),
    **{**_V["hy_v3"], "format": _THINKING},
)
V4_REASONING = ForModel(
    ("hy_v4",),
    lambda model: _reasoning("hy_v4", _v4_suffix(model), _v4_initial),
    **{**_V["hy_v4"], "format": _THINKING},
)
V3_TOOLS = ForModel(("hy_v3",), lambda model: _tools("hy_v3", _v3_suffix(model)), **_V["hy_v3"])
V4_TOOLS = ForModel(("hy_v4",), lambda model: _tools("hy_v4", _v4_suffix(model)), **_V["hy_v4"])
