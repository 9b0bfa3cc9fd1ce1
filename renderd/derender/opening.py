"""Where a stream stands when its next event comes: read from the state, or worked out from the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Raw

from parsers import PromptVerdict
from parsers.events import CallArguments, CallStart, Event
from renderd import telemetry
from renderd.derender import checks
from renderd.derender.choice import ChoiceDecoder
from renderd.derender.context import Context
from renderd.derender.detokenizer import Window
from renderd.derender.memory import (
    Memory,
    SharedCache,
    history_digest,
    origin_digest,
    read_memory,
    travels,
)
from renderd.derender.message import text_of
from renderd.derender.requests import read_completion_request
from renderd.derender.route import CHAT, MessageRoute
from renderd.derender.setup import Setup
from renderd.derender.stops import StopSearch
from renderd.model.hurry import takes_long
from renderd.wire.derender import (
    DerenderChatStreamRequest,
    DerenderCompletionStreamRequest,
    PromptIds,
    StreamedEvent,
    decode_field,
    is_null,
)
from renderd.wire.errors import bad_request
from renderd.wire.generate import GenerateChunk
from renderd.wire.state import DerenderStreamState

T = TypeVar("T")

_BRIEF_BYTES = 16384
"""Of a prompt's ids that are read in less than a millisecond."""
_COMPLETION = "body.DerenderCompletionStreamRequest"


@dataclass
class Stream:
    """A stream between two events.

    Attributes:
        model: what answers call the model.
        state: the next state, as far as it is known.
        memory: what goes into its `parser_state`.
        context: the compiled request.
        decoder: ready for the next ids.
        missed: what the history said but no client has heard.
        echo: the prompt, where this is the first event and the answer is to begin with it.
        keeps_history: the state carries the history.
    """

    model: str
    state: DerenderStreamState
    memory: Memory
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
        self._contexts: SharedCache[Context] = SharedCache()
        self._snapshots: SharedCache[tuple[str, Sequence[Event]]] = SharedCache()

    def chat(self, body: DerenderChatStreamRequest) -> Stream:
        """A chat stream at this event."""
        return self.message(body, CHAT)

    def message(self, body: StreamedEvent, route: MessageRoute[T]) -> Stream:
        """A stream of a message at this event, over any of the routes that answer with one."""
        setup, state, raw = self._setup, body.stream_state, getattr(body, route.field)
        name = route.api.lower()
        if state is not None and state.parser_state is not None:
            model = setup.model_name(body.model)
            memory = self._read(state.parser_state, name)
            verdict, prompt_tokens = memory.verdict, memory.prompt_tokens
            context = self._context(
                memory,
                raw,
                lambda raw: route.context(setup, route.request(body, stream=True), verdict, prompt_tokens),
            )
            self._check_chunk(body.generate_chunk, memory)
            return self._stream(model, state, memory, context)
        request = route.request(body, stream=True)
        prompt = _read_prompt(body.prompt_token_ids, route.body(stream=True))
        prompt_tokens = len(prompt or ())
        model = setup.model_name(body.model)
        if setup.family is None:
            context = route.context(setup, request, "unknown", prompt_tokens)
            memory = self._begin(name, context, "unknown", prompt)
            self._check_chunk(body.generate_chunk, memory)
            _check_plain(state, context)
            return self._plain(model, state, memory, context, prompt, body.generate_chunk)
        if request is None:
            raise bad_request(checks.request_needed(route.field))
        if prompt is None:
            raise bad_request(checks.PROMPT_NEEDED)
        verdict = setup.prompt_verdict(route.as_chat(request), prompt)
        context = route.context(setup, request, verdict, prompt_tokens)
        memory = self._begin(name, context, verdict, prompt)
        memory.window = setup.detokenizer(context).seed(prompt)
        state = state or DerenderStreamState()
        history = len(state.output_token_ids)
        self._check_chunk(body.generate_chunk, memory, history)
        if setup.options.replayable or history:
            memory.origin = origin_digest(
                body.generate_chunk.request_id.encode("utf-8", "surrogatepass"),
                bytes(raw),
                bytes(body.prompt_token_ids),
            )
        if history:
            return self._replay(model, state, memory, context)
        if state.logprob_context_token_ids:
            raise bad_request(
                "stream_state has lost its parser_state and holds no history to replay. Send stream_state "
                "back unchanged, or start the server with --stream-state replayable."
            )
        return self._stream(model, state, memory, context)

    def completion(self, body: DerenderCompletionStreamRequest) -> Stream:
        """A completion stream at this event."""
        setup, state = self._setup, body.stream_state
        loc = f"{_COMPLETION}.completion_request"
        if state is not None and state.parser_state is not None:
            model = setup.model_name(body.model)
            memory = self._read(state.parser_state, "completion")
            context = self._context(
                memory,
                body.completion_request,
                lambda raw: setup.completion_context(read_completion_request(raw, loc)),
            )
            self._check_chunk(body.generate_chunk, memory)
            return self._stream(model, state, memory, context)
        request = read_completion_request(body.completion_request, loc)
        context = setup.completion_context(request)
        prompt = _read_prompt(body.prompt_token_ids, _COMPLETION)
        model = setup.model_name(body.model)
        checks.check_prompt(setup, prompt)
        memory = self._begin("completion", context, "unknown", prompt)
        self._check_chunk(body.generate_chunk, memory)
        _check_plain(state, context)
        stream = self._plain(model, state, memory, context, prompt, body.generate_chunk)
        echoes = setup.echoes(request) if state is None else []
        stream.echo = echoes[0] if len(echoes) == 1 else ""
        return stream

    def close(self, stream: Stream) -> DerenderStreamState:
        """The state for the next event. With a history, it is found again without `parser_state`."""
        state = stream.state
        text = state.parser_state = stream.memory.write()
        checks.check_state(self._setup, text)
        telemetry.wrote_state(len(text))
        if stream.keeps_history:
            state.logprob_text_offset = len(state.output_token_ids)
            if stream.memory.origin:
                self._keep(state, text, stream.memory.origin)
        return state

    def _read(self, text: str, route: str) -> Memory:
        checks.check_state(self._setup, text)
        return read_memory(text, self._fingerprint, route)

    def _begin(
        self, route: str, context: Context, verdict: PromptVerdict, prompt: Sequence[int] | None
    ) -> Memory:
        digest, size = travels(context)
        if digest:
            self._contexts.put(digest, context, size)
        return Memory(
            self._fingerprint,
            route,
            self._setup.now(),
            verdict,
            None if digest else context,
            digest,
            prompt_tokens=len(prompt or ()),
        )

    def _context(self, memory: Memory, raw: Raw, compile: Callable[[Raw], Context]) -> Context:
        """The compiled request of a stream that has begun."""
        if memory.context is not None:
            return memory.context
        if is_null(raw):
            raise bad_request(
                "stream_state holds only a digest of this request, which is too large to travel in it: send "
                "the request with every chunk."
            )
        context = self._contexts.get(memory.digest)
        if context is None:
            takes_long()
            context = compile(raw)
            digest, size = travels(context)
            if digest != memory.digest:
                raise bad_request("the request is not the one that this stream_state began with")
            self._contexts.put(digest, context, size)
        return context

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
        context: Context,
        prompt: Sequence[int] | None,
        chunk: GenerateChunk,
    ) -> Stream:
        """A plain stream without memory: its first event, or the window of a state that vLLM made."""
        if state is None:
            seed = prompt if prompt is not None else chunk.prompt_token_ids
            window = self._setup.detokenizer(context).seed(seed or ())
            state = DerenderStreamState(window.pieces, window.prefix, window.read)
        return self._stream(model, state, memory, context)

    def _stream(
        self,
        model: str,
        state: DerenderStreamState,
        memory: Memory,
        context: Context,
        missed: Sequence[Event] = (),
    ) -> Stream:
        setup = self._setup
        machine = None
        if context.parser is None:
            window = Window(state.prev_tokens, state.prefix_offset, state.read_offset)
        else:
            if memory.window is None:
                raise ValueError("parser_state is malformed")
            window = memory.window
            machine = setup.machine(context.parser, memory.snapshot)
        search = StopSearch(
            context.stop,
            min_tokens=context.min_tokens,
            include=context.include_stop,
            held=memory.held_lexemes(),
        )
        decoder = ChoiceDecoder(setup.detokenizer(context), window, search, machine, memory.uncounted)
        keeps_history = machine is not None and (setup.options.replayable or bool(state.output_token_ids))
        return Stream(model, state, memory, context, decoder, missed, keeps_history=keeps_history)

    def _replay(self, model: str, state: DerenderStreamState, memory: Memory, context: Context) -> Stream:
        """A stream whose state has a history alone: vLLM made it, or the client dropped the rest."""
        key = history_digest(memory.origin, state)
        kept = self._snapshots.get(key)
        if kept is not None:
            return self._stream(model, state, self._read(kept[0], memory.route), context, kept[1])
        takes_long()
        telemetry.replayed()
        stream = self._stream(model, state, memory, context)
        events = stream.decoder.feed(state.output_token_ids, tokens_before=0, final=False)
        memory.tokens = len(state.output_token_ids)
        memory.ended = stream.decoder.search.matched is not None
        memory.save(stream.decoder)
        if state.logprob_text_offset != len(state.output_token_ids):
            late = stream.decoder.machine.late_arguments if stream.decoder.machine else ""
            stream.missed = self._carry_on(state, memory, context, events, late)
        self._keep(state, memory.write(), memory.origin, stream.missed)
        return stream

    def _carry_on(
        self,
        state: DerenderStreamState,
        memory: Memory,
        context: Context,
        events: Sequence[Event],
        late: str,
    ) -> list[Event]:
        """Reconcile what this parser said of a history with what vLLM sent of it; return what is to be sent.

        vLLM may have sent the name of a call before or after this parser says it, and the end of a value
        (`late`) it sends with what follows. Where whitespace before a call is kept, it does not wait with it.
        """
        memory.calls_sent = len(state.last_tool_call_ids)
        tools = self._setup.family.tools if self._setup.family else None
        if context.parser is not None and tools is not None and not tools.strip:
            text = text_of(self._setup.machine(context.parser, memory.snapshot).finish())
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
        self, state: DerenderStreamState, text: str, origin: bytes, missed: Sequence[Event] = ()
    ) -> None:
        key = history_digest(origin, state)
        size = len(text) + sum(len(event.text) for event in missed if isinstance(event, CallArguments))
        self._snapshots.put(key, (text, missed), size)


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
