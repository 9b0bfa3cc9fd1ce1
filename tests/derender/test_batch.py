"""Finished answers (contract E.2, E.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderd.derender import DerenderOptions
from renderd.derender.ids import CallIds
from tests.derender.support import (
    CHAT,
    EOS,
    PROMPT,
    TOOL_CHAT,
    Json,
    chat,
    completion,
    derenderer,
    encode,
    refusal,
    response,
)

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
SECOND = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
REQUIRED = {**TOOL_CHAT, "tool_choice": "required"}
NAMED = {**TOOL_CHAT, "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
NONE = {**TOOL_CHAT, "tool_choice": "none"}
CLOSED = "<think>\n\n</think>\n\n"


def parsed(text: str, request: Json, ids: list[int] | None = None, **choice: Any) -> Json:
    server = derenderer(reasoning="qwen3", tools="hermes")
    answer = chat(
        server,
        generate_response=response([*encode(text), EOS] if ids is None else ids, **choice),
        chat_request=request,
        prompt_token_ids=PROMPT,
    )
    found: Json = answer["choices"][0]
    return found


def test_keys_and_their_order() -> None:
    answer = chat(derenderer(), generate_response=response(encode("Hello")), prompt_tokens=3)
    assert json.dumps(answer | {"created": 1}) == json.dumps(
        {
            "id": "rq",
            "object": "chat.completion",
            "created": 1,
            "model": "qwen3",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Hello",
                        "refusal": None,
                        "annotations": None,
                        "audio": None,
                        "function_call": None,
                        "reasoning": None,
                    },
                    "logprobs": None,
                    "finish_reason": "stop",
                    "stop_reason": None,
                    "token_ids": None,
                    "routed_experts": None,
                    "weight_versions": None,
                }
            ],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": {
                "prompt_tokens": 3,
                "total_tokens": 4,
                "completion_tokens": 1,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
    )


def test_completion_keys_and_their_order() -> None:
    answer = completion(derenderer(), generate_responses=[response(encode("Hello"))], prompt_tokens=[3])
    assert json.dumps(answer | {"created": 1}) == json.dumps(
        {
            "id": "rq",
            "object": "text_completion",
            "created": 1,
            "model": "qwen3",
            "choices": [
                {
                    "index": 0,
                    "text": "Hello",
                    "logprobs": None,
                    "finish_reason": "stop",
                    "stop_reason": None,
                    "token_ids": None,
                    "prompt_logprobs": None,
                    "prompt_token_ids": None,
                    "routed_experts": None,
                    "weight_versions": None,
                }
            ],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": {
                "prompt_tokens": 3,
                "total_tokens": 4,
                "completion_tokens": 1,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
    )


@pytest.mark.parametrize(
    ("text", "request_", "content", "reasoning", "finish"),
    [
        ("<think>\nab cd\n</think>\n\nhello there", CHAT, "\n\nhello there", "\nab cd\n", "stop"),
        ("just text", CHAT, None, "just text", "stop"),
        (
            "just text",
            {**CHAT, "chat_template_kwargs": {"enable_thinking": False}},
            "just text",
            None,
            "stop",
        ),
        ("<think>\nab\n</think>", CHAT, None, "\nab\n", "stop"),
        ("", CHAT, None, None, "stop"),
        ("", {**CHAT, "chat_template_kwargs": {"enable_thinking": False}}, "", None, "stop"),
        (CLOSED + "ok " + CALL, TOOL_CHAT, "\n\nok ", "\n\n", "tool_calls"),
        (CLOSED + CALL, TOOL_CHAT, None, "\n\n", "tool_calls"),
        (CLOSED + CALL, REQUIRED, "", "\n\n", "tool_calls"),
        (CLOSED + CALL, NAMED, "", "\n\n", "stop"),
        (CLOSED + "plain", REQUIRED, "\n\nplain", "\n\n", "stop"),
        (CLOSED + CALL, NONE, "\n\n" + CALL, "\n\n", "stop"),
        (CLOSED + CALL, CHAT, "\n\n" + CALL, "\n\n", "stop"),
        (CLOSED + "x", {**CHAT, "include_reasoning": False}, "\n\nx", None, "stop"),
    ],
)
def test_messages(text: str, request_: Json, content: str | None, reasoning: str | None, finish: str) -> None:
    choice = parsed(text, request_)
    message = choice["message"]
    assert (message["content"], message["reasoning"], choice["finish_reason"]) == (content, reasoning, finish)
    kept = request_ in (TOOL_CHAT, REQUIRED, NAMED) and CALL in text
    assert ("tool_calls" in message) == kept
    if kept:
        assert list(message)[-2:] == ["tool_calls", "reasoning"]
        (call,) = message["tool_calls"]
        assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        assert call["type"] == "function"
        assert call["id"].startswith("chatcmpl-tool-")
        assert call["id"][14] in "89ab"
        assert len(call["id"]) == 30


def test_a_length_is_never_called_tool_calls() -> None:
    choice = parsed(CLOSED + CALL, TOOL_CHAT, finish_reason="length")
    assert choice["finish_reason"] == "length"


def test_a_cut_call_is_kept_as_far_as_it_came() -> None:
    choice = parsed("", TOOL_CHAT, encode(CLOSED + CALL.split("ris")[0]), finish_reason="length")
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Pa'


def test_parallel_tool_calls_off() -> None:
    both = parsed(CLOSED + CALL + SECOND, TOOL_CHAT)["message"]["tool_calls"]
    assert [call["function"]["name"] for call in both] == ["get_weather", "ping"]
    one = parsed(CLOSED + CALL + SECOND, {**TOOL_CHAT, "parallel_tool_calls": False})
    assert one["message"]["tool_calls"] == both[:1]


def test_ids_are_a_function_of_request_choice_and_call() -> None:
    server = derenderer(reasoning="qwen3", tools="hermes")
    ids = encode(CLOSED + CALL + SECOND)
    body: Json = {"chat_request": TOOL_CHAT, "prompt_token_ids": PROMPT}
    answers = [
        {"request_id": name, "choices": [{"index": index, "token_ids": ids}]}
        for name in ("a", "b")
        for index in (0, 1)
    ]
    found = [
        [
            call["id"]
            for call in chat(server, generate_response=answer, **body)["choices"][0]["message"]["tool_calls"]
        ]
        for answer in [*answers, answers[0]]
    ]
    assert found[-1] == found[0]
    assert len({call for calls in found for call in calls}) == 8


def test_ids_that_count() -> None:
    ids = CallIds("rq", 0, first=0, pinned=["kept"])
    assert [ids.of(0, "f", None), ids.of(1, "g", None), ids.of(2, "h", "native")] == [
        "kept",
        "functions.g:1",
        "native",
    ]


def test_usage_counts_reasoning_tokens() -> None:
    server = derenderer(reasoning="qwen3", tools="hermes")
    ids = [*encode("<think>\nab cd\n</think>\n\nhello there"), EOS]
    two = {"request_id": "rq", "choices": [{"index": i, "token_ids": ids} for i in (0, 1)]}
    answer = chat(server, generate_response=two, chat_request={**CHAT, "n": 2}, prompt_token_ids=PROMPT)
    assert answer["usage"]["completion_tokens"] == 2 * len(ids)
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 8}


def test_the_prompt_decides_whether_reasoning_is_open() -> None:
    server = derenderer(reasoning="qwen3")
    prompt = encode("<|im_start|>assistant\n<think>\nx\n</think>\n\npre")
    answer = response(encode("more"))
    messages = [
        chat(server, generate_response=generated, chat_request=CHAT, **given)["choices"][0]["message"]
        for generated, given in [
            (answer, {}),
            (answer, {"prompt_token_ids": prompt}),
            ({**answer, "prompt_token_ids": prompt}, {}),
        ]
    ]
    assert [message["content"] for message in messages] == [None, "more", "more"]


def test_ids_are_returned_when_asked_for_and_not_hidden() -> None:
    server = derenderer(reasoning="qwen3")
    ids = [*encode("</think>a"), EOS]
    generated = {**response(ids), "prompt_token_ids": PROMPT}
    shown = chat(server, generate_response=generated, chat_request={**CHAT, "return_token_ids": True})
    assert shown["prompt_token_ids"] == PROMPT
    assert shown["choices"][0]["token_ids"] == ids
    hidden = {**CHAT, "return_token_ids": True, "include_reasoning": False}
    answer = chat(server, generate_response=generated, chat_request=hidden)
    assert answer["prompt_token_ids"] == PROMPT
    assert answer["choices"][0]["token_ids"] is None


def test_server_default_of_skip_special_tokens() -> None:
    ids = encode("a<|im_start|>b")
    server = derenderer()
    assert chat(server, generate_response=response(ids))["choices"][0]["message"]["content"] == "ab"
    request = {**CHAT, "skip_special_tokens": False}
    answer = chat(server, generate_response=response(ids), chat_request=request)
    assert answer["choices"][0]["message"]["content"] == "a<|im_start|>b"


def test_completions_of_several_prompts() -> None:
    first = {"request_id": "a", "choices": [{"index": i, "token_ids": encode(t)} for i, t in enumerate("xy")]}
    second = {**response(encode("z")), "prompt_token_ids": [5], "kv_transfer_params": {"k": 1}}
    answer = completion(
        derenderer(),
        generate_responses=[first, second],
        prompt_tokens=[1, 2],
        completion_request={"prompt": ["p", "q"], "return_token_ids": True},
    )
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [
        (0, "x"),
        (1, "y"),
        (2, "z"),
    ]
    assert [choice["prompt_token_ids"] for choice in answer["choices"]] == [None, None, [5]]
    assert answer["choices"][2]["token_ids"] == encode("z")
    assert answer["usage"]["prompt_tokens"] == 3
    assert (answer["id"], answer["kv_transfer_params"], answer["metrics"]) == ("a", None, None)


LONG = list(range(10)) * 410


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"generate_response": {"request_id": "r", "choices": [{"index": 0}] * 5}},
            "choices count (5) in response 'r' exceeds server maximum (4).",
        ),
        (
            {"generate_response": response(LONG)},
            "token_ids length (4100) in choice 0 exceeds max_model_len (4096).",
        ),
        (
            {
                "generate_response": response(
                    [1], logprobs={"content": [{"token_id": 1, "logprob": 0}] * 4097}
                )
            },
            "logprobs.content length (4097) in choice 0 exceeds max_model_len (4096).",
        ),
        (
            {"generate_response": {**response([1]), "prompt_logprobs": [None] * 4097}},
            "prompt_logprobs length (4097) in response 'rq' exceeds max_model_len (4096).",
        ),
        (
            {"generate_response": response([1]), "prompt_token_ids": LONG},
            "prompt_token_ids length (4100) exceeds max_model_len (4096).",
        ),
        ({"generate_response": response([])}, "choice 0 has empty or null token_ids"),
    ],
)
def test_bounds(body: Json, message: str) -> None:
    server = derenderer(options=DerenderOptions(max_n=4))
    error = refusal(server, **body)
    assert (error.status, error.type, error.message, error.param) == (400, "BadRequestError", message, None)


@pytest.mark.parametrize(("count", "accepted"), [(20, True), (21, True), (22, False)])
def test_candidates_at_the_server_maximum(count: int, accepted: bool) -> None:
    tops = [{"token_id": i, "logprob": -1.0} for i in range(count)]
    generated = response([1], logprobs={"content": [{"token_id": 1, "logprob": -1, "top_logprobs": tops}]})
    request = {**CHAT, "logprobs": True, "top_logprobs": 20}
    if accepted:
        answer = chat(derenderer(), generate_response=generated, chat_request=request)
        assert len(answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 20
    else:
        error = refusal(derenderer(), generate_response=generated, chat_request=request)
        assert error.message == "top_logprobs count (22) in choice 0 exceeds max_logprobs (20)."


def test_parsers_need_the_request() -> None:
    error = refusal(derenderer(reasoning="qwen3"), generate_response=response([1]))
    assert error.message.startswith("chat_request is required when a tool or reasoning parser is configured")


def test_unknown_model() -> None:
    error = refusal(derenderer(), generate_response=response([1]), model="other")
    assert (error.status, error.type, error.param) == (404, "NotFoundError", "model")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"generate_responses": []}, "generate_responses must not be empty"),
        ({"generate_responses": [response([])]}, "choice 0 in response rq has empty or null token_ids"),
    ],
)
def test_completion_bounds(body: Json, message: str) -> None:
    error = refusal(derenderer(), "completion", **body)
    assert (error.type, error.message) == ("BadRequestError", message)
