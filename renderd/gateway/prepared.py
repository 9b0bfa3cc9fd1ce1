"""A request that is rendered, before an engine has it. Another process may make it than uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from parsers import PromptVerdict
from renderd.derender.context import Context
from renderd.derender.detokenizer import SEED_PIECES
from renderd.gateway.guard import guarded
from renderd.model.segments import TokenIds
from renderd.wire.generate import GenerateRequest, GenerateResponse

_STOPS = ("stop", "output_text_buffer_length")
"""Sampling parameters that take a tokenizer. Engines have none: the texts are looked for here."""


class Prompt(msgspec.Struct):
    """One prompt.

    Attributes:
        generate: what an engine is asked, but for the ids.
        ids: of the prompt, as JSON.
        count: of them.
        tail: the last of them, which an output goes on from.
        echo: text that answers begin with.
    """

    generate: GenerateRequest
    ids: bytes
    count: int
    tail: list[int]
    echo: str = ""

    def request(self, counted: bool) -> GenerateRequest:
        """What an engine is asked. `counted`: its own usage is wanted at the end of a stream."""
        options = {"include_usage": True, "continuous_usage_stats": False} if counted else None
        ids = _KnownIds(self.ids, self.count)
        return msgspec.structs.replace(self.generate, token_ids=ids, stream_options=options)


class Prepared(msgspec.Struct, kw_only=True):
    """One request.

    Attributes:
        request_id: of the answer.
        model: what the answer calls the model.
        context: what derender needs of the request.
        verdict: what the prompt says of the reasoning section.
        choices: of each prompt.
        streams: the answer is an event stream.
        include_usage, continuous_usage: which of its chunks say the usage.
        session: the conversation that the request is part of.
        prompts: in their order.
        prompt_text: wanted in the answer.
        weight_versions: they are wanted in the answer.
        stage_times: how long each stage took is wanted in the answer's `metrics`.
        silent: an answer says the prompts alone, for which an engine cannot be asked.
        told: what an API remembers of the request besides.
    """

    request_id: str
    model: str
    context: Context
    verdict: PromptVerdict = "unknown"
    choices: int = 1
    streams: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    session: str | None = None
    prompts: list[Prompt]
    prompt_text: str | None = None
    weight_versions: bool = False
    stage_times: bool = False
    silent: bool = False
    told: bytes = b""

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts."""
        return sum(prompt.count for prompt in self.prompts)


class Finished(msgspec.Struct):
    """A request with all that engines answered to it, one answer a prompt.

    The answers are JSON: what an engine sends and nobody reads may have numbers for which MessagePack has no
    room.
    """

    prepared: Prepared
    answers: bytes

    @classmethod
    def of(cls, prepared: Prepared, responses: Sequence[GenerateResponse]) -> Finished:
        """A request and what engines answered."""
        return cls(prepared, msgspec.json.encode(responses))

    def responses(self) -> list[GenerateResponse]:
        """What engines answered."""
        return msgspec.json.decode(self.answers, type=list[GenerateResponse])


def prompt_of(generate: GenerateRequest, echo: str = "") -> Prompt:
    """A rendered prompt, without what concerns the client alone."""
    ids = generate.token_ids
    params = {key: value for key, value in generate.sampling_params.items() if key not in _STOPS}
    asked = msgspec.structs.replace(
        generate,
        token_ids=[],
        token_offsets=None,
        sampling_params=params,
        return_token_ids=None,
        parse_context=None,
        kv_transfer_params=guarded(generate),
        prompt_text=msgspec.UNSET,
        prefix=msgspec.UNSET,
    )
    text = ids.json() if isinstance(ids, TokenIds) else msgspec.json.encode(ids)
    return Prompt(asked, text, len(ids), list(ids[-SEED_PIECES:]), echo)


def usage_options(stream: bool | None, options: Mapping[str, Any] | None) -> tuple[bool, bool]:
    """What `stream_options` say: whether usage is wanted, and whether with every chunk."""
    wanted = bool(stream and options and options.get("include_usage"))
    return wanted, bool(wanted and options and options.get("continuous_usage_stats"))


def session_of(raw: Mapping[str, Any]) -> str | None:
    """The `conversation_id` of a request."""
    named = raw.get("conversation_id")
    return named if isinstance(named, str) and named else None


def wants_times(raw: Mapping[str, Any]) -> bool:
    """The `return_stage_times` of a request."""
    return raw.get("return_stage_times") is True


class _KnownIds(TokenIds):
    """Ids of which the JSON text is all that is kept until they are asked for."""

    def __init__(self, text: bytes, count: int) -> None:
        super().__init__(())
        self._text = text
        self._length = count

    @cached_property
    def _ids(self) -> list[int]:
        return msgspec.json.decode(self._text, type=list[int])

    def json(self) -> bytes:
        return self._text


_ENCODER = msgspec.msgpack.Encoder()
_PREPARED = msgspec.msgpack.Decoder(Prepared)
_FINISHED = msgspec.msgpack.Decoder(Finished)


def packed(value: Prepared | Finished) -> bytes:
    """To be sent to another process."""
    return _ENCODER.encode(value)


def unpacked(data: bytes) -> Prepared:
    """What `packed` made of a request."""
    return _PREPARED.decode(data)


def unpacked_finished(data: bytes) -> Finished:
    """What `packed` made of a finished one."""
    return _FINISHED.decode(data)


def known_ids(prompt: Prompt) -> Sequence[int]:
    """The ids of a prompt, for an answer that repeats them."""
    return msgspec.json.decode(prompt.ids, type=list[int])
