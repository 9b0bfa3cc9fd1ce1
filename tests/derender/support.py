"""Helpers of the derender tests: real tokenizers, and a client that keeps one stream state a choice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import httpx2
import openai
from openai.types.chat import ParsedChatCompletionMessage

from golden.models import model_path
from parsers import build
from renderd.conformance.assemble import Assembly, outline
from renderd.derender import Derenderer, DerenderOptions
from renderd.model import Model, ModelConfig, load_model
from renderd.render import Renderer, RenderOptions
from renderd.wire.errors import ApiError

Json = dict[str, Any]

NOW = 1_800_000_000
OPTIONS = DerenderOptions()

WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
PING: Json = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}

CHAT: Json = {"messages": [{"role": "user", "content": "hi"}]}
TOOL_CHAT: Json = {**CHAT, "tools": [WEATHER, PING]}


class Clock:
    """A clock that moves on at every look."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> float:
        self.time += 1
        return self.time


@cache
def model(name: str = "qwen3", max_model_len: int = 4096) -> Model:
    config = ModelConfig(model=str(model_path(name)), served_model_name=[name], max_model_len=max_model_len)
    return load_model(config)


@cache
def derenderer(
    name: str = "qwen3",
    reasoning: str | None = None,
    tools: str | None = None,
    options: DerenderOptions = OPTIONS,
) -> Derenderer:
    family = build(reasoning, tools) if reasoning or tools else None
    options = replace(options, fingerprint=f"{name} {reasoning} {tools}".encode().hex())
    reader = Renderer(model(name), family, RenderOptions()).messages_reader
    return Derenderer(model(name), family, options, clock=Clock(), read_messages=reader.read)


def encode(text: str, name: str = "qwen3") -> list[int]:
    return list(model(name).tokenizer.encode(text, False))


EOS = 151645
PROMPT = encode("<|im_start|>assistant\n")
THOUGHT = "<think>\nHm.\n</think>\n\n"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich 🌍", "days": 3}}\n</tool_call>'
PINGED = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'


class Events:
    """Sends an engine's events to a route whose chunks are events, keeps the state."""

    def __init__(self, route: Callable[[bytes], bytes], **requests: Any) -> None:
        self.route = route
        self.requests = requests
        self.state: Json | None = None
        self.bodies: list[bytes] = []
        self.answers: list[bytes] = []

    def send(self, event: Json) -> list[Json]:
        body = {"stream": True, "generate_chunk": event, "stream_state": self.state, **self.requests}
        self.bodies.append(json.dumps(body).encode())
        self.answers.append(self.route(self.bodies[-1]))
        answer = json.loads(self.answers[-1])
        self.state = answer["stream_state"]
        sent: list[Json] = answer["events"]
        return sent

    def send_all(self, events: Iterable[Json]) -> list[Json]:
        return [one for event in events for one in self.send(event)]


def sse(events: Iterable[Json]) -> str:
    """Events as they go over the wire."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def answering(answer: Json | str) -> httpx2.Client:
    """A client of a server that has one answer: a JSON body, or the text of a stream."""

    def respond(request: httpx2.Request) -> httpx2.Response:
        if isinstance(answer, str):
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=answer)
        return httpx2.Response(200, json=answer)

    return httpx2.Client(transport=httpx2.MockTransport(respond))


def openai_client(stream: str) -> openai.OpenAI:
    """OpenAI's client of a server that answers with this stream."""
    return openai.OpenAI(api_key="none", base_url="http://renderd", http_client=answering(stream))


def chat(server: Derenderer, **body: Any) -> Json:
    answer: Json = json.loads(server.chat(json.dumps(body).encode()))
    return answer


def completion(server: Derenderer, **body: Any) -> Json:
    answer: Json = json.loads(server.completion(json.dumps(body).encode()))
    return answer


def refusal(server: Derenderer, route: str = "chat", **body: Any) -> ApiError:
    """The error that a body gets."""
    try:
        getattr(server, route)(json.dumps(body).encode())
    except ApiError as error:
        return error
    raise AssertionError("the body was accepted")


def response(ids: Sequence[int], **choice: Any) -> Json:
    return {"request_id": "rq", "choices": [{"index": 0, "token_ids": list(ids), **choice}]}


def chunk(ids: Sequence[int] | None, **choice: Any) -> Json:
    """An event with news of choice 0."""
    token_ids = None if ids is None else list(ids)
    return {"request_id": "rq", "choices": [{"index": 0, "token_ids": token_ids, **choice}]}


def chunks(ids: Sequence[int], sizes: Iterable[int], finish: str | None = "stop", **last: Any) -> list[Json]:
    """The events of an output cut into pieces of these sizes, what is left over in one more."""
    pieces, start = [], 0
    for size in sizes:
        if start >= len(ids):
            break
        pieces.append(list(ids[start : start + size]))
        start += size
    if start < len(ids) or not pieces:
        pieces.append(list(ids[start:]))
    events = [chunk(piece) for piece in pieces]
    events[-1]["choices"][0] |= {"finish_reason": finish, **last}
    return events


class Streamer:
    """Sends events, keeps the state. `requests` are sent as `chat_request` and so on with every event."""

    def __init__(self, server: Derenderer, route: str = "chat", **requests: Any) -> None:
        self.server = server
        self.route = route
        self.requests = requests
        self.state: Json | None = None
        self.bodies: list[bytes] = []
        self.answers: list[bytes] = []

    def send(self, event: Json) -> Json:
        body = {"stream": True, "generate_chunk": event, "stream_state": self.state, **self.requests}
        self.bodies.append(json.dumps(body).encode())
        self.answers.append(getattr(self.server, self.route)(self.bodies[-1]))
        answer = json.loads(self.answers[-1])
        self.state = answer["stream_state"]
        sent: Json = answer["chunk"]
        return sent

    def send_all(self, events: Iterable[Json]) -> list[Json]:
        return [self.send(event) for event in events]


def put_together(sent: Iterable[Json]) -> Json:
    """What the chunks amount to, in the shape of `outline`; the order of events checked."""
    assembly = Assembly()
    for part in sent:
        assembly.add(part)
    answer = assembly.answer()
    assert assembly.faults == []
    assert len(assembly.created) == 1
    return answer


def received(sent: Iterable[Json]) -> ParsedChatCompletionMessage[None]:
    """The message that OpenAI's client makes of a stream that is over."""
    text = "".join(f"data: {json.dumps(part)}\n\n" for part in sent) + "data: [DONE]\n\n"
    with (
        openai_client(text) as client,
        client.chat.completions.stream(model="qwen3", messages=[{"role": "user", "content": "hi"}]) as stream,
    ):
        for _ in stream:
            pass
        return stream.get_final_completion().choices[0].message


def shape(batch: Json) -> Json:
    return outline(batch)


def text_of(sent: Iterable[Json]) -> str:
    return "".join(choice["delta"]["content"] or "" for part in sent for choice in part["choices"])
