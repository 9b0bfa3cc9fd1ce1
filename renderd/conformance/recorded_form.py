"""The form of a recording (golden/schema/recording.json), as far as comparing with one needs it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Json = dict[str, Any]


class _Rendered(msgspec.Struct):
    """What a render route makes of a request, or the error it answers."""

    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET


class _Output(msgspec.Struct):
    index: int
    token_ids: list[int]
    finish_reason: str | None


class _Generate(msgspec.Struct):
    request_id: str
    choices: Annotated[list[_Output], msgspec.Meta(min_length=1)]


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Json] | None = None


class _AnswerChoice(msgspec.Struct):
    """Of a chat answer, or of a completion."""

    index: int
    message: _Message | msgspec.UnsetType = msgspec.UNSET
    text: str = ""


class _Answer(msgspec.Struct):
    """A whole answer of any API, or an error."""

    choices: Annotated[list[_AnswerChoice], msgspec.Meta(min_length=1)] | msgspec.UnsetType = msgspec.UNSET
    content: list[Json] | msgspec.UnsetType = msgspec.UNSET
    output: list[Json] | msgspec.UnsetType = msgspec.UNSET
    usage: Json | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0)]
    function: _Function | None = None


class _Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _ChunkChoice(msgspec.Struct):
    index: int
    delta: _Delta | msgspec.UnsetType = msgspec.UNSET
    text: str | None = None
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct):
    """A chunk of chat or completion, or an event of another API, whose keys its assembly looks at."""

    choices: list[_ChunkChoice] | msgspec.UnsetType = msgspec.UNSET
    usage: Json | None = None


class _Said(_Chunk):
    """A chunk, or what a streaming derender route answered."""

    chunk: _Chunk | None = None
    events: list[_Chunk] = []


class _Batch(msgspec.Struct):
    status: int
    body: _Answer


class _Stream(msgspec.Struct):
    status: int
    chunks: Annotated[list[_Said], msgspec.Meta(min_length=1)]


class RecordingForm(msgspec.Struct):
    """A recording's fields. Whether the chunks of a stream fit together is not said here."""

    status: Annotated[int, msgspec.Meta(ge=100, le=599)]
    headers: dict[str, str]
    render: _Rendered | list[_Rendered] | None
    prompt_token_ids: list[int | list[int]] | None
    generate: _Generate | list[_Generate] | None
    generate_sse: str | list[str] | None
    batch: _Answer | None
    stream: list[_Chunk] | None
    derender_batch: _Batch | None
    derender_stream: _Stream | None
