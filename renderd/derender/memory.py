"""What `parser_state` holds of one choice, and the snapshots kept for clients that drop it."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec

from parsers import PromptVerdict, State
from parsers.events import Marker, Skipped, Special
from renderd.derender.choice import ChoiceDecoder
from renderd.derender.context import Context
from renderd.derender.detokenizer import Lexeme, Rest, Window
from renderd.wire.state import DerenderStreamState, pack

MAX_CONTEXT_BYTES = 8192
"""A larger context stays with the client: the state holds its digest."""

CACHE_BYTES = 64 * 1024 * 1024
"""Of each cache of a process."""

T = TypeVar("T")

_KINDS: tuple[type[str], ...] = (str, Marker, Special, Rest, Skipped)


class Memory(msgspec.Struct, array_like=True):
    """The content of `parser_state`.

    Attributes:
        fingerprint: of the server that made it.
        route: that made it.
        created: Unix time of the first chunk.
        verdict: what the prompt said of the reasoning section.
        context: the compiled request, encoded, or the digest of one that is too large to travel.
        travels: it is the former.
        prompt_tokens, tokens: lengths of prompt and output so far.
        ended: the answer is over; ids that come later add nothing.
        pending: a token that is text or the stop token, as the next event decides; at most one.
        choice: index of the choice, None before its first event.
        held: lexemes that may begin a stop string, each with the number of its kind.
        window, parser: where detokenizer and parser are, of a parsed stream that has not ended.
        uncounted, reasoning_tokens: see ChoiceDecoder.
        calls_sent: calls whose start vLLM sent.
        blank_sent: blank content that vLLM sent and that the parser has still to say.
        origin: digest of request and prompt where snapshots are kept, else empty.
        answer: what a route keeps of the answer besides.
    """

    fingerprint: bytes
    route: str
    created: int
    verdict: PromptVerdict = "unknown"
    context: bytes = b""
    travels: bool = True
    prompt_tokens: int = 0
    tokens: int = 0
    ended: bool = False
    held: list[tuple[int, str]] = []
    window: Window | None = None
    parser: State | None = None
    uncounted: int = 0
    reasoning_tokens: int = 0
    calls_sent: int = 0
    blank_sent: str = ""
    origin: bytes = b""
    answer: Any = None
    pending: list[int] = []
    choice: int | None = None

    def save(self, decoder: ChoiceDecoder) -> None:
        """Note where a decoder is."""
        if self.held or decoder.search.held:
            self.held = [(_KINDS.index(type(lexeme)), str(lexeme)) for lexeme in decoder.search.held]
        if decoder.machine is not None:
            self.window = decoder.window
            self.parser = None if self.ended else decoder.machine.state
            self.uncounted = decoder.uncounted
            self.reasoning_tokens = decoder.reasoning_tokens

    def held_lexemes(self) -> list[Lexeme]:
        """The lexemes kept. Raises ValueError if a kind is unknown."""
        lexemes: list[Lexeme] = []
        for kind, text in self.held:
            if not 0 <= kind < len(_KINDS):
                raise ValueError("parser_state is malformed")
            lexemes.append(_KINDS[kind](text))
        return lexemes

    def write(self) -> bytes:
        """As `parser_state`."""
        return pack(self)


MEMORIES = msgspec.msgpack.Decoder(Memory)
_CONTEXTS = msgspec.msgpack.Decoder(Context)
_ENCODER = msgspec.msgpack.Encoder()


def packed(context: Context) -> tuple[bytes, bool, int]:
    """A context encoded, or the digest of one that is too large to travel; whether it travels; and the bytes
    that it takes in memory."""
    encoded = _ENCODER.encode(context)
    travels, size = len(encoded) <= MAX_CONTEXT_BYTES, footprint(len(encoded))
    return encoded if travels else hashlib.blake2b(encoded, digest_size=16).digest(), travels, size


def footprint(encoded: int) -> int:
    """Bytes that a context of so many encoded ones takes in memory, with its key and plan, at most."""
    return 1024 + 8 * encoded


def unpacked(encoded: bytes) -> Context:
    """The context that was encoded. Raises ValueError if none was."""
    return _CONTEXTS.decode(encoded)


def origin_digest(*parts: bytes) -> bytes:
    """Digest of what a stream came from."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def history_digest(origin: bytes, state: DerenderStreamState) -> bytes:
    """Digest of a stream's origin and of all that vLLM's fields say of it.

    Raises OverflowError for ids that no tokenizer has.
    """
    said = [state.logprob_text_offset, len(state.last_tool_call_ids)]
    numbers = (state.output_token_ids, state.output_chunk_lens, said)
    return origin_digest(origin, *(array("q", part).tobytes() for part in numbers))


class SharedCache(Generic[T]):
    """A cache for threads, bounded in bytes; what was least recently used goes first."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._items: OrderedDict[bytes, tuple[T, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> T | None:
        """What was put under the key, if it is still there."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
        return item[0]

    def put(self, key: bytes, value: T, size: int) -> None:
        """Keep a value of about `size` bytes, if it fits at all."""
        if size <= self._max_bytes:
            with self._lock:
                self._bytes += size - self._items.get(key, (None, 0))[1]
                self._items[key] = (value, size)
                while self._bytes > self._max_bytes:
                    self._bytes -= self._items.popitem(last=False)[1][1]
