"""A reasoning grammar and a tool grammar together: what a server runs, and what render asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from parsers.grammar import On, ReasoningGrammar, Region, Text, ToolGrammar
from parsers.machine import Machine
from parsers.schema import compile_tools
from parsers.table import CompiledRegion, RequestContext, Table
from parsers.tags import TagModel

PromptVerdict = Literal["open", "over", "unknown"]
ToolChoice = Literal["none", "auto", "required", "named"]


class UnknownParserError(KeyError):
    """No parser is registered under the name; the message lists the names that are."""

    def __str__(self) -> str:
        return str(self.args[0])


class Family:
    """An immutable pair of grammars. Build one with `parsers.build`."""

    def __init__(self, reasoning: ReasoningGrammar | None, tools: ToolGrammar | None) -> None:
        self.reasoning = reasoning
        self.tools = tools
        self._tables: dict[tuple[bool, bool, frozenset[str]], Table] = {}

    @property
    def has_reasoning(self) -> bool:
        """Whether a reasoning parser is configured."""
        return self.reasoning is not None

    @property
    def has_tools(self) -> bool:
        """Whether a tool parser is configured."""
        return self.tools is not None

    @cached_property
    def markers(self) -> frozenset[str]:
        """The markers that are to be fed as `Marker` where they are one vocabulary entry."""
        regions = self._regions(self.has_reasoning, self.has_tools)
        found = {on.marker for region in regions.values() for on in region.on if not on.as_text}
        return frozenset(found)

    @property
    def prompt_markers(self) -> frozenset[str]:
        """The markers by whose ids `prompt_verdict` reads the prompt."""
        part = self.reasoning
        return frozenset((part.start, part.end, *part.ends, *part.boundary)) if part else frozenset()

    @property
    def required_tokens(self) -> frozenset[str]:
        """Markers that must be one vocabulary token, or the server cannot start."""
        parts = (self.reasoning, self.tools)
        return frozenset(token for part in parts if part for token in part.required_tokens)

    @property
    def structural_tag(self) -> TagModel | None:
        """How calls are constrained at generation (contract B.4.4)."""
        return self.tools.structural_tag if self.tools else None

    def skip_special_tokens(self, tools: bool, tool_choice: str | None) -> bool | None:
        """What render sets `skip_special_tokens` to: False, or None to leave it (contract B.4.4)."""
        wants_tools = tools and tool_choice != "none"
        if self.reasoning is None and not wants_tools:
            return None
        if self.reasoning is not None and self.reasoning.absorbs:
            return False
        need = self.tools.needs_special_tokens if self.tools else "never"
        return False if need == "always" or (need == "with tools" and wants_tools) else None

    def prompt_verdict(
        self, prompt_token_ids: Sequence[int], marker_ids: Mapping[str, int], kwargs: Mapping[str, Any]
    ) -> PromptVerdict:
        """What the end of the prompt says of the reasoning section (contract B.5): the last marker decides.

        `marker_ids`: id of each of `prompt_markers` that is one token. `kwargs`: effective chat template
        kwargs.
        """
        part = self.reasoning
        if part is None or part.initial(kwargs) == "off":
            return "over"
        start = marker_ids.get(part.start)
        over = {marker_ids.get(marker) for marker in (part.end, *part.ends)} - {None}
        stop = {marker_ids.get(marker) for marker in part.boundary} - {None}
        for token_id in reversed(prompt_token_ids):
            if token_id in over:
                return "over"
            if token_id == start:
                return "open"
            if token_id in stop:
                break
        return "unknown"

    def reasoning_ended(
        self, prompt_token_ids: Sequence[int], marker_ids: Mapping[str, int], kwargs: Mapping[str, Any]
    ) -> bool | None:
        """`reasoning_ended` of the GenerateRequest; None without a reasoning parser."""
        if self.reasoning is None:
            return None
        return self.prompt_verdict(prompt_token_ids, marker_ids, kwargs) == "over"

    def context(
        self,
        tools: Iterable[Mapping[str, Any]] | None,
        tool_choice: ToolChoice | None,
        kwargs: Mapping[str, Any],
        verdict: PromptVerdict,
        max_undecided: int = 65536,
    ) -> RequestContext:
        """Compile a request.

        `tools`: OpenAI tools; `tool_choice`: its kind; `verdict`: of `prompt_verdict`.
        """
        tools = list(tools or ())
        reasoning: Literal["off", "open", "over"] = "off"
        if self.reasoning is not None and self.reasoning.initial(kwargs) == "open":
            reasoning = "over" if verdict == "over" else "open"
        asked = bool(tools) and tool_choice != "none"
        return RequestContext(
            reasoning=reasoning,
            tools=self.tools is not None and (asked or self._absorbs),
            asked=self.tools is not None and asked,
            forced=asked and tool_choice in ("required", "named"),
            types=compile_tools(tools) if asked and self.tools and self.tools.typed else {},
            max_undecided=max_undecided,
        )

    def start(self, context: RequestContext, token_markers: frozenset[str]) -> Machine:
        """A machine at the first output token. `token_markers`: the markers that will come as `Marker`."""
        return Machine(context, self._table(context, token_markers))

    def resume(self, context: RequestContext, token_markers: frozenset[str], snapshot: Any) -> Machine:
        """A machine as `Machine.snapshot` left it.

        Raises ValueError if the snapshot is not one of this family.
        """
        return Machine(context, self._table(context, token_markers), snapshot)

    @property
    def _absorbs(self) -> bool:
        return all(part.absorbs for part in (self.reasoning, self.tools) if part)

    def _table(self, context: RequestContext, token_markers: frozenset[str]) -> Table:
        key = (context.reasoning != "off", context.tools, token_markers)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._compile(*key)
        return table

    def _compile(self, reasoning: bool, tools: bool, token_markers: frozenset[str]) -> Table:
        part, grammar = self.reasoning, self.tools
        content = grammar or part
        regions = {}
        for name, region in self._regions(reasoning, tools).items():
            owner = part if name == "reasoning" else content
            absorbs = owner is not None and owner.absorbs
            regions[name] = CompiledRegion(name, region, token_markers, absorbs)
        return Table(
            regions,
            start=self._start(tools),
            strip=grammar is not None and grammar.strip,
            empty=part is not None and part.empty,
            counted=(part.start, part.end) if reasoning and part and part.explicit_count else None,
        )

    def _start(self, tools: bool) -> str:
        """The region in which content begins."""
        return self.tools.start if tools and self.tools else "content"

    def _regions(self, reasoning: bool, tools: bool) -> dict[str, Region]:
        grammar = self.tools if tools else None
        absorbed = self.reasoning and self._absorbs and (reasoning or self.tools)
        stray = (On(self.reasoning.end, "content"),) if self.reasoning and absorbed else ()
        regions = {"content": Region(Text.CONTENT, (*(grammar.content if grammar else ()), *stray))}
        if grammar:
            regions.update(grammar.regions)
        part = self.reasoning if reasoning else None
        if part:
            first = self._start(tools)
            ends = tuple(On(marker, first, keep=True) for marker in part.ends)
            regions["reasoning"] = Region(
                Text.REASONING, (On(part.start, "reasoning"), On(part.end, first), *ends)
            )
        return regions
