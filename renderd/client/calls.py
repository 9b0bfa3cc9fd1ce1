"""What a client says to whom, and what it makes of the answers. Sends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Required, TypeAlias, TypedDict

import msgspec

from renderd.engine.events import EventReader

Body: TypeAlias = dict[str, Any]
"""A request or an answer of OpenAI's API."""

Server = Literal["render", "engine", "prefill"]

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"


class GenerateRequest(TypedDict, total=False):
    """What render answers and engines take. It has further keys; pass all of them on."""

    request_id: Required[str]
    token_ids: Required[list[int]]
    sampling_params: Required[Body]
    stream: bool
    kv_transfer_params: Body | None
    prefix: Body


class GenerateResponse(TypedDict, total=False):
    """What an engine answers and derender takes. It has further keys; pass all of them on."""

    request_id: Required[str]
    choices: Required[list[Body]]
    kv_transfer_params: Body | None


class RenderdError(Exception):
    """A server answered with an error. `server`: which; `type`, `param`: as OpenAI's API has them."""

    def __init__(self, server: Server, status: int, body: bytes) -> None:
        error: Any = None
        try:
            error = msgspec.json.decode(body)["error"]
        except (msgspec.DecodeError, KeyError, TypeError):
            error = body.decode(errors="replace")
        if not isinstance(error, dict):
            error = {"message": str(error)}
        super().__init__(f"{server}: {status}: {error.get('message')}")
        self.server = server
        self.status = status
        self.type: str | None = error.get("type")
        self.param: str | None = error.get("param")


class Api(NamedTuple):
    """One of OpenAI's APIs. `key`: what derender calls its request."""

    path: str
    key: str


CHAT = Api("/v1/chat/completions", "chat_request")
COMPLETION = Api("/v1/completions", "completion_request")


def for_engine(request: GenerateRequest, kv_transfer_params: Body | None = None) -> bytes:
    """The body for an engine: without stop strings, for derender finds those, and with what prefill said."""
    params = dict(request["sampling_params"])
    params.pop("stop", None)
    params.pop("output_text_buffer_length", None)
    changes: Body = {"sampling_params": params}
    if kv_transfer_params is not None:
        changes["kv_transfer_params"] = kv_transfer_params
    return msgspec.json.encode({**request, **changes})


def for_prefill(request: GenerateRequest) -> bytes:
    """The body for an engine that computes the prompt alone and keeps its KV for another one."""
    params = {**request["sampling_params"], "max_tokens": 1, "min_tokens": 0, "n": 1, "ignore_eos": True}
    for key in ("stop", "output_text_buffer_length", "stop_token_ids", "logprobs", "structured_outputs"):
        params.pop(key, None)
    changes = {"sampling_params": params, "stream": False, "stream_options": None}
    return msgspec.json.encode({**request, **changes, "kv_transfer_params": {"do_remote_decode": True}})


class Stream:
    """The way of a stream's events through derender, whoever carries them. Every choice has a state.

    `answer_id`: by which the engine knows the request.
    """

    def __init__(self, api: Api, body: Body, request: GenerateRequest) -> None:
        self._first = {
            api.key: body,
            "prompt_token_ids": request["token_ids"],
            "prompt_tokens": len(request["token_ids"]),
        }
        self._states: dict[int, msgspec.Raw] = {}
        self._running = set(range(body.get("n") or 1))
        self._index = 0
        self._found_stop = False
        self.answer_id = ""

    def cut(self) -> bool:
        """Whether now is the time to abort the request: derender found a stop string in one choice, and all
        have ended. Says so once."""
        is_time = self._found_stop and not self._running
        self._found_stop &= not is_time
        return is_time

    def derender(self, event: bytes) -> bytes:
        """The body for derender, of an event that is not [DONE]."""
        said = msgspec.json.decode(event)
        self.answer_id = said["request_id"]
        if said["choices"]:  # an event of usage alone goes with any choice
            self._index = said["choices"][0]["index"]
        state = self._states.get(self._index)
        body: Body = {"stream": True, "generate_chunk": msgspec.Raw(event), "stream_state": state}
        return msgspec.json.encode(body | (self._first if state is None else {}))

    def read(self, answer: bytes) -> Body:
        """The chunk for the user, of what derender answered."""
        found = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
        self._states[self._index] = found["stream_state"]
        chunk: Body = msgspec.json.decode(found["chunk"])
        for choice in chunk["choices"]:
            if choice["finish_reason"] is not None:
                self._running.discard(choice["index"])
                self._found_stop |= isinstance(choice.get("stop_reason"), str)
        return chunk


class Call(NamedTuple):
    """One request to one server."""

    server: Server
    path: str
    body: bytes


def render_call(api: Api, body: Body) -> Call:
    return Call("render", f"{api.path}/render", msgspec.json.encode(body))


def prefill_call(request: GenerateRequest) -> Call:
    return Call("prefill", GENERATE, for_prefill(request))


def generate_call(request: GenerateRequest, kv_transfer_params: Body | None) -> Call:
    return Call("engine", GENERATE, for_engine(request, kv_transfer_params))


def abort_call(answer_ids: Sequence[str]) -> Call:
    return Call("engine", ABORT, msgspec.json.encode({"request_ids": answer_ids}))


def derender_chat_call(chat: Body, request: GenerateRequest, response: GenerateResponse) -> Call:
    ids = request["token_ids"]
    body = {
        "generate_response": response,
        "prompt_token_ids": ids,
        "prompt_tokens": len(ids),
        "chat_request": chat,
    }
    return Call("render", f"{CHAT.path}/derender", msgspec.json.encode(body))


def derender_completion_call(
    completion: Body, requests: Sequence[GenerateRequest], responses: Sequence[GenerateResponse]
) -> Call:
    ids = [request["token_ids"] for request in requests]
    body = {
        "generate_responses": responses,
        "prompt_token_ids": ids,
        "prompt_tokens": list(map(len, ids)),
        "completion_request": completion,
    }
    return Call("render", f"{COMPLETION.path}/derender", msgspec.json.encode(body))


def derender_event_call(api: Api, stream: Stream, event: bytes) -> Call:
    return Call("render", f"{api.path}/derender", stream.derender(event))


class Events:
    """Reads the event stream of an engine. `is_over`: its end has come, or an error."""

    def __init__(self) -> None:
        self._reader = EventReader()
        self.is_over = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        for event in self._reader.feed(piece):
            if event == b"[DONE]":
                self.is_over = True
            elif event.startswith(b'{"error"'):
                self.is_over = True
                raise RenderdError("engine", msgspec.json.decode(event)["error"]["code"], event)
            else:
                yield event

    def end(self) -> None:
        """No more bytes will come. Raises RenderdError when something is missing."""
        if not self.is_over:
            self.is_over = True
            raise RenderdError("engine", 502, b"the stream ended without [DONE]")
