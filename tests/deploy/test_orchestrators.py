"""docs/orchestrators.md: what the schedulers are documented to send is answered as they read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.server.running import Running, running

NAMES = ["served", "alias"]
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16}
PATHS = {
    "/v1/chat/completions/render": CHAT,
    "/v1/completions/render": {"prompt": "Hello", "max_tokens": 16},
    "/v1/messages/render": CHAT,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running("--served-model-name", *NAMES, "--api-key", "key", "--max-model-len", "4096") as server:
        yield server


@pytest.fixture(scope="module")
def open_server() -> Iterator[Running]:
    with running("--root-path", "/gateway/vllm") as server:
        yield server


def ids_of(answer: httpx2.Response) -> list[int]:
    """The ids of a prompt as both read them: an object with token_ids, for completions in a list."""
    assert answer.status_code == 200, answer.text
    content: Any = answer.json()
    ids = (content[0] if isinstance(content, list) else content)["token_ids"]
    assert ids
    assert all(isinstance(token_id, int) and 0 <= token_id < 2**32 for token_id in ids)
    return list(ids)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", PATHS)
def test_llmd_renders_under_every_name_with_the_key_of_the_client(
    server: Running, path: str, name: str
) -> None:
    ids_of(server.post(path, {**PATHS[path], "model": name}, authorization="Bearer key"))
    assert server.post(path, {**PATHS[path], "model": name}).status_code == 401
    other = server.post(path, {**PATHS[path], "model": "other"}, authorization="Bearer key")
    assert other.status_code == 404


def test_llmd_renders_prompts_that_are_ids(server: Running) -> None:
    body = {"model": "served", "prompt": [1, 2, 3], "max_tokens": 16}
    assert ids_of(server.post("/v1/completions/render", body, authorization="Bearer key")) == [1, 2, 3]


def test_llmd_reads_the_limits_of_the_model(server: Running) -> None:
    models = server.get("/v1/models", authorization="Bearer key").json()["data"]
    assert {model["id"]: model["max_model_len"] for model in models} == dict.fromkeys(NAMES, 4096)


@pytest.mark.parametrize("path", PATHS)
def test_a_long_prompt_renders_where_one_output_token_is_asked_for(server: Running, path: str) -> None:
    """As with llm-d's prefillOnly."""
    prompt = "Hello " * 1000
    body = {"model": "served", "prompt": prompt, "messages": [{"role": "user", "content": prompt}]}
    fits = server.post(path, {**body, "max_tokens": 1}, authorization="Bearer key")
    assert 1000 < len(ids_of(fits)) < 4096


def test_dynamo_sends_the_body_as_it_is_without_a_key(open_server: Running) -> None:
    """It puts the route behind the path of its URL, and knows how long the answer is before it reads it."""
    body = json.dumps({**CHAT, "stream": True, "stream_options": {"include_usage": True}}).encode()
    for prefix in ("", "/gateway/vllm"):
        answer = open_server.post(f"{prefix}/v1/chat/completions/render", body)
        ids_of(answer)
        assert int(answer.headers["content-length"]) == len(answer.content)
