"""A request is answered as if none with the same frame had been answered before."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from renderd.render import Renderer
from renderd.wire.errors import ApiError
from renderd.wire.frames import Frames
from tests.render.support import GET, Json, renderer

ASKED: list[Json] = [
    {},
    {"max_tokens": 5, "min_tokens": 4},
    {"min_tokens": 4000},
    {"temperature": 0.5, "top_p": 0.9, "stop": ["a", "b"], "logit_bias": {"1": 2}},
    {"logprobs": True, "top_logprobs": 2, "stream": True, "stream_options": {"include_usage": True}},
    {"tools": [GET]},
    {"tools": [GET], "tool_choice": "required", "parallel_tool_calls": False},
    {"tools": [GET], "tool_choice": {"type": "function", "function": {"name": "get"}}},
    {"tools": [GET], "tool_choice": {"type": "function", "function": {"name": "other"}}},
    {"model": "unknown"},
    {"use_beam_search": True},
    {"max_tokens": 5000},
    {"truncate_prompt_tokens": 3, "return_token_offsets": True},
    {"response_format": {"type": "json_object"}, "reasoning_effort": "medium", "include_reasoning": False},
    {"chat_template_kwargs": {"enable_thinking": True, "x": 1}, "add_generation_prompt": False},
    {"kv_transfer_params": {"prompt_token_ids": [1, 2, 3], "a": 1}, "echo": False},
    {"echo": True, "return_prompt_text": True, "prompt_logprobs": 1},
    {"chat_template": "{{ messages[0].content }}{{ tools }}", "tools": [GET]},
    {"chat_template": "{{ tools[0].function | tojson(indent=2) }}{{ tools | tojson }}", "tools": [GET]},
]
CONVERSATIONS: list[list[Json]] = [
    [{"role": "user", "content": "Hello"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    ],
    [{"role": "user", "content": "Hello " * 4080}],
    [{"role": "user", "content": "Hello " * 5000}],
    [{"role": "user", "content": ""}],
    [{"role": "user"}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    [],
]


def answered(chat: Callable[[bytes, str | None], bytes], body: bytes) -> tuple[int, str]:
    try:
        return 200, chat(body, "id").decode()
    except ApiError as error:
        return error.status, error.body().decode()


def test_answers_are_those_without_a_frame() -> None:
    framed, plain = (Renderer(renderer("parsers").server.model, *_rest()) for _ in range(2))
    plain._frames = Frames(0)
    asked = [(fields, messages) for fields in ASKED for messages in CONVERSATIONS for _ in range(3)]
    random.Random(0).shuffle(asked)
    statuses = []
    for fields, messages in asked:
        body = json.dumps(
            {**fields, "messages": messages} if len(messages) == 1 else {"messages": messages, **fields}
        )
        expected = answered(plain.chat, body.encode())
        assert answered(framed.chat, body.encode()) == expected, body
        statuses.append(expected[0])
    assert statuses.count(200) > 100 and statuses.count(400) > 100


def _rest() -> tuple[Any, Any]:
    server = renderer("parsers").server
    return server.family, server.options
