"""GenerateRequests as a whole (contract B.5, D)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from renderd.wire.errors import ApiError
from tests.render.support import GET, HELLO, KWARGS, Json, chat, post, refusal, renderer

CHAT = "/v1/chat/completions/render"
COMPLETION = "/v1/completions/render"

KEYS = [
    "request_id",
    "token_ids",
    "token_offsets",
    "features",
    "content_parts",
    "sampling_params",
    "model",
    "reasoning_ended",
    "reasoning_parser_kwargs",
    "return_token_ids",
    "output_mode",
    "parse_context",
    "stream",
    "stream_options",
    "cache_salt",
    "priority",
    "kv_transfer_params",
    "ec_transfer_params",
]


def test_every_key_in_order() -> None:
    assert list(chat(HELLO)) == KEYS
    [answer] = post(COMPLETION, {"prompt": "Hello"})
    assert list(answer) == KEYS
    assert (answer["parse_context"], answer["reasoning_ended"]) == (None, None)


def test_request_ids() -> None:
    assert re.fullmatch("chatcmpl-[89ab][0-9a-f]{15}", chat(HELLO)["request_id"])
    assert chat({**HELLO, "request_id": ""})["request_id"] == "chatcmpl-"
    assert post(CHAT, {**HELLO, "request_id": "body"}, header="head")["request_id"] == "chatcmpl-head"
    assert [a["request_id"] for a in post(COMPLETION, {"prompt": ["a", "b"], "request_id": "r"})] == [
        "cmpl-r-0",
        "cmpl-r-1",
    ]
    assert post(COMPLETION, {"prompt": "a", "request_id": "r"})[0]["request_id"] == "cmpl-r"


def test_parse_context() -> None:
    context = chat({**HELLO, "tools": [GET], "parallel_tool_calls": None}, "parsers")["parse_context"]
    assert context == {
        "tools": [{"type": "function", "function": {**GET["function"], "description": None}}],
        "tool_choice": "auto",
        "parallel_tool_calls": None,
        "include_reasoning": True,
        "chat_template_kwargs": {
            **KWARGS,
            "cohere_format": "cmd4",
            "add_generation_prompt": True,
            "continue_final_message": False,
        },
        "history_tool_call_cnt": 0,
    }
    assert chat(HELLO)["parse_context"]["tool_choice"] == "none"
    named = {
        **HELLO,
        "tools": [GET],
        "tool_choice": {"type": "function", "function": {"name": "get", "x": 1}},
    }
    choice = chat(named, "parsers")["parse_context"]["tool_choice"]
    assert json.dumps(choice) == '{"function": {"name": "get"}, "type": "function"}'


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, True),  # the server's default switches thinking off
        ({"chat_template_kwargs": {"enable_thinking": True}}, False),
        ({"reasoning_effort": "low"}, False),
        ({"reasoning_effort": "high"}, True),  # mapped to none
        ({"chat_template_kwargs": {"enable_thinking": True}, "tools": [GET]}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}, "include_reasoning": False}, True),
    ],
)
def test_reasoning_ended(request_: Json, expected: bool) -> None:
    assert chat({**HELLO, **request_}, "parsers")["reasoning_ended"] is expected


def test_reasoning_without_a_parser() -> None:
    answer = chat(HELLO)
    assert (answer["reasoning_ended"], answer["reasoning_parser_kwargs"]) == (None, None)
    assert chat({**HELLO, "include_reasoning": False})["reasoning_ended"] is True


def test_special_tokens_are_kept_for_the_parser() -> None:
    assert chat(HELLO, "parsers")["sampling_params"]["skip_special_tokens"] is False
    assert "skip_special_tokens" not in chat(HELLO)["sampling_params"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("auto", '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        ("required", 'tool_choice="required" requires --tool-call-parser to be set'),
        ({"function": {"name": "get"}}, 'tool_choice=function "get" requires --tool-call-parser to be set'),
    ],
)
def test_tool_choice_needs_a_parser(choice: Any, message: str) -> None:
    assert refusal(CHAT, {**HELLO, "tools": [GET], "tool_choice": choice}).message == message


def test_tool_choice_that_needs_none() -> None:
    for choice in ("none", None):
        assert len(chat({**HELLO, "tools": [GET], "tool_choice": choice})["token_ids"]) > 100


def test_stream_options() -> None:
    streamed = {**HELLO, "stream": "yes", "stream_options": {"include_usage": 1, "zz": [1]}}
    answer = chat(streamed)
    assert json.dumps(answer["stream_options"]) == json.dumps(
        {"include_usage": True, "continuous_usage_stats": False, "zz": [1]}
    )
    assert (answer["stream"], answer["sampling_params"]["output_kind"]) == (True, 1)
    assert chat({**HELLO, "stream_options": {}})["stream_options"] is None


def test_pass_through() -> None:
    request = {
        **HELLO,
        "model": "b",
        "cache_salt": "s",
        "priority": -3,
        "return_token_ids": False,
        "ec_transfer_params": {"e": 1},
        "kv_transfer_params": {},
    }
    answer = chat(request)
    assert answer["model"] == "b"
    assert (answer["cache_salt"], answer["priority"], answer["return_token_ids"]) == ("s", -3, False)
    assert (answer["ec_transfer_params"], answer["kv_transfer_params"]) == ({"e": 1}, None)
    assert refusal(CHAT, {**HELLO, "model": "zz"}).message == (
        "The model `zz` does not exist. Valid aliases: a, b."
    )


def test_completion_prompts() -> None:
    assert [a["token_ids"] for a in post(COMPLETION, {"prompt": ["Hello", "world"]})] == [[9707], [14615]]
    assert [a["token_ids"] for a in post(COMPLETION, {"prompt": [[1], [2.0, "3"]]})] == [[1], [2, 3]]
    assert post(COMPLETION, {"prompt": [10**7]})[0]["token_ids"] == [10**7]


def test_echo() -> None:
    [answer] = post(COMPLETION, {"prompt": "Hello", "echo": True, "logprobs": 2, "max_tokens": 0})
    params = answer["sampling_params"]
    assert (params["max_tokens"], params["logprobs"], params["prompt_logprobs"]) == (1, 2, 2)


def test_tokenize() -> None:
    answer = post("/tokenize", {"prompt": "Hello\n", "return_token_strs": True})
    assert answer == {"count": 2, "max_model_len": 4096, "tokens": [9707, 198], "token_strs": ["Hello", "Ċ"]}
    assert post("/tokenize", HELLO)["tokens"] == chat(HELLO)["token_ids"]
    assert post("/tokenize", {**HELLO, "prompt": 5, "tools": [GET]})["count"] > 100
    assert post("/tokenize", {"prompt": "x", "messages": 5})["tokens"] == [87]
    assert post("/tokenize", {"prompt": "w " * 9000})["count"] > 4096
    assert refusal("/tokenize", {**HELLO, "add_generation_prompt": True, "continue_final_message": True})
    assert refusal("/tokenize", {"prompt": [1, 2]}).param == "body.prompt"
    assert refusal("/tokenize", {**HELLO, "chat_template": "x"}, "plain").type == "BadRequestError"


def test_detokenize() -> None:
    assert post("/detokenize", {"tokens": [9707, "11", 151645, 198]}) == {"prompt": "Hello,<|im_end|>\n"}
    assert post("/detokenize", {"tokens": []}) == {"prompt": ""}
    assert post("/detokenize", {"tokens": [2**63 - 1, 10**9, 9707]}) == {"prompt": "Hello"}
    assert post("/detokenize", {"tokens": [11162]}) == {"prompt": " �"}
    for token_id in (-1, 2**63):
        assert refusal("/detokenize", {"tokens": [token_id]}).param == "body.tokens.0"


DEEP = b'{"messages":[{"role":"user","content":"Hello"}],"vllm_xargs":%s,"kv_transfer_params":{"x":%s}}'


@pytest.mark.parametrize("depth", [100, 500, 900, 5000])
def test_nesting(depth: int) -> None:
    """Passed on, or refused; never an error of the server's own."""
    nested = b"[" * depth + b"]" * depth
    try:
        renderer().chat(DEEP % (b"null", nested), None)
    except ApiError as error:
        assert (error.status, "nested too deeply" in error.message) == (400, True)
    with pytest.raises(ApiError):
        renderer().chat(DEEP % (nested, b"null"), None)


@pytest.mark.parametrize("field", ["cache_salt", "request_id", "kv_transfer_params", "model"])
def test_lone_surrogates_elsewhere(field: str) -> None:
    value: Any = {"\ud800": 1} if field == "kv_transfer_params" else "\ud800"
    assert refusal(CHAT, {**HELLO, field: value}).status in (400, 404)
