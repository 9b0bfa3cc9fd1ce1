"""Helpers of the responses tests: requests, streams of events, and OpenAI's own client on them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx2
import openai
from openai.types.responses import Response

from renderd.derender import Derenderer
from tests.derender.support import Json

WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
}
PING: Json = {"type": "function", "name": "ping"}
SHELL: Json = {"type": "custom", "name": "shell"}
SPACE: Json = {"type": "namespace", "name": "wx", "description": "Weather", "tools": [WEATHER]}


def request(**fields: Any) -> Json:
    return {"input": "hi", **fields}


def whole(derenderer: Derenderer, **body: Any) -> Json:
    """The Response of a finished answer."""
    answer: Json = json.loads(derenderer.responses(json.dumps(body).encode()))
    return answer


class Events:
    """Sends an engine's events, keeps the state. The request goes with the first event alone."""

    def __init__(self, derenderer: Derenderer, **requests: Any) -> None:
        self.derenderer = derenderer
        self.requests = requests
        self.state: Json | None = None
        self.bodies: list[bytes] = []
        self.answers: list[bytes] = []

    def send(self, event: Json) -> list[Json]:
        known = self.requests if self.state is None else {}
        body = {"stream": True, "generate_chunk": event, "stream_state": self.state, **known}
        self.bodies.append(json.dumps(body).encode())
        self.answers.append(self.derenderer.responses(self.bodies[-1]))
        answer = json.loads(self.answers[-1])
        self.state = answer["stream_state"]
        sent: list[Json] = answer["events"]
        return sent

    def send_all(self, events: Iterable[Json]) -> list[Json]:
        return [told for event in events for told in self.send(event)]


def received(events: Iterable[Json]) -> Response:
    """What OpenAI's client makes of a stream that is over, its own sum of the deltas checked against it."""
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)

    transport = httpx2.MockTransport(answer)
    with (
        openai.OpenAI(
            api_key="none", base_url="http://renderd", http_client=httpx2.Client(transport=transport)
        ) as client,
        client.responses.stream(model="qwen3", input="hi") as stream,
    ):
        told = list(stream)
    last = told[-1]
    assert last.type in ("response.completed", "response.incomplete", "response.failed")
    return last.response


def accumulated(events: Iterable[Json]) -> dict[int, str]:
    """The texts that the deltas of a stream amount to, by output index."""
    texts: dict[int, str] = {}
    for event in events:
        if event["type"].endswith(".delta"):
            texts[event["output_index"]] = texts.get(event["output_index"], "") + event["delta"]
    return texts
