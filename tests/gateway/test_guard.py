"""An offer of KV goes no further than the prefix that a prompt shares with the last turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET

from renderd.derender import Derenderer, DerenderOptions
from renderd.gateway.gateway import gateway_of
from renderd.gateway.guard import guarded
from renderd.wire.generate import GenerateRequest
from renderd.wire.prefix import Prefix, PrefixChain, prefix_chain
from tests.gateway.scripted import scripted
from tests.render.support import HELLO, chat, renderer
from tests.server.running import running

REMOTE = {
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "decode-1",
    "remote_request_id": "r",
    "remote_host": "10.0.0.5",
    "remote_port": 5600,
    "tp_size": 1,
    "remote_num_tokens": 40,
}
TO_PREFILL = {"do_remote_decode": True, "do_remote_prefill": False, **REMOTE}
TO_DECODE = {"do_remote_decode": False, "do_remote_prefill": True, **REMOTE}
KEEP_FOR_DECODE = {"do_remote_decode": True}


def guard(params: dict[str, Any] | None, shared: int | None, tokens: int = 60) -> dict[str, Any] | None:
    request = request_with(params, tokens)
    request.prefix = Prefix(shared, tokens)
    return guarded(request)


def request_with(params: dict[str, Any] | None, tokens: int) -> GenerateRequest:
    made = chat(HELLO)
    made |= {"kv_transfer_params": params, "token_ids": [7] * tokens, "parse_context": None}
    return GenerateRequest(**made)


@pytest.mark.parametrize(
    ("params", "shared", "left"),
    [
        (TO_PREFILL, 40, TO_PREFILL),
        (TO_PREFILL, 59, TO_PREFILL),
        (TO_PREFILL, 39, KEEP_FOR_DECODE),
        (TO_PREFILL, 0, KEEP_FOR_DECODE),
        ({**TO_PREFILL, "remote_num_tokens": None}, 59, KEEP_FOR_DECODE),
        ({**TO_PREFILL, "remote_num_tokens": "40"}, 59, KEEP_FOR_DECODE),
        ({**TO_PREFILL, "remote_block_ids": []}, 0, {**TO_PREFILL, "remote_block_ids": []}),
        (TO_DECODE, 60, TO_DECODE),
        (TO_DECODE, 59, None),
        ({**REMOTE}, 0, None),
        (KEEP_FOR_DECODE, 0, KEEP_FOR_DECODE),
        ({"other": 1}, 0, {"other": 1}),
        (None, 0, None),
        (TO_PREFILL, None, TO_PREFILL),
    ],
)
def test_offers(params: dict[str, Any] | None, shared: int | None, left: dict[str, Any] | None) -> None:
    assert guard(params, shared) == left


def test_nothing_is_known_of_the_last_turn() -> None:
    assert guarded(request_with(TO_PREFILL, 60)) == TO_PREFILL


def test_a_request_of_the_gateway() -> None:
    """What an engine is asked, for a chat whose last answer's thinking the template has dropped."""
    first = [{"role": "user", "content": "Question? " * 20}]
    held = [*chat({"messages": first})["token_ids"], *range(100, 200)]
    second = [*first, {"role": "assistant", "content": "Answer."}, {"role": "user", "content": "More?"}]
    offer = {**TO_PREFILL, "remote_num_tokens": len(held) - 1}

    assert asked(second, offer, previous_token_ids=held) == KEEP_FOR_DECODE
    prompt = held[:-100]
    fits = {**TO_PREFILL, "remote_num_tokens": len(prompt)}
    assert asked(second, fits, previous_token_ids=held) == fits
    assert asked(second, {**fits, "remote_num_tokens": 32}, previous_prefix_hashes=hashes(held))
    assert asked(second, fits, previous_prefix_hashes=hashes(held)) == KEEP_FOR_DECODE
    assert asked(second, offer) == offer


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/messages", {"model": "a", "max_tokens": 9, "messages": HELLO["messages"]}),
        ("/v1/completions", {"prompt": "Hello"}),
        ("/v1/chat/completions", HELLO),
    ],
)
def test_every_api(path: str, fields: dict[str, Any]) -> None:
    body = {**fields, "previous_token_ids": [1, 2, 3]}
    assert prepared(path, {**body, "kv_transfer_params": TO_DECODE}) is None
    assert prepared(path, {**body, "kv_transfer_params": TO_PREFILL}) == KEEP_FOR_DECODE


def test_what_an_engine_is_spared() -> None:
    """The scripted engine fails where it is to load what it does not have."""
    with scripted(1, has_kv=True) as (engine,), running("--engine-url", engine.url) as server:
        body = {**HELLO, "kv_transfer_params": TO_DECODE}
        assert server.post("/v1/chat/completions", body).status_code == 500
        body["previous_token_ids"] = [1, 2, 3]
        assert server.post("/v1/chat/completions", body).status_code == 200
        body["previous_token_ids"] = [-1]
        assert server.post("/v1/chat/completions", body).status_code == 400


def hashes(ids: list[int]) -> dict[str, Any]:
    chain: PrefixChain = prefix_chain(ids, 16)
    return {"block_size": chain.block_size, "hashes": chain.hashes}


def asked(messages: list[dict[str, Any]], params: dict[str, Any], **fields: Any) -> Any:
    return prepared("/v1/chat/completions", {"messages": messages, "kv_transfer_params": params, **fields})


def prepared(path: str, body: dict[str, Any]) -> Any:
    """The `kv_transfer_params` that an engine gets."""
    server = renderer()
    setup = Derenderer(server.server.model, None, DerenderOptions()).setup
    face = gateway_of(server.server, setup, None).faces[path]
    request = face.prepare(json.dumps(body).encode(), None).prompts[0].request(False)
    assert request.prefix is UNSET
    return request.kv_transfer_params
