"""Bodies in, bodies out: what the server calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from parsers import Family
from renderd import telemetry
from renderd.model import Model
from renderd.model.mistral_tokenizer import MistralTokenizer
from renderd.model.segments import TokenIds
from renderd.render.chat import Server, render_chat
from renderd.render.completion import render_completion
from renderd.render.harmony import HarmonyWriter
from renderd.render.messages import MessagesReader
from renderd.render.mistral import MistralWriter
from renderd.render.options import RenderOptions
from renderd.render.responses import render_responses
from renderd.render.tokenize import detokenize, tokenize, tokenizer_info
from renderd.render.writer import TemplateWriter, Writer
from renderd.wire.completion import decode_completion_request
from renderd.wire.decode import parse_object
from renderd.wire.errors import bad_request
from renderd.wire.frames import MOST, Frames
from renderd.wire.responses import decode_responses_request

T = TypeVar("T")


def _written(value: object) -> object:
    """What the encoder does not know: ids whose JSON text is known."""
    if isinstance(value, TokenIds):
        return msgspec.Raw(value.json())
    raise NotImplementedError(type(value).__name__)


_ENCODER = msgspec.json.Encoder(enc_hook=_written)


def _read(decode: Callable[[dict[str, Any]], T], body: bytes) -> T:
    began = telemetry.clock()
    try:
        return decode(parse_object(body))
    finally:
        telemetry.spent("decode", began)


def encode(answer: object) -> bytes:
    """Raises ApiError 400 for what came with the request and no JSON text can hold."""
    began = telemetry.clock()
    try:
        return _ENCODER.encode(answer)
    except UnicodeEncodeError:
        raise bad_request("The request contains a lone surrogate where it would be passed on.") from None
    except RecursionError:
        raise bad_request("The request is nested too deeply to be passed on.") from None
    finally:
        telemetry.spent("encode", began)


def _writer(model: Model) -> Writer:
    if model.harmony is not None:
        return HarmonyWriter(model.harmony, model.templates)
    if isinstance(model.tokenizer, MistralTokenizer):
        return MistralWriter(model.tokenizer)
    return TemplateWriter(model)


class Renderer:
    """Renders requests for one model and one pair of parsers. Holds no state: may be called from many
    threads.

    Every method takes a request body and returns the body of a 200 answer; raises ApiError for any other.
    `about`: what writes the prompts, for the operator to read.
    """

    def __init__(self, model: Model, family: Family | None, options: RenderOptions) -> None:
        marker_ids = model.prompt_marker_ids(family.prompt_markers if family is not None else ())
        writer = _writer(model)
        self.about = writer.about
        self._frames = Frames(MOST if model.tokenizer.encoder.max_bytes else 0)
        self.server = Server(model, family, options, marker_ids, writer)
        self.messages_reader = MessagesReader(self.server)

    def chat(self, body: bytes, request_id: str | None) -> bytes:
        """`/v1/chat/completions/render`: a GenerateRequest. `request_id`: the X-Request-Id header."""
        began = telemetry.clock()
        try:
            request = self._frames.read(body)
        finally:
            telemetry.spent("decode", began)
        return encode(render_chat(self.server, request, request_id))

    def completion(self, body: bytes, request_id: str | None) -> bytes:
        """`/v1/completions/render`: an array of GenerateRequests. `request_id`: the X-Request-Id header."""
        request = _read(decode_completion_request, body)
        left = self.server.options.max_answer_bytes
        parts: list[bytes] = []
        for generate_request in render_completion(self.server.model, request, request_id):
            parts.append(encode(generate_request))
            left -= len(parts[-1])
            if left < 0 and len(parts) > 1:
                raise bad_request(
                    f"The answer to {len(request.prompts)} prompts would have more than "
                    f"{self.server.options.max_answer_bytes} bytes (--max-answer-bytes): send fewer at a "
                    "time."
                )
        return b"[%b]" % b",".join(parts)

    def messages(self, body: bytes, request_id: str | None) -> bytes:
        """`/v1/messages/render`: a GenerateRequest. `request_id`: the X-Request-Id header."""
        request = _read(self.messages_reader.read, body)
        return encode(render_chat(self.server, request, request_id))

    def responses(self, body: bytes, request_id: str | None) -> bytes:
        """`/v1/responses/render`: a GenerateRequest. Its id is the request's own: no header counts."""
        request = _read(decode_responses_request, body)
        return encode(render_responses(self.server, request))

    def tokenize(self, body: bytes) -> bytes:
        """`/tokenize`."""
        return encode(tokenize(self.server, parse_object(body)))

    def detokenize(self, body: bytes) -> bytes:
        """`/detokenize`."""
        return encode(detokenize(self.server, parse_object(body)))

    def tokenizer_info(self) -> dict[str, Any]:
        """The answer of `/tokenizer_info`."""
        return tokenizer_info(self.server.model)
