"""A grammar made ready to run: for one kind of request, and for the tokens that one vocabulary has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from parsers.bodies import Body
from parsers.grammar import On, Region, Text
from parsers.rewrite import Rewrite
from parsers.scan import Scanner


class RequestContext(msgspec.Struct, array_like=True, frozen=True):
    """What a machine must know of the request. Plain values: it travels in the stream state.

    `reasoning`: "off" parses none, "open" starts inside, "over" starts behind it. `tools`: calls are
    taken out of the content; `asked`: because the request wants them. `forced`: it insists on one, so
    blank content is none. `types`: parameter types by function, for families whose values are typed by
    the schema (nodes of `parsers.schema`). `max_undecided`: characters held back at most before they are
    released as content. `json`: the answer is JSON by constraint, "required" an array of calls, "named" the
    arguments of the function `named`. `promotes`: reasoning becomes content if there is none. `variant`: what
    the template's variables chose of both grammars.
    """

    reasoning: Literal["off", "open", "over"] = "off"
    tools: bool = False
    asked: bool = False
    forced: bool = False
    types: dict[str, dict[str, Any]] = {}
    max_undecided: int = 65536
    json: Literal["", "required", "named"] = ""
    named: str | None = None
    promotes: bool = False
    variant: tuple[str, str] = ("", "")


class CompiledRegion:
    """A region for one tokenizer: which of its markers are text, which are tokens.

    `absorbs`: special tokens are deleted. `flows`: text that holds nothing of a marker is said as it is, and
    leads nowhere.
    """

    __slots__ = (
        "absorbs",
        "body",
        "counts",
        "flows",
        "name",
        "on",
        "region",
        "scanner",
        "text",
        "then",
        "to",
        "tokens",
    )

    def __init__(self, name: str, region: Region, token_markers: frozenset[str], absorbs: bool) -> None:
        self.name = name
        self.region = region
        self.text = region.text
        self.body: Body | None = region.body
        self.then = region.then
        self.to = region.on_text
        self.counts = region.counts or region.text is Text.REASONING
        self.on: dict[str, On] = {on.marker: on for on in region.on}
        self.tokens = frozenset(on.marker for on in region.on if not on.as_text) & token_markers
        self.scanner = Scanner(
            tuple(on.marker for on in region.on if on.as_text or on.marker not in token_markers)
        )
        self.absorbs = absorbs
        says = region.text in (Text.CONTENT, Text.REASONING)
        self.flows = says and region.body is None and region.on_text is None


class Table(NamedTuple):
    """What a machine runs: the regions of a family for one kind of request and one tokenizer.

    `start`: where content begins. `strip`: whitespace before a call is dropped; `tight`: so is that behind
    calls before which there is no content; `blank`: content that is all
    blank is not; `strip_reasoning`: at the end of the reasoning. `empty`: which empty reasoning is said.
    `counted`: the marker behind which tokens count as reasoning tokens, and those up to which they do; empty
    if none do, None if those of the reasoning region do. `end_counts`, `skip`, `lead`, `separator`, `trims`,
    `rewrite`: of the grammars.
    """

    regions: Mapping[str, CompiledRegion]
    start: str
    strip: bool
    tight: bool
    blank: bool
    empty: Literal["", "section", "prompt"]
    counted: tuple[str, ...] | None
    end_counts: bool = False
    strip_reasoning: bool = False
    skip: str = ""
    lead: str = ""
    separator: str = ""
    trims: bool = False
    rewrite: Rewrite | None = None
