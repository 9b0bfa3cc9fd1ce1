"""What a replica is set up with: model, parsers, options, and what follows from them once and for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from parsers import Family, PromptVerdict, UnfitRequestError
from parsers.events import Anomaly, Event, Marker, Skipped, Special
from renderd import telemetry
from renderd.derender.context import (
    Context,
    chat_candidates,
    common_fields,
    completion_candidates,
)
from renderd.derender.detokenizer import Detokenizer
from renderd.derender.logprobs import LogprobDecoder
from renderd.derender.plan import Plan
from renderd.derender.stops import stop_ids
from renderd.model import Model
from renderd.model.template_kwargs import effective_kwargs
from renderd.wire.chat import ChatCompletionRequest, named_function, tool_choice_kind, tool_dicts
from renderd.wire.completion import CompletionRequest
from renderd.wire.errors import bad_request

COUNTING_MODELS = ("kimi_k2", "kimi_k25", "kimi_k3")
"""Values of `model_type` whose tool calls are numbered instead of having random ids (contract E.8)."""


@dataclass(frozen=True)
class DerenderOptions:
    """What flags say.

    Attributes:
        max_logprobs: candidates of a token that a request may ask for, negative for any number.
        max_undecided_bytes: text that a parser holds back at most before it calls it content.
        replayable: stream states carry the history by which vLLM can take a parsed stream over.
        max_n: choices of a response.
        response_role: role of an answer that follows a generation prompt.
        fingerprint: of what replicas must have in common, in hexadecimal digits.
        max_state_bytes: of a `parser_state`.
        max_answer_bytes: of a completion that repeats its prompt for each choice.
    """

    max_logprobs: int = 20
    max_undecided_bytes: int = 65536
    replayable: bool = False
    max_n: int = 16384
    response_role: str = "assistant"
    fingerprint: str = ""
    max_state_bytes: int = 4 * 1024 * 1024
    max_answer_bytes: int = 256 * 1024 * 1024


class Setup:
    """Immutable and shared by all calls of a process."""

    def __init__(
        self,
        model: Model,
        family: Family | None,
        options: DerenderOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.model = model
        self.family = family
        self.options = options
        self.logprobs = LogprobDecoder(model.tokenizer)
        self._clock = clock
        self._prompt_marker_ids = model.prompt_marker_ids(family.prompt_markers if family else ())
        self._marker_ids = self._ids(family.markers if family else ())
        self._token_markers = frozenset(self._marker_ids)
        self._plain: dict[tuple[bool, bool], Detokenizer] = {}
        self._parsed: dict[tuple[bool, bool], Detokenizer] = {}
        for skip, spaces in product((False, True), (False, True)):
            self._plain[skip, spaces] = Detokenizer(model.tokenizer, skip_special=skip, spaces=spaces)
            self._parsed[skip, spaces] = self._parsing_detokenizer(skip, spaces)

    def _ids(self, markers: Iterable[str]) -> dict[str, int]:
        """Those that are one vocabulary entry."""
        ids = {marker: self.model.tokenizer.token_id(marker) for marker in markers}
        return {marker: token_id for marker, token_id in ids.items() if token_id is not None}

    def _parsing_detokenizer(self, skip_special: bool, spaces: bool) -> Detokenizer:
        tokenizer = self.model.tokenizer
        atoms: dict[int, Marker | Special] = {}
        if not skip_special:
            atoms |= {
                token_id: Special(tokenizer.piece(token_id) or "")
                for token_id in tokenizer.special_ids - tokenizer.silent_ids
            }
        for marker, token_id in self._marker_ids.items():
            skipped = skip_special and token_id in tokenizer.special_ids
            atoms[token_id] = Skipped(marker) if skipped else Marker(marker)
        return Detokenizer(tokenizer, skip_special=skip_special, spaces=spaces, atoms=atoms)

    @property
    def parsers(self) -> str:
        """The configured parsers, by the first of their names."""
        parts = (self.family.reasoning, self.family.tools) if self.family else ()
        return "+".join(part.names[0] if part else "" for part in parts)

    def now(self) -> int:
        """Unix time in seconds."""
        return int(self._clock())

    def model_name(self, requested: str | None) -> str:
        """What an answer calls the model. Raises ApiError 404 when it is not served here."""
        self.model.check_name(requested)
        return requested or self.model.served_names[0]

    def report(self, events: Sequence[Event]) -> None:
        """Count what a parser could make nothing of."""
        for event in events:
            if isinstance(event, Anomaly):
                telemetry.met(self.parsers, event.kind, event.characters)

    def plan(self, context: Context) -> Plan:
        """How the answer to a request is read. Raises ValueError if the parsers have no such formats."""
        model, parser = self.model, context.parser
        detokenizers = self._parsed if parser else self._plain
        return Plan(
            context,
            detokenizers[context.skip_special_tokens, context.spaces],
            self.family.table(parser, self._token_markers) if self.family and parser else None,
            stop_ids(context, model.tokenizer.eos_token_id, model.eos_token_ids),
        )

    def prompt_verdict(
        self, request: ChatCompletionRequest, prompt_token_ids: Sequence[int] | None
    ) -> PromptVerdict:
        """Whether the prompt leaves reasoning open; "unknown" if its ids are."""
        if self.family is None or prompt_token_ids is None:
            return "unknown"
        return self.family.prompt_verdict(prompt_token_ids, self._prompt_marker_ids, self._kwargs(request))

    def chat_context(self, request: ChatCompletionRequest | None, verdict: PromptVerdict) -> Context:
        """Compile a chat request. With parsers configured, `request` must not be None."""
        if request is None:
            return Context(skip_special_tokens=self._skips_special(None))
        skip = self._skips_special(request.skip_special_tokens)
        family, role = self.family, self._role(request)
        if family is None:
            return Context(**common_fields(request, chat_candidates(request), skip), role=role)
        choice, tools = tool_choice_kind(request), tool_dicts(request)
        if family.skip_special_tokens(bool(tools), choice) is False:
            skip = False
        return Context(
            **common_fields(request, chat_candidates(request), skip),
            parser=family.context(
                tools,
                choice,
                self._kwargs(request),
                verdict,
                self.options.max_undecided_bytes,
                named_function(request),
            ),
            include_reasoning=request.include_reasoning,
            role=role,
            tool_choice=choice,
            keeps_calls=choice in ("required", "named")
            or (choice == "auto" and bool(tools) and family.has_tools),
            parallel=request.parallel_tool_calls is not False,
            first_call=self._first_call(request),
            nine=family.tools is not None and family.tools.call_ids == "nine",
        )

    def completion_context(self, request: CompletionRequest | None) -> Context:
        """Compile a completion request."""
        if request is None:
            return Context(skip_special_tokens=self._skips_special(None))
        skip = self._skips_special(request.skip_special_tokens)
        return Context(**common_fields(request, completion_candidates(request), skip))

    def echoes(self, request: CompletionRequest | None) -> list[str]:
        """The texts of the prompts, if answers are to begin with them."""
        if request is None or not request.echo:
            return []
        skip = self._skips_special(request.skip_special_tokens)
        return [
            prompt if isinstance(prompt, str) else self.model.tokenizer.decode(prompt, skip)
            for prompt in request.prompts
        ]

    def _role(self, request: ChatCompletionRequest) -> str:
        """An answer that continues a message has that message's role."""
        if request.add_generation_prompt or not request.messages:
            return self.options.response_role
        return str(request.messages[-1].get("role"))

    def _skips_special(self, requested: bool | None) -> bool:
        if requested is not None:
            return requested
        return bool(self.model.generation_defaults.get("skip_special_tokens", True))

    def _kwargs(self, request: ChatCompletionRequest) -> dict[str, object]:
        config = self.model.config
        kwargs = effective_kwargs(request, config.default_chat_template_kwargs, config.reasoning_effort_map)
        try:
            if self.family is not None:
                self.family.check(kwargs)
        except UnfitRequestError as error:
            raise bad_request(str(error)) from None
        return kwargs

    def _first_call(self, request: ChatCompletionRequest) -> int | None:
        """Where the call ids of a model that numbers its calls begin."""
        tools = self.family.tools if self.family else None
        if self.model.model_type not in COUNTING_MODELS or tools is None or not tools.absorbs:
            return None
        return 0
