"""What is too large, too deep or too long: refused with a clear error, before it takes memory or time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from golden.models import model_path

from .running import Running, running

CHAT_RENDER, COMPLETION_RENDER = "/v1/chat/completions/render", "/v1/completions/render"
CHAT_DERENDER, COMPLETION_DERENDER = "/v1/chat/completions/derender", "/v1/completions/derender"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
CHOICE: dict[str, Any] = {"index": 0, "token_ids": [9707]}
LIMITS = {
    "--max-body-bytes": "3000000",
    "--max-text-chars": "100000",
    "--max-state-bytes": "5000",
    "--max-answer-bytes": "100000",
    "--max-template-seconds": "0.5",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    flags = [word for limit in LIMITS.items() for word in limit]
    parsers = ("--reasoning-parser", "qwen3", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    with running(str(model_path("qwen3")), *flags, *parsers, "--trust-request-chat-template") as server:
        yield server
        assert not [line for line in server.log if "a defect of renderd" in line]


@pytest.fixture(scope="module")
def gptoss() -> Iterator[Running]:
    with running(str(model_path("gptoss")), "--max-text-chars", "1000") as server:
        yield server


def refusal(server: Running, path: str, body: Any, status: int = 400) -> str:
    answer = server.post(path, body)
    assert answer.status_code == status, answer.text[:1000]
    error = answer.json()["error"]
    assert list(error) == ["message", "type", "param", "code"] and error["code"] == status
    message: str = error["message"]
    return message


def test_bodies(server: Running) -> None:
    says = refusal(server, "/tokenize", b" " * 3_000_001, 413)
    assert "3000000 bytes" in says


def test_texts_to_tokenize(server: Running) -> None:
    assert server.post("/tokenize", {"prompt": "a" * 100_000}).status_code == 200
    says = refusal(server, "/tokenize", {"prompt": "a" * 100_001})
    assert says.startswith(
        "The text has 100001 characters, and this server tokenizes at most 100000 at a time"
    )
    message = {"role": "user", "content": "a" * 100_001}
    for body in ({"messages": [message]}, {"messages": [message], "truncate_prompt_tokens": 5}):
        for path in ("/tokenize", CHAT_RENDER):
            assert "--max-text-chars" in refusal(server, path, body)
    twice = {"prompt": ["a", "a" * 100_001], "truncate_prompt_tokens": 5}
    assert "--max-text-chars" in refusal(server, COMPLETION_RENDER, twice)


def test_what_a_template_makes_of_a_short_text(server: Running) -> None:
    body = CHAT | {"chat_template": "{{ 'ab' * 60000 }}"}
    assert "120000 characters" in refusal(server, CHAT_RENDER, body)


def test_texts_in_harmony(gptoss: Running) -> None:
    assert gptoss.post(CHAT_RENDER, CHAT).status_code == 200
    message = {"role": "user", "content": "a" * 1000}
    assert "--max-text-chars" in refusal(gptoss, CHAT_RENDER, {"messages": [message]})
    tool = {"type": "function", "function": {"name": "f", "description": "a" * 1000}}
    assert "--max-text-chars" in refusal(gptoss, CHAT_RENDER, CHAT | {"tools": [tool]})


def test_ids_to_detokenize(server: Running) -> None:
    assert server.post("/detokenize", {"tokens": [1] * 100_000}).status_code == 200
    assert "There are 100001 tokens" in refusal(server, "/detokenize", {"tokens": [1] * 100_001})


def test_parser_states(server: Running) -> None:
    body = {
        "stream": True,
        "generate_chunk": {"choices": [CHOICE]},
        "stream_state": {"parser_state": "A" * 5004},
    }
    for path in (CHAT_DERENDER, COMPLETION_DERENDER, "/v1/messages/derender", "/v1/responses/derender"):
        says = refusal(server, path, body)
        assert says == "parser_state of stream_state has 5004 bytes, and may have 5000 (--max-state-bytes)."


def test_a_state_that_grows(server: Running) -> None:
    """A response's holds the text so far, so a stream of one ends where its next state could not be read."""
    state, said = None, ""
    for _ in range(400):
        choice = {"index": 0, "token_ids": [151668, *[9707] * 20]}
        body = {
            "stream": True,
            "generate_chunk": {"request_id": "r", "choices": [choice]},
            "stream_state": state,
            "responses_request": {"input": "hi"},
            "prompt_token_ids": [1],
        }
        answer = server.post("/v1/responses/derender", body)
        if answer.status_code != 200:
            said = answer.json()["error"]["message"]
            break
        state = answer.json()["stream_state"]
        assert len(state["parser_state"]) <= 5000
    assert "--max-state-bytes" in said


def test_prompts_that_repeat_what_came_once(server: Running) -> None:
    bias = {"logit_bias": {str(n): 1 for n in range(1000)}}
    assert server.post(COMPLETION_RENDER, bias | {"prompt": ["a"] * 5}).status_code == 200
    says = refusal(server, COMPLETION_RENDER, bias | {"prompt": ["a"] * 20})
    assert "20 prompts would have more than 100000 bytes (--max-answer-bytes)" in says
    alone = {"prompt": "a", "logit_bias": {str(n): 1 for n in range(20_000)}}
    assert len(server.post(COMPLETION_RENDER, alone).content) > 100_000


@pytest.mark.parametrize(
    ("request_part", "prompt"),
    [({"return_token_ids": True, "prompt": "a"}, [1] * 1000), ({"echo": True, "prompt": "a" * 7000}, [1])],
)
def test_choices_that_repeat_their_prompt(
    server: Running, request_part: dict[str, Any], prompt: list[int]
) -> None:
    def body(choices: int) -> dict[str, Any]:
        response = {"request_id": "r", "prompt_token_ids": prompt, "choices": [CHOICE] * choices}
        return {"completion_request": request_part, "generate_responses": [response]}

    assert server.post(COMPLETION_DERENDER, body(14)).status_code == 200
    says = refusal(server, COMPLETION_DERENDER, body(15))
    assert "105000 bytes, once for each choice" in says and "--max-answer-bytes" in says


@pytest.mark.parametrize(
    "loops", ["{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"]
)
def test_nested_loops(server: Running, loops: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], "chat_template": loops}).encode()
    began = time.monotonic()
    assert refusal(server, CHAT_RENDER, body) == "Rendering the chat template takes too long."
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT_RENDER, CHAT | {"x": "DEEP"}),
        (
            CHAT_RENDER,
            CHAT | {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": "DEEP"}}}]},
        ),
        ("/tokenize", {"prompt": "a", "x": "DEEP"}),
        (
            CHAT_DERENDER,
            {"generate_response": {"choices": [CHOICE], "metrics": {"x": "DEEP"}}, "chat_request": CHAT},
        ),
        (CHAT_DERENDER, {"generate_response": {"choices": [CHOICE]}, "chat_request": CHAT | {"x": "DEEP"}}),
    ],
)
def test_depth(server: Running, path: str, body: dict[str, Any]) -> None:
    """100 levels are nothing special; 100,000 are refused."""

    def nested(depth: int) -> bytes:
        return json.dumps(body).replace('"DEEP"', "[" * depth + "]" * depth).encode()

    assert server.post(path, nested(100)).status_code == 200
    assert "nested too deeply" in refusal(server, path, nested(100_000))
