"""Helpers of the messages tests: requests, streams of events, and Anthropic's own client on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anthropic
from anthropic.types import Message

from renderd.derender import Derenderer
from tests.derender import support
from tests.derender.support import Json

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


def whole(derenderer: Derenderer, **body: Any) -> Json:
    """The message of a finished answer."""
    answer: Json = json.loads(derenderer.messages(json.dumps(body).encode()))
    return answer


class Events(support.Events):
    """Sends an engine's events, each twice: a retry says the same."""

    def __init__(self, derenderer: Derenderer, **requests: Any) -> None:
        super().__init__(derenderer.messages, **requests)

    def send(self, event: Json) -> list[Json]:
        sent = super().send(event)
        assert json.loads(self.route(self.bodies[-1]))["events"] == sent
        return sent


def client(body: Json | Sequence[Json]) -> anthropic.Anthropic:
    """Anthropic's client, on a server that answers with a message, or with the events of one."""
    answer = body if isinstance(body, dict) else support.sse(body)
    return anthropic.Anthropic(api_key="none", http_client=support.answering(answer))


def received(body: Json | Sequence[Json]) -> Message:
    """The message that Anthropic's client makes of an answer."""
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    if isinstance(body, dict):
        message: Message = client(body).messages.create(**asked)
        return message
    with client(body).messages.stream(**asked) as stream:
        return stream.get_final_message()
