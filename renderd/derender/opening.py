"""Where a stream stands when its next event comes: read from the state, or worked out from the request."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from parsers import PromptVerdict
from parsers.events import CallArguments, CallStart, Event
from renderd import telemetry
from renderd.derender import checks
from renderd.derender.choice import ChoiceDecoder
from renderd.derender.context import Context
from renderd.derender.detokenizer import Window
from renderd.derender.memory import (
    MEMORIES,
    Memory,
    SharedCache,
    footprint,
    history_digest,
    origin_digest,
    packed,
    unpacked,
)
from renderd.derender.message import text_of
from renderd.derender.plan import Plan
from renderd.derender.route import COMPLETION, MessageRoute, Route
from renderd.derender.setup import Setup
from renderd.derender.stops import StopSearch
from renderd.model.hurry import takes_long
from renderd.wire.derender import (
    DerenderCompletionStreamRequest,
    PromptIds,
    StreamedEvent,
    decode_field,
    is_null,
)
from renderd.wire.errors import bad_request
from renderd.wire.generate import GenerateChunk
from renderd.wire.state import DerenderStreamState, unpack

T = TypeVar("T")

_BRIEF_BYTES = 16384
"""Of a prompt's ids that are read in less than a millisecond."""


class Stream(msgspec.Struct):
    """A stream between two events.

    Attributes:
        model: what answers call the model.
        state: the next state, as far as it is known.
        memory: what goes into its `parser_state`.
        plan, context: the compiled request, with what follows from it and alone.
        decoder: ready for the next ids.
        missed: what the history said but no client has heard.
        echo: the prompt, where this is the first event and the answer is to begin with it.
        keeps_history: the state carries the history.
    """

    model: str
    state: DerenderStreamState
    memory: Memory
    plan: Plan
    context: Context
    decoder: ChoiceDecoder
    missed: Sequence[Event] = ()
    echo: str = ""
    keeps_history: bool = False


class Opening:
    """Opens streams; holds the caches of a process. Raises ApiError, or ValueError for a bad state."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._fingerprint = bytes.fromhex(setup.options.fingerprint)
        self._plans: SharedCache[Plan] = SharedCache()
        self._snapshots: SharedCache[tuple[bytes, Sequence[Event]]] = SharedCache()

    def message(self, body: StreamedEvent, route: MessageRoute[T]) -> Stream:
        """A stream of a message at this event, over any of the routes that answer with one."""
        setup, state = self._setup, body.stream_state
        if state is not None and state.parser_state is not None:
            return self._resume(body, state, state.parser_state, route)
        request = route.request(body, stream=True)
        prompt = _read_prompt(body.prompt_token_ids, route.body(stream=True))
        prompt_tokens = len(prompt or ())
        model = setup.model_name(body.model)
        if setup.family is None:
            plan = setup.plan(route.context(setup, request, "unknown", prompt_tokens))
            memory = self._begin(route.name, plan, "unknown", prompt)
            self._check_chunk(body.generate_chunk, memory)
            _check_plain(state, plan.context)
            return self._plain(model, state, memory, plan, prompt, body.generate_chunk)
        if request is None:
            raise bad_request(checks.request_needed(route.field))
        if prompt is None:
            raise bad_request(checks.PROMPT_NEEDED)
        verdict = setup.prompt_verdict(route.as_chat(request), prompt)
        plan = setup.plan(route.context(setup, request, verdict, prompt_tokens))
        memory = self._begin(route.name, plan, verdict, prompt)
        memory.window = plan.detokenizer.seed(prompt)
        state = state or DerenderStreamState()
        history = len(state.output_token_ids)
        self._check_chunk(body.generate_chunk, memory, history)
        if setup.options.replayable or history:
            memory.origin = origin_digest(
                body.generate_chunk.request_id.encode("utf-8", "surrogatepass"),
                bytes(getattr(body, route.field)),
                bytes(body.prompt_token_ids),
            )
        if history:
            return self._replay(model, state, memory, plan)
        if state.logprob_context_token_ids:
            raise bad_request(
                "stream_state has lost its parser_state and holds no history to replay. Send stream_state "
                "back unchanged, or start the server with --stream-state replayable."
            )
        return self._stream(model, state, memory, plan)

    def completion(self, body: DerenderCompletionStreamRequest) -> Stream:
        """A completion stream at this event."""
        setup, state = self._setup, body.stream_state
        if state is not None and state.parser_state is not None:
            return self._resume(body, state, state.parser_state, COMPLETION)
        request = COMPLETION.request(body)
        plan = setup.plan(setup.completion_context(request))
        prompt = _read_prompt(body.prompt_token_ids, COMPLETION.body)
        model = setup.model_name(body.model)
        checks.check_prompt(setup, prompt)
        memory = self._begin(COMPLETION.name, plan, "unknown", prompt)
        self._check_chunk(body.generate_chunk, memory)
        _check_plain(state, plan.context)
        stream = self._plain(model, state, memory, plan, prompt, body.generate_chunk)
        echoes = setup.echoes(request) if state is None else []
        stream.echo = echoes[0] if len(echoes) == 1 else ""
        return stream

    def close(self, stream: Stream) -> DerenderStreamState:
        """The state for the next event. With a history, it is found again without `parser_state`."""
        state = stream.state
        data = state.parser_state = stream.memory.write()
        telemetry.wrote_state(checks.check_state(self._setup, data))
        if stream.keeps_history:
            state.logprob_text_offset = len(state.output_token_ids)
            if stream.memory.origin:
                self._keep(state, data, stream.memory.origin)
        return state

    def _resume(self, body: StreamedEvent, state: DerenderStreamState, data: bytes, route: Route) -> Stream:
        """A stream that has begun. `data`: the state's `parser_state`."""
        setup = self._setup
        model = setup.model_name(body.model)
        memory = self._read(data, route.name)
        plan = self._plans.get(memory.context)
        if not memory.travels:
            plan = self._told_again(plan, body, memory, route)
        elif plan is None:
            plan = setup.plan(unpacked(memory.context))
            self._plans.put(memory.context, plan, footprint(len(memory.context)))
        self._check_chunk(body.generate_chunk, memory)
        return self._stream(model, state, memory, plan)

    def _told_again(self, plan: Plan | None, body: StreamedEvent, memory: Memory, route: Route) -> Plan:
        """The plan of a request that does not travel, though this process may know it."""
        if is_null(getattr(body, route.field)):
            raise bad_request(
                "stream_state holds only a digest of this request, which is too large to travel in it: send "
                "the request with every chunk."
            )
        if plan is None:
            takes_long()
            plan = self._setup.plan(route.compile(self._setup, body, memory.verdict, memory.prompt_tokens))
            key, travels, size = packed(plan.context)
            if travels or key != memory.context:
                raise bad_request("the request is not the one that this stream_state began with")
            self._plans.put(key, plan, size)
        return plan

    def _read(self, data: bytes, route: str) -> Memory:
        """What a `parser_state` says. Raises ValueError if it is not one, or that of another route or of a
        server that would go on otherwise."""
        checks.check_state(self._setup, data)
        memory = unpack(data, MEMORIES)
        if memory.fingerprint != self._fingerprint:
            raise ValueError(
                f"it was made under the fingerprint {memory.fingerprint.hex()}, and this server has "
                f"{self._fingerprint.hex()}: model files, template, parsers and defaults must be the same on "
                "all replicas"
            )
        if memory.route != route:
            raise ValueError(f"it is that of a stream of the route {memory.route}, not {route}")
        return memory

    def _begin(self, route: str, plan: Plan, verdict: PromptVerdict, prompt: Sequence[int] | None) -> Memory:
        key, travels, size = packed(plan.context)
        self._plans.put(key, plan, size)
        now, count = self._setup.now(), len(prompt or ())
        return Memory(self._fingerprint, route, now, verdict, key, travels, count)

    def _check_chunk(self, chunk: GenerateChunk, memory: Memory, history: int = 0) -> None:
        if (count := len(chunk.choices)) > 1:
            if memory.route == "completion":
                raise bad_request("derender_completion_stream expects at most one choice per chunk")
            raise bad_request(f"derender_chat_stream expects at most one choice per chunk (got {count}).")
        delta = 0
        for choice in chunk.choices:
            if memory.choice not in (None, choice.index):
                raise bad_request(
                    f"stream_state is that of choice {memory.choice}, not of choice {choice.index}: keep one "
                    "for each index."
                )
            memory.choice = choice.index
            delta += len(choice.token_ids or ())
        checks.check_total(self._setup, memory.prompt_tokens, memory.tokens + history, delta)

    def _plain(
        self,
        model: str,
        state: DerenderStreamState | None,
        memory: Memory,
        plan: Plan,
        prompt: Sequence[int] | None,
        chunk: GenerateChunk,
    ) -> Stream:
        """A plain stream without memory: its first event, or the window of a state that vLLM made."""
        if state is None:
            seed = prompt if prompt is not None else chunk.prompt_token_ids
            window = plan.detokenizer.seed(seed or ())
            state = DerenderStreamState(window.pieces, window.prefix, window.read)
        return self._stream(model, state, memory, plan)

    def _stream(
        self,
        model: str,
        state: DerenderStreamState,
        memory: Memory,
        plan: Plan,
        missed: Sequence[Event] = (),
    ) -> Stream:
        context, machine, keeps_history = plan.context, None, False
        if plan.table is None:
            window = Window(state.prev_tokens, state.prefix_offset, state.read_offset)
        elif memory.window is None:
            raise ValueError("parser_state is malformed")
        else:
            window = memory.window
            machine = plan.machine(memory.parser)
            keeps_history = self._setup.options.replayable or bool(state.output_token_ids)
        if not 0 <= window.prefix <= window.read <= len(window.pieces):
            raise ValueError("offsets are outside prev_tokens")
        held = memory.held_lexemes() if memory.held else []
        search = StopSearch(context.stop, context.min_tokens, context.include_stop, held)
        decoder = ChoiceDecoder(plan.detokenizer, window, search, machine, memory.uncounted)
        return Stream(model, state, memory, plan, context, decoder, missed, "", keeps_history)

    def _replay(self, model: str, state: DerenderStreamState, memory: Memory, plan: Plan) -> Stream:
        """A stream whose state has a history alone: vLLM made it, or the client dropped the rest."""
        key = history_digest(memory.origin, state)
        kept = self._snapshots.get(key)
        if kept is not None:
            return self._stream(model, state, self._read(kept[0], memory.route), plan, kept[1])
        takes_long()
        telemetry.replayed()
        stream = self._stream(model, state, memory, plan)
        events = stream.decoder.feed(state.output_token_ids, tokens_before=0, final=False)
        memory.tokens = len(state.output_token_ids)
        memory.ended = stream.decoder.search.matched is not None
        memory.save(stream.decoder)
        if state.logprob_text_offset != len(state.output_token_ids):
            late = stream.decoder.machine.late_arguments if stream.decoder.machine else ""
            stream.missed = self._carry_on(state, memory, plan, events, late)
        self._keep(state, memory.write(), memory.origin, stream.missed)
        return stream

    def _carry_on(
        self,
        state: DerenderStreamState,
        memory: Memory,
        plan: Plan,
        events: Sequence[Event],
        late: str,
    ) -> list[Event]:
        """Reconcile what this parser said of a history with what vLLM sent of it; return what is to be sent.

        vLLM may have sent the name of a call before or after this parser says it, and the end of a value
        (`late`) it sends with what follows. Where whitespace before a call is kept, it does not wait with it.
        """
        memory.calls_sent = len(state.last_tool_call_ids)
        tools = self._setup.family.tools if self._setup.family else None
        machine = plan.machine(copy.deepcopy(memory.parser))
        if machine is not None and tools is not None and not tools.strip:
            text = text_of(machine.finish())
            memory.blank_sent = text if text.isspace() else ""
        missed: list[Event] = [
            event
            for event in events
            if isinstance(event, CallStart | CallArguments) and event.index >= memory.calls_sent
        ]
        if late and not missed:
            missed.append(CallArguments(memory.calls_sent - 1, late))
        return missed

    def _keep(
        self, state: DerenderStreamState, data: bytes, origin: bytes, missed: Sequence[Event] = ()
    ) -> None:
        key = history_digest(origin, state)
        size = len(data) + sum(len(event.text) for event in missed if isinstance(event, CallArguments))
        self._snapshots.put(key, (data, missed), size)


def _check_plain(state: DerenderStreamState | None, context: Context) -> None:
    if state is not None and state.logprob_context_token_ids and context.stop:
        raise bad_request(
            "stream_state has lost its parser_state, which holds back text that may begin a stop string. "
            "Send stream_state back unchanged."
        )


def _read_prompt(value: Raw, loc: str) -> list[int] | None:
    if is_null(value):
        return None
    if len(value) > _BRIEF_BYTES:
        takes_long()
    ids: Any = decode_field(value, PromptIds, f"{loc}.prompt_token_ids")
    return list(ids)
