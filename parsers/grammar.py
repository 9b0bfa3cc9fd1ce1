"""The words in which a family of models is described.

A grammar is a table of regions. Text of a region goes where the region says; a marker moves to another
region. There is no code here: `parsers.machine` runs the table, `parsers.bodies` knows the inside of a call.

Two region names are common to all tables: "reasoning" and "content". What a family opens lies in its own
regions.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from parsers.bodies import Body
from parsers.tags import TagModel

Initial = Literal["off", "open"]


class Text(enum.Enum):
    """Where the text of a region goes."""

    REASONING = enum.auto()
    CONTENT = enum.auto()
    MARKUP = enum.auto()  # a fixed word of the format
    DROP = enum.auto()  # between the parts of a call; counted when it is more than whitespace
    NAME = enum.auto()  # the function name, complete at the next marker
    BODY = enum.auto()  # the region's body syntax reads it


@dataclass(frozen=True)
class On:
    """A marker and the region that follows it.

    `keep`: the next region reads the marker's own characters again (a brace that opens both the call and its
    JSON). `as_text`: read as text even where it is a vocabulary entry (punctuation that other tokens contain
    too). `tentative`: what follows may turn out to be no call; until the call is certain it is held back and
    then released as content.
    """

    marker: str
    to: str
    keep: bool = False
    tentative: bool = False
    as_text: bool = False


@dataclass(frozen=True)
class Region:
    """One row of the table.

    `then`: where a body that ends itself leads, and a name without an end. `on_text`: where the first text
    that is more than whitespace leads (a call that may stand at the start of the answer only). `known_names`:
    a name that is none of the request's tools is no call (needs a tentative opener and a `typed` grammar).
    """

    text: Text
    on: tuple[On, ...] = ()
    body: Body | None = None
    then: str = "content"
    on_text: str | None = None
    known_names: bool = False


@dataclass(frozen=True)
class ToolGrammar:
    """The tool calls of a family.

    `content`: markers that mean something inside content. `start`: the region in which content begins.
    `strip`: whitespace before a call is dropped; otherwise only content that is all blank is. `absorbs`:
    stray reasoning markers and special tokens in the output are deleted, and with `tool_choice` none the
    calls are still taken out of the content (vLLM's engine parsers). `typed`: the tools' schemas decide how
    values are read. `needs_special_tokens`: when render must keep special tokens in the text (contract
    B.4.4): "always", "with tools" or never. `required_tokens`: markers that must be one vocabulary token,
    else the server does not start.
    """

    names: tuple[str, ...]
    content: tuple[On, ...] = ()
    regions: Mapping[str, Region] = field(default_factory=dict)
    start: str = "content"
    strip: bool = False
    absorbs: bool = False
    typed: bool = False
    needs_special_tokens: Literal["always", "with tools", "never"] = "never"
    required_tokens: tuple[str, ...] = ()
    structural_tag: TagModel | None = None


@dataclass(frozen=True)
class ReasoningGrammar:
    """The reasoning section of a family.

    `initial` says from the effective chat template kwargs whether reasoning is parsed at all ("off": the
    whole output is content) and, if the prompt does not say otherwise, open from the first token. `ends`:
    call openers that end the reasoning without its own marker. `boundary`: prompt tokens at which the search
    for the last marker stops. `empty`: an empty section is "" in the message, not null. `explicit_count`:
    only tokens after a start marker in the output count as reasoning tokens (contract F.2).
    """

    names: tuple[str, ...]
    start: str
    end: str
    initial: Callable[[Mapping[str, Any]], Initial]
    ends: tuple[str, ...] = ()
    boundary: tuple[str, ...] = ()
    absorbs: bool = False
    empty: bool = False
    explicit_count: bool = False
    required_tokens: tuple[str, ...] = ()


def always_open(_kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning whatever the template kwargs say."""
    return "open"


def open_unless_disabled(kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning unless `enable_thinking` is given and falsy."""
    return "open" if kwargs.get("enable_thinking", True) else "off"


def off_unless_enabled(kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning only if `thinking` or `enable_thinking` is truthy."""
    return "open" if kwargs.get("thinking") or kwargs.get("enable_thinking") else "off"
