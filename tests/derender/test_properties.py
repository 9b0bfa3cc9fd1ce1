"""Whatever the output, the request and the chunking: a stream amounts to the batch answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderd.derender import Derenderer
from tests.derender.support import (
    PING,
    WEATHER,
    Json,
    Streamer,
    chat,
    chunks,
    completion,
    derenderer,
    encode,
    put_together,
    response,
    shape,
)

FAMILIES = [
    ("qwen3", "qwen3", "hermes"),
    ("qwen3", "qwen3", "qwen3_coder"),
    ("qwen3", "qwen3", None),
    ("qwen3", None, "hermes"),
    ("qwen3", None, None),
    ("llama3_1", None, "llama3_json"),
    ("deepseek_r1", "deepseek_r1", "deepseek_v3"),
    ("deepseek_v3", "deepseek_v3", "deepseek_v31"),
]

FRAGMENTS = [
    "<think>\n",
    "</think>",
    "\n\n",
    "Hello there. ",
    "wörld 🌍 ",
    "👩‍👩‍👧",
    "<tool_call>\n",
    "\n</tool_call>",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}',
    '{"name": "ping", "parameters": {}}',
    '{"name": "get_weather", "arguments": {"city": "Pa',
    "<function=get_weather>\n<parameter=city>\nOslo 🏔\n</parameter>\n</function>",
    "<|python_tag|>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
    "function<｜tool▁sep｜>ping\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<|im_start|>",
    "<|im_end|>",
    "STOP",
    "ST",
    "<",
    "{",
    " ",
]


@st.composite
def requests(draw: st.DrawFn) -> Json:
    request: Json = {"messages": [{"role": "user", "content": "hi"}]}
    if draw(st.booleans()):
        named = {"type": "function", "function": {"name": "ping"}}
        request["tools"] = [WEATHER, PING]
        request["tool_choice"] = draw(st.sampled_from(["auto", "none", "required", named, None]))
    optional: dict[str, st.SearchStrategy[Any]] = {
        "stop": st.sampled_from(["STOP", ["</", "there"], "\n\n", "wörld 🌍 S", '{"', "call>"]),
        "min_tokens": st.integers(0, 12),
        "include_stop_str_in_output": st.booleans(),
        "include_reasoning": st.booleans(),
        "parallel_tool_calls": st.booleans(),
        "skip_special_tokens": st.booleans(),
        "return_token_ids": st.just(True),
        "ignore_eos": st.booleans(),
        "chat_template_kwargs": st.sampled_from([{"enable_thinking": False}, {"thinking": True}]),
    }
    for name, values in optional.items():
        if draw(st.integers(0, 3)) == 0:
            request[name] = draw(values)
    return request


@st.composite
def outputs(draw: st.DrawFn, name: str) -> list[int]:
    text = draw(st.lists(st.sampled_from(FRAGMENTS), max_size=10))
    ids = encode("".join(text), name)
    noise = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 128_300)), max_size=3)
    for at, token_id in draw(noise):
        ids.insert(min(at, len(ids)), token_id)
    return ids[: draw(st.integers(1, 120))] or [1]


SIZES = st.one_of(
    st.sampled_from([[1] * 200, [2] * 200, [7] * 200]), st.lists(st.integers(1, 9), max_size=120)
)
USAGE: Json = {"prompt_tokens": 3, "total_tokens": 3, "completion_tokens": 0}


@pytest.mark.parametrize(("name", "reasoning", "tools"), FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_streams_amount_to_the_batch(
    name: str, reasoning: str | None, tools: str | None, data: st.DataObject
) -> None:
    server: Derenderer = derenderer(name, reasoning, tools)
    request = data.draw(requests())
    ids = data.draw(outputs(name))
    finish = data.draw(st.sampled_from(["stop", "length"]))
    prompt = encode(data.draw(st.sampled_from(["hi", "<think>\n", "</think>"])), name)
    if request.get("stop"):
        request.pop("return_token_ids", None)
        request.pop("stop_token_ids", None)
    body: Json = {"chat_request": request, "prompt_token_ids": prompt}
    whole = chat(server, generate_response=response(ids, finish_reason=finish), **body)
    stream = Streamer(server, **body)
    sent = stream.send_all(chunks(ids, data.draw(SIZES), finish))
    together, expected = put_together(sent), shape(whole)
    assert together["choices"] == expected["choices"]
    usage = stream.send({"request_id": "rq", "choices": [], "usage": USAGE})["usage"]
    assert usage["completion_tokens_details"] == whole["usage"]["completion_tokens_details"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_completions(data: st.DataObject) -> None:
    request = {"prompt": "p", **data.draw(requests()), "tools": None, "tool_choice": None}
    request.pop("return_token_ids", None)
    ids = data.draw(outputs("qwen3"))
    whole = completion(
        derenderer(), generate_responses=[response(ids)], completion_request=request, prompt_token_ids=[[1]]
    )
    stream = Streamer(derenderer(), "completion", completion_request=request, prompt_token_ids=[1])
    sent = stream.send_all(chunks(ids, data.draw(SIZES)))
    choice = whole["choices"][0]
    parts = [one for part in sent for one in part["choices"]]
    assert "".join(part["text"] for part in parts) == choice["text"]
    ends = {(part["finish_reason"], part["stop_reason"]) for part in parts}
    assert ends - {(None, None)} == {("stop", choice["stop_reason"])}
