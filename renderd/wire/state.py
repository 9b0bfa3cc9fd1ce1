"""`stream_state` of a derendered stream: vLLM's fields and one opaque string (contract E.7)."""

from __future__ import annotations

import binascii
import zlib
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T", bound=msgspec.Struct)

VERSION = 2
"""Of the layout inside `parser_state`. Another version is refused, never guessed at."""

_ENCODER = msgspec.msgpack.Encoder()
_HEAD = bytes([VERSION])
_CHECKSUM_BYTES = 4
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")

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
        parser_state: everything else (`pack`); null in a state that vLLM made.
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
    parser_state: str | None = None

    def __post_init__(self) -> None:
        if sum(self.output_chunk_lens) != len(self.output_token_ids):
            raise ValueError(
                "output_chunk_lens must sum to len(output_token_ids) "
                f"(got sum={sum(self.output_chunk_lens)}, len(output_token_ids)={len(self.output_token_ids)})"
            )


def pack(value: msgspec.Struct) -> str:
    """The opaque string that holds `value`: version byte, checksum and msgpack in unpadded base64url."""
    content = _ENCODER.encode(value)
    data = _HEAD + zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") + content
    return binascii.b2a_base64(data, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def unpack(text: str, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """The value in a string that `pack` made. Raises ValueError saying what is wrong with the string."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        data = binascii.a2b_base64(padded.translate(_FROM_URL), strict_mode=True)
    except ValueError:  # what binascii raises is one
        raise ValueError("parser_state is malformed or truncated") from None
    if data[:1] != _HEAD:
        raise ValueError("parser_state is not of this version of renderd")
    checksum, content = data[1 : 1 + _CHECKSUM_BYTES], data[1 + _CHECKSUM_BYTES :]
    if zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise ValueError("parser_state is malformed or truncated")
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("parser_state is malformed or truncated") from None
