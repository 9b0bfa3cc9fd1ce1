"""Helpers of the responses tests: requests, streams of events, and OpenAI's own client on them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from openai.types.responses import Response

from renderd.derender import Derenderer
from tests.derender import support
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


class Events(support.Events):
    """Sends an engine's events. The request goes with the first event alone."""

    def __init__(self, derenderer: Derenderer, **requests: Any) -> None:
        super().__init__(derenderer.responses, **requests)

    def send(self, event: Json) -> list[Json]:
        sent = super().send(event)
        self.requests = {}
        return sent


def received(events: Iterable[Json]) -> Response:
    """What OpenAI's client makes of a stream that is over, its own sum of the deltas checked against it."""
    with (
        support.openai_client(support.sse(events)) as client,
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
