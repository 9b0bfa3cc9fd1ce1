"""Helpers of the messages tests: a server that reads messages requests, and Anthropic's own client on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import anthropic
import httpx2
from anthropic.types import Message

from parsers import build
from renderd.derender import Derenderer, DerenderOptions
from renderd.render import Renderer, RenderOptions
from tests.derender.support import OPTIONS, Clock, Json, model

WEATHER: Json = {
    "name": "get_weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
}
PING: Json = {"name": "ping", "input_schema": {"type": "object"}}
REQUEST: Json = {"model": "", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}


def request(name: str = "qwen3", **fields: Any) -> Json:
    return {**REQUEST, "model": name, **fields}


@cache
def server(
    name: str = "qwen3",
    reasoning: str | None = None,
    tools: str | None = None,
    options: DerenderOptions = OPTIONS,
) -> Derenderer:
    family = build(reasoning, tools) if reasoning or tools else None
    reader = Renderer(model(name), family, RenderOptions()).messages_reader
    return Derenderer(model(name), family, options, clock=Clock(), read_messages=reader.read)


def whole(derenderer: Derenderer, **body: Any) -> Json:
    """The message of a finished answer."""
    answer: Json = json.loads(derenderer.messages(json.dumps(body).encode()))
    return answer


class Events:
    """Sends an engine's events, keeps the state."""

    def __init__(self, derenderer: Derenderer, **requests: Any) -> None:
        self.derenderer = derenderer
        self.requests = requests
        self.state: Json | None = None

    def send(self, event: Json) -> list[Json]:
        body = {"stream": True, "generate_chunk": event, "stream_state": self.state, **self.requests}
        encoded = json.dumps(body).encode()
        answer = json.loads(self.derenderer.messages(encoded))
        assert json.loads(self.derenderer.messages(encoded))["events"] == answer["events"]
        self.state = answer["stream_state"]
        sent: list[Json] = answer["events"]
        return sent

    def send_all(self, events: Iterable[Json]) -> list[Json]:
        return [one for event in events for one in self.send(event)]


def sse(events: Sequence[Json]) -> str:
    """Events as they go over the wire."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def client(body: Json | Sequence[Json]) -> anthropic.Anthropic:
    """Anthropic's client, on a server that answers with a message, or with the events of one."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if isinstance(body, dict):
            return httpx2.Response(200, json=body)
        return httpx2.Response(200, text=sse(body), headers={"content-type": "text/event-stream"})

    transport = httpx2.MockTransport(answer)
    return anthropic.Anthropic(api_key="none", http_client=httpx2.Client(transport=transport))


def received(body: Json | Sequence[Json]) -> Message:
    """The message that Anthropic's client makes of an answer."""
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    if isinstance(body, dict):
        message: Message = client(body).messages.create(**asked)
        return message
    with client(body).messages.stream(**asked) as stream:
        return stream.get_final_message()
