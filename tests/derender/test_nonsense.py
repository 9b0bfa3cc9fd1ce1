"""A valid body with one value exchanged for nonsense: an answer or a 4xx, never another exception."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from renderd.derender import DerenderOptions
from renderd.wire.errors import ApiError
from tests.derender.support import TOOL_CHAT, Json, Streamer, chunk, derenderer, encode, response

VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    10**6,
    2**63,
    2**70,
    0.5,
    float("nan"),
    "",
    "x",
    "\ud800",
    "1",
    [],
    {},
    [[]],
    [None],
    {"a": {}},
    [-1],
    ["\ufffd" * 3],
]
TEXT = '<think>\na 🌍</think>b<tool_call>\n{"name": "ping", "arguments": {"a": 1}}\n</tool_call>'
LOGPROBS: Json = {
    "content": [{"token_id": 64, "logprob": -1.0, "top_logprobs": [{"token_id": 65, "logprob": -2.0}]}]
}
REQUEST: Json = {
    **TOOL_CHAT,
    "stop": ["STOP"],
    "logprobs": True,
    "top_logprobs": 1,
    "return_token_ids": True,
    "min_tokens": 1,
    "stop_token_ids": [5],
    "chat_template_kwargs": {"enable_thinking": True},
}
COMPLETION = {"prompt": "p", "stop": "STOP", "logprobs": 1, "return_token_ids": True}
USAGE = {"prompt_tokens": 1, "total_tokens": 2, "completion_tokens": 1}


def bodies(route: str) -> Iterator[Json]:
    ids = encode(TEXT)
    request = {"chat_request": REQUEST} if route == "chat" else {"completion_request": COMPLETION}
    common: Json = {"model": "qwen3", **request}
    finished = {
        **response(ids, logprobs=LOGPROBS),
        "usage": USAGE,
        "prompt_token_ids": [1],
        "metrics": {"a": 1},
    }
    if route == "chat":
        yield {**common, "generate_response": finished, "prompt_tokens": 1, "prompt_token_ids": [1, 2]}
    else:
        yield {**common, "generate_responses": [finished], "prompt_tokens": [1], "prompt_token_ids": [[1, 2]]}
    server = derenderer("qwen3", "qwen3", "hermes", DerenderOptions(replayable=True))
    stream = Streamer(server, route, **common, prompt_tokens=1, prompt_token_ids=[1, 2])
    for part in (ids[:5], ids[5:20], ids[20:]):
        stream.send({**chunk(part, logprobs=LOGPROBS), "usage": USAGE})
        yield json.loads(stream.bodies[-1])
        history = json.loads(stream.bodies[-1])
        if history["stream_state"]:
            history["stream_state"]["parser_state"] = None
            yield history


def exchange(value: Any, pick: random.Random) -> Any:
    """`value` with something in it exchanged or left out."""
    if isinstance(value, dict) and value and pick.random() < 0.9:
        key = pick.choice(list(value))
        if pick.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: exchange(value[key], pick)}
    if isinstance(value, list) and value and pick.random() < 0.7:
        at = pick.randrange(len(value))
        return [*value[:at], exchange(value[at], pick), *value[at + 1 :]]
    return pick.choice(VALUES)


@pytest.mark.parametrize("route", ["chat", "completion"])
def test_nonsense(route: str) -> None:
    pick = random.Random(11)
    servers = [
        derenderer("qwen3", "qwen3", "hermes", DerenderOptions(replayable=True)),
        derenderer("qwen3", "qwen3", "qwen3_coder"),
        derenderer(),
    ]
    answers = 0
    for body in bodies(route):
        for _ in range(250):
            changed = exchange(body, pick)
            try:
                getattr(pick.choice(servers), route)(json.dumps(changed).encode())
                answers += 1
            except ApiError as error:
                assert error.status in (400, 404)
                json.loads(error.body())
    assert answers > 200
