"""`stream_state` of a derendered stream: vLLM's fields and one opaque string (contract E.7)."""

from __future__ import annotations

import zlib
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T", bound=msgspec.Struct)

VERSION = 3
"""Of the layout inside `parser_state`. Another version is refused, never guessed at."""

_ENCODER = msgspec.msgpack.Encoder()
_HEAD = bytes([VERSION])
_CHECKSUM_BYTES = 4

Offset = Annotated[int, Meta(ge=0)]


class DerenderStreamState(msgspec.Struct):
    """What a stream needs at its next chunk; the client carries it. Every key is always written.

    Attributes:
        prev_tokens, prefix_offset, read_offset: the detokenizer's window (contract E.3), plain streams only.
        role_sent: the role is out.
        logprob_context_token_ids: the last four sampled ids, the stop token included.
        logprob_text_offset: where the next `text_offset` of a completion starts, in characters. A chat has no
            use for it: there it is the length of the history as renderd left it, which tells whether vLLM has
            carried the stream on since.
        output_token_ids, output_chunk_lens: history of a parsed stream, by which vLLM replays it.
        tools_streamed: a tool call is out.
        last_tool_call_ids: ids of the calls in the history, by call index.
        parser_state: everything else (`pack`), in JSON as base64; null in a state that vLLM made.
    """

    prev_tokens: Annotated[list[str], Meta(max_length=1024)] = []
    prefix_offset: Offset = 0
    read_offset: Offset = 0
    role_sent: bool = False
    logprob_context_token_ids: Annotated[list[int], Meta(max_length=4)] = []
    logprob_text_offset: Offset = 0
    output_token_ids: list[int] = []
    output_chunk_lens: list[Annotated[int, Meta(gt=0)]] = []
    tools_streamed: bool = False
    last_tool_call_ids: list[str] = []
    parser_state: bytes | None = None


def size_of(parser_state: bytes) -> int:
    """Bytes that it has in JSON."""
    return (len(parser_state) + 2) // 3 * 4


def pack(value: msgspec.Struct) -> bytes:
    """The opaque bytes that hold `value`: version byte, checksum and msgpack."""
    content = _ENCODER.encode(value)
    return _HEAD + zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") + content


def unpack(data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """The value in bytes that `pack` made. Raises ValueError saying what is wrong with them."""
    if data[:1] != _HEAD:
        raise ValueError("parser_state is not of this version of renderd")
    checksum, content = data[1 : 1 + _CHECKSUM_BYTES], data[1 + _CHECKSUM_BYTES :]
    if zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("parser_state is malformed or truncated")
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("parser_state is malformed or truncated") from None
