"""A reasoning grammar and a tool grammar together: what a server runs, and what render asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from parsers.forced import FORCED_REGIONS
from parsers.grammar import Channels, On, ReasoningGrammar, Region, Text, ToolGrammar
from parsers.machine import Machine
from parsers.prompt_markers import PromptMarkers, PromptVerdict, Search
from parsers.schema import compile_tools
from parsers.state import State
from parsers.table import CompiledRegion, RequestContext, Table
from parsers.tags import TagModel

ToolChoice = Literal["none", "auto", "required", "named"]
_MOST_PROMPT_MARKERS = 8


class UnknownParserError(KeyError):
    """No parser is registered under the name; the message lists the names that are."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnfitRequestError(ValueError):
    """A template variable of the request chooses a format that there is not; the message says so."""


class Family:
    """An immutable pair of grammars. Build one with `parsers.build`.

    `enforces_tags`: structural tags are enforced at generation; otherwise families that have one answer
    required and named choices in JSON (contract B.4.4).
    """

    def __init__(
        self, reasoning: ReasoningGrammar | None, tools: ToolGrammar | None, enforces_tags: bool = True
    ) -> None:
        self.reasoning = reasoning
        self.tools = tools
        self.enforces_tags = enforces_tags
        self._tables: dict[tuple[bool, bool, str, bool, frozenset[str]], Table] = {}
        self._prompt_markers: dict[int, PromptMarkers] = {}

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
        if self._variants:
            return frozenset().union(*(family.markers for family in self._variants.values()))
        regions = self._regions(self.has_reasoning, self.has_tools, "").values()
        found = {on.marker for region in regions for on in region.on if not on.as_text}
        found.update(marker for region in regions for marker in region.keeps)
        found.update(marker for region in regions if region.body for marker in region.body.markers)
        return frozenset(found)

    @property
    def prompt_markers(self) -> frozenset[str]:
        """The markers by whose ids `prompt_verdict` reads the prompt."""
        part = self.reasoning
        if self._variants:
            return frozenset().union(*(family.prompt_markers for family in self._variants.values()))
        if part is None:
            return frozenset()
        starts = (part.start, *part.other_starts)
        return frozenset((*starts, part.end, *part.other_ends, *part.ends, *part.boundary)) - {""}

    @property
    def required_tokens(self) -> frozenset[str]:
        """Markers that must be one vocabulary token, or the server cannot start."""
        parts = (self.reasoning, self.tools)
        return frozenset(token for part in parts if part for token in part.required_tokens)

    @property
    def structural_tag(self) -> TagModel | None:
        """How calls are constrained at generation (contract B.4.4)."""
        return self.tools.structural_tag if self.tools and self.enforces_tags else None

    @property
    def answer_tag(self) -> TagModel | None:
        """What frames a format that the user asked for (contract B.4.4)."""
        return self.structural_tag or (self.reasoning.structural_tag if self.reasoning else None)

    @property
    def forces_json(self) -> bool:
        """Whether the answer to a required or named choice is constrained to plain JSON (contract B.4.3)."""
        tools = self.tools
        if tools is None or tools.forced == "markup":
            return False
        return tools.forced == "json" or not self.enforces_tags

    def skip_special_tokens(self, tools: bool, tool_choice: str | None) -> bool | None:
        """What render sets `skip_special_tokens` to: False, or None to leave it (contract B.4.4)."""
        wants_tools = tools and tool_choice != "none"
        part = self.reasoning
        if part is None and not wants_tools:
            return None
        if part is not None and (part.absorbs or part.needs_special_tokens):
            return False
        need = self.tools.needs_special_tokens if self.tools else "never"
        return False if need == "always" or (need == "with tools" and wants_tools) else None

    def spaces_between_special_tokens(self, tools: bool, tool_choice: str | None) -> bool | None:
        """What render sets `spaces_between_special_tokens` to, or None to leave it (contract B.4.4)."""
        if self.reasoning is None and not (tools and tool_choice != "none"):
            return None
        parts = [part.spaces_between_special_tokens for part in (self.reasoning, self.tools) if part]
        return False if False in parts else None

    def prompt_verdict(
        self,
        prompt_token_ids: Sequence[int],
        marker_ids: Mapping[str, Sequence[int]],
        kwargs: Mapping[str, Any],
        search: Search | None = None,
    ) -> PromptVerdict:
        """What the end of the prompt says of the reasoning section (contract B.5): the last marker decides.

        `marker_ids`: the ids that spell each of `prompt_markers`; what is compiled of them is remembered by
        this object. `kwargs`: effective chat template kwargs. `search`: see `PromptMarkers.verdict`. Raises
        UnfitRequestError, as `context` does.
        """
        if (chosen := self._chosen(kwargs)) in self._variants:
            return self._variants[chosen].prompt_verdict(prompt_token_ids, marker_ids, kwargs, search)
        part = self.reasoning
        if part is None or part.initial(kwargs) == "off":
            return "over"
        markers = self._prompt_markers.get(id(marker_ids))
        if markers is None:
            if len(self._prompt_markers) >= _MOST_PROMPT_MARKERS:
                self._prompt_markers.clear()
            markers = self._prompt_markers[id(marker_ids)] = PromptMarkers(part, marker_ids)
        verdict = markers.verdict(prompt_token_ids, search)
        return self._unmarked(kwargs) if verdict == "unknown" else verdict

    def _unmarked(self, kwargs: Mapping[str, Any]) -> PromptVerdict:
        """The verdict on a prompt without markers."""
        over = self.reasoning.unknown_is_over if self.reasoning else None
        return "over" if over is not None and over(kwargs) else "unknown"

    def told_kwargs(self, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the engine's reasoning parser is told of the effective template kwargs."""
        told = self.reasoning.told if self.reasoning else {}
        return kwargs if any(name in kwargs for name in told) else {**kwargs, **told}

    def reasoning_ended(
        self,
        prompt_token_ids: Sequence[int],
        marker_ids: Mapping[str, Sequence[int]],
        kwargs: Mapping[str, Any],
        search: Search | None = None,
    ) -> bool | None:
        """`reasoning_ended` of the GenerateRequest; None without a reasoning parser that can tell."""
        if self.reasoning is None or self.reasoning.untold:
            return None
        return self.prompt_verdict(prompt_token_ids, marker_ids, kwargs, search) == "over"

    def context(
        self,
        tools: Iterable[Mapping[str, Any]] | None,
        tool_choice: ToolChoice | None,
        kwargs: Mapping[str, Any],
        verdict: PromptVerdict,
        max_undecided: int = 65536,
        named: str | None = None,
    ) -> RequestContext:
        """Compile a request.

        `tools`: OpenAI tools; `tool_choice`: its kind; `named`: the function that it names; `verdict`: of
        `prompt_verdict`.
        """
        tools, part = list(tools or ()), self.reasoning
        reasoning: Literal["off", "open", "over"] = "off"
        initial = part.initial(kwargs) if part is not None else "off"
        if initial != "off":
            open_ = verdict == "open" or (verdict == "unknown" and initial == "open")
            reasoning = "open" if open_ else "over"
        asked = bool(tools) and tool_choice != "none"
        form: Literal["", "required", "named"] = ""
        if asked and self.forces_json:
            if tool_choice == "required":
                form = "required"
            elif tool_choice == "named" and named is not None:
                form = "named"
        return RequestContext(
            reasoning=reasoning,
            tools=self.tools is not None and (asked or self._absorbs),
            asked=self.tools is not None and asked,
            forced=asked and tool_choice in ("required", "named"),
            types=compile_tools(tools) if asked and self.tools and self.tools.typed else {},
            max_undecided=max_undecided,
            json=form,
            named=named if form == "named" else None,
            promotes=part is not None and part.promotes is not None and part.promotes(kwargs),
            variant=self._chosen(kwargs),
        )

    def start(self, context: RequestContext, token_markers: frozenset[str]) -> Machine:
        """A machine at the first output token. `token_markers`: the markers that will come as `Marker`."""
        return Machine(context, self.table(context, token_markers))

    def resume(self, context: RequestContext, token_markers: frozenset[str], state: State) -> Machine:
        """A machine that goes on where another left its `Machine.state`.

        Raises ValueError if the state is not one of this family.
        """
        return Machine(context, self.table(context, token_markers), state)

    def table(self, context: RequestContext, token_markers: frozenset[str]) -> Table:
        """What runs the machines of a request."""
        return self._variant(context)._table(context, token_markers)

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Raises UnfitRequestError where template variables choose what there is not."""
        self._chosen(kwargs)

    @cached_property
    def _variants(self) -> dict[tuple[str, str], Family]:
        """The families that the variables of a request's template choose among."""
        thoughts: Mapping[str, ReasoningGrammar | None] = {"": self.reasoning}
        calls: Mapping[str, ToolGrammar | None] = {"": self.tools}
        if self.reasoning and self.reasoning.variants:
            thoughts = self.reasoning.variants
        if self.tools and self.tools.variants:
            calls = self.tools.variants
        if len(thoughts) == len(calls) == 1:
            return {}
        return {
            (first, second): Family(thoughts[first], calls[second], self.enforces_tags)
            for first in thoughts
            for second in calls
        }

    def _chosen(self, kwargs: Mapping[str, Any]) -> tuple[str, str]:
        return _choice(self.reasoning, kwargs), _choice(self.tools, kwargs)

    def _variant(self, context: RequestContext) -> Family:
        if not self._variants:
            return self
        if context.variant not in self._variants:
            raise ValueError("the request's formats are none of the parsers'")
        return self._variants[context.variant]

    @property
    def _absorbs(self) -> bool:
        return all(part.absorbs for part in (self.reasoning, self.tools) if part)

    @property
    def _channels(self) -> Channels | None:
        return next((part.channels for part in (self.reasoning, self.tools) if part and part.channels), None)

    def _table(self, context: RequestContext, token_markers: frozenset[str]) -> Table:
        key = (context.reasoning != "off", context.tools, context.json, context.forced, token_markers)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._compile(*key)
        return table

    def _compile(
        self, reasoning: bool, tools: bool, form: str, forced: bool, token_markers: frozenset[str]
    ) -> Table:
        part, grammar = self.reasoning, self.tools
        content = grammar or part
        regions = {}
        for name, region in self._regions(reasoning, tools, form, forced).items():
            owner = part if name == "reasoning" else content
            absorbs = owner is not None and owner.absorbs
            regions[name] = CompiledRegion(name, region, token_markers, absorbs)
        channels = self._channels
        return Table(
            regions,
            start=part.begin if reasoning and part and part.begin else self._start(tools, form, forced),
            strip=grammar is not None and grammar.strip,
            tight=grammar is not None and (grammar.strip or grammar.absorbs),
            blank=grammar is not None and grammar.blank,
            empty=part.empty if part else "",
            counted=_counted(part) if reasoning and part else None,
            end_counts=part is not None and part.end_counts,
            strip_reasoning=(part is not None and part.strip) or (channels is not None and channels.trims),
            skip=part.skip if part else "",
            lead=part.lead if part else "",
            separator=channels.separator if channels else "",
            trims=channels is not None and channels.trims,
            rewrite=part.rewrite if part else None,
        )

    def _start(self, tools: bool, form: str, forced: bool) -> str:
        """The region in which content begins."""
        if form:
            return form
        channels = self._channels
        if channels is not None:
            return channels.start
        if not tools or self.tools is None:
            return "content"
        return (self.tools.forced_start if forced else None) or self.tools.start

    def _regions(self, reasoning: bool, tools: bool, form: str, forced: bool = False) -> dict[str, Region]:
        part = self.reasoning if reasoning and self.reasoning and not self.reasoning.lead else None
        if self._channels is not None:
            regions = dict(self._channels.regions)
            if not tools:
                regions |= self._channels.unasked
            if self.reasoning is None and not self._channels.always_reasons:
                for name, region in regions.items():
                    if region.text is Text.REASONING:
                        regions[name] = replace(region, text=Text.DROP)
            return regions | (dict(FORCED_REGIONS) if form else {})
        grammar = self.tools if tools else None
        kept = self.reasoning is not None and self.reasoning.off_is_text and not reasoning
        absorbed = self.reasoning and self._absorbs and (reasoning or self.tools) and not kept
        calls = grammar.content if grammar else ()
        if grammar and grammar.doubted and not self._absorbs:
            calls = tuple(replace(on, tentative=True) for on in calls)
        ons = {on.marker: on for on in (*calls, *(part.content if part else ()))}
        if self.reasoning and absorbed and self.reasoning.end:
            ons.setdefault(self.reasoning.end, On(self.reasoning.end, "content"))
        regions = {
            "content": Region(Text.CONTENT, tuple(ons.values())),
            **(grammar.regions if grammar else {}),
            **(FORCED_REGIONS if form else {}),
        }
        first = self._start(tools, form, forced)
        if part and part.content and first != "content" and regions[first].text is Text.CONTENT:
            # What means something in content does at its beginning too; a wrapper leaves it a beginning.
            begin = regions[first]
            known = {on.marker for on in begin.on}
            more = (on for on in part.content if on.marker not in known)
            wraps = tuple(replace(on, to=first) if on.to == "content" else on for on in more)
            regions[first] = replace(begin, on=(*begin.on, *wraps))
        if part:
            again = tuple(On(marker, "reasoning") for marker in (part.start, *part.other_starts) if marker)
            over = tuple(On(marker, first) for marker in (part.end, *part.other_ends) if marker)
            ends = tuple(On(marker, first, keep=True) for marker in part.ends)
            regions |= part.regions
            if part.begin:
                regions[part.begin] = replace(regions[part.begin], on_text=first)
            regions["reasoning"] = Region(Text.REASONING, (*again, *over, *ends))
            if absorbed and part.end:  # behind an opener in the reasoning that opened no call, the answer
                for name, region in regions.items():
                    if region.text is Text.DROP and part.end not in (on.marker for on in region.on):
                        regions[name] = replace(region, on=(*region.on, On(part.end, "content")))
        return regions


def _counted(part: ReasoningGrammar) -> tuple[str, ...] | None:
    """`Table.counted` of a grammar."""
    if part.counted == "section":
        return None
    return (part.start, part.end, *part.other_ends) if part.counted == "marked" else ()


def _choice(part: ReasoningGrammar | ToolGrammar | None, kwargs: Mapping[str, Any]) -> str:
    """What the template's variables choose of a grammar, "" where there is nothing to choose."""
    if part is None or not part.variants:
        return ""
    variable, default = part.chosen_by
    value = default if kwargs.get(variable) is None else kwargs[variable]
    if not isinstance(value, str) or value not in part.variants:
        known = ", ".join(part.variants)
        raise UnfitRequestError(f"Unsupported {variable} {value!r}. Supported values: {known}.")
    return value
