"""Messages of the gateway, between a client and engines that are fake here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from renderd.gateway.route import EngineFailure
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.generate import (
    GenerateChoice,
    GenerateChunk,
    GenerateChunkChoice,
    GenerateResponse,
    GenerateUsage,
)
from tests.gateway.support import FakeRoute, Json, face, gateway, streamed, whole
from tests.gateway.test_golden_messages import named_events

SERVER, PATH = "messages-qwen3", "/v1/messages"
REQUEST: Json = {"model": "qwen3", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}
EOS = 151645
CACHED = GenerateUsage(9, 14, 5, {"cached_tokens": 4, "created_cache_tokens": 2, "multimodal_tokens": None})


def ids(text: str) -> list[int]:
    return list(gateway(SERVER).desk.setup.model.tokenizer.encode(text, False))


def said(token_ids: list[int], finish: str | None = None) -> GenerateChunk:
    return GenerateChunk(
        request_id="generate-tokens-x", choices=[GenerateChunkChoice(0, finish, token_ids=token_ids)]
    )


def stream_of(
    text: str, finish: str | None = "stop", usage: GenerateUsage | None = None
) -> list[GenerateChunk]:
    end = [] if finish is None else [said([EOS] if finish == "stop" else [], finish)]
    counted = (
        [] if usage is None else [GenerateChunk(request_id="generate-tokens-x", choices=[], usage=usage)]
    )
    return [*(said([one]) for one in ids(text)), *end, *counted]


def events(chunks: Sequence[GenerateChunk], failure: Exception | None = None, **fields: Any) -> list[Json]:
    route = FakeRoute([list(chunks)], failure=failure)
    return named_events(
        b"".join(streamed(SERVER, PATH, {**REQUEST, **fields, "stream": True}, route)).decode()
    )


def test_what_the_engines_cache_had_of_the_prompt() -> None:
    got = events(stream_of("</think>Hi", usage=CACHED))
    assert got[0]["message"]["usage"] == {"input_tokens": 9, "output_tokens": 0}
    usage = {
        "input_tokens": 3,
        "output_tokens": 3,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 4,
    }
    assert got[-2]["usage"] == usage
    choice = GenerateChoice(0, "stop", token_ids=[*ids("</think>Hi"), EOS])
    response = GenerateResponse(request_id="generate-tokens-x", choices=[choice], usage=CACHED)
    assert whole(SERVER, PATH, REQUEST, FakeRoute(wholes=[response]))["usage"] == usage


def test_an_engine_that_tells_nothing_of_its_cache_or_part() -> None:
    plain = {"input_tokens": 9, "output_tokens": 3}
    got = events(stream_of("</think>Hi", usage=GenerateUsage(9, 12, 3)))
    assert got[-2]["usage"] == plain
    details = {"cached_tokens": 0, "created_cache_tokens": None}
    got = events(stream_of("</think>Hi", usage=GenerateUsage(9, 12, 3, details)))
    assert got[-2]["usage"] == plain | {"cache_read_input_tokens": 0}


def test_an_engine_is_asked_for_its_usage_and_not_for_stop_strings() -> None:
    route = FakeRoute([stream_of("</think>Hi")])
    streamed(SERVER, PATH, {**REQUEST, "stream": True, "stop_sequences": ["x"]}, route)
    asked = route.asked[0]
    assert asked.stream_options == {"include_usage": True, "continuous_usage_stats": False}
    assert "stop" not in asked.sampling_params


@pytest.mark.parametrize("thought", ["<think>Hm", "</think>Hm"])
def test_an_error_ends_the_open_block(thought: str) -> None:
    failure = EngineFailure(502, "BadGatewayError", "The engine was lost.", begun=True)
    got = events(stream_of(thought, None), failure)
    kinds = [event["type"] for event in got]
    assert kinds[-2:] == ["content_block_stop", "error"]
    assert got[-1]["error"] == {"type": "api_error", "message": "The engine was lost."}
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 1


@pytest.mark.parametrize("finish", ["error", "abort"])
def test_what_the_engine_did_not_end_is_an_error(finish: str) -> None:
    got = events(stream_of("</think>Hm", finish))
    assert [event["type"] for event in got[-2:]] == ["content_block_stop", "error"]
    assert got[-1]["error"]["type"] == "api_error"
    choice = GenerateChoice(0, finish, token_ids=ids("</think>Hm"))
    route = FakeRoute(wholes=[GenerateResponse(request_id="x", choices=[choice])])
    with pytest.raises(ApiError) as caught:
        whole(SERVER, PATH, REQUEST, route)
    assert caught.value.status == 500


def test_an_engine_that_is_lost_behind_its_last_word_is_not_missed() -> None:
    failure = EngineFailure(502, "BadGatewayError", "The engine was lost.", begun=True)
    got = events(stream_of("</think>Hi"), failure)
    assert [event["type"] for event in got[-2:]] == ["message_delta", "message_stop"]


def test_a_stop_sequence_ends_the_request() -> None:
    route = FakeRoute([stream_of("</think>One END two three four")])
    request = {**REQUEST, "stream": True, "stop_sequences": ["END"]}
    got = named_events(b"".join(streamed(SERVER, PATH, request, route)).decode())
    assert got[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END", "stop_details": None}
    assert (
        "".join(event["delta"]["text"] for event in got if event["type"] == "content_block_delta") == "One "
    )
    assert route.generations[0].closed_after == got[-2]["usage"]["output_tokens"] == 3


def test_the_conversation_is_told_to_the_route() -> None:
    prepared = face(SERVER, PATH).prepare(msgspec.json.encode({**REQUEST, "conversation_id": "c"}), "mine")
    assert (prepared.session, prepared.request_id) == ("c", "chatcmpl-mine")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_types_of_errors(status: int, kind: str) -> None:
    body = face(SERVER, PATH).failure(ApiError(status, "Any", " No. "))
    assert msgspec.json.decode(body) == {"type": "error", "error": {"type": kind, "message": "No."}}


def test_paths_are_scrubbed_from_errors() -> None:
    body = face(SERVER, PATH).failure(bad_request("see /usr/lib/x.py"))
    assert msgspec.json.decode(body)["error"]["message"] == "see <path>"


def counted(**fields: Any) -> Json:
    body = {name: value for name, value in (REQUEST | fields).items() if value is not None}
    answer: Json = msgspec.json.decode(gateway(SERVER).messages.count(msgspec.json.encode(body), None))
    assert answer["context_management"] == {"original_input_tokens": answer["input_tokens"]}
    return answer


TOOL: Json = {
    "name": "get_weather",
    "description": "d",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
"""What a real server was asked to count."""


@pytest.mark.parametrize(
    ("tokens", "fields"),
    [
        (9, {}),
        (9, {"max_tokens": None}),
        (9, {"max_tokens": "x", "stop_sequences": list("abcde"), "temperature": -3}),
        (136, {"tools": [TOOL]}),
        (136, {"tools": [TOOL], "tool_choice": {"type": "none"}}),
        (136, {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "get_weather"}}),
        (9, {"tool_choice": {"type": "any"}}),
        (17, {"system": "Be brief."}),
        (17, {"system": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]}),
        (9, {"max_tokens": None, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (13, {"thinking": {"type": "disabled"}}),
        (13, {"chat_template_kwargs": {"enable_thinking": False}}),
        (4096, {"messages": [{"role": "user", "content": "word " * 4087}]}),
        (19, {"messages": [*REQUEST["messages"], {"role": "assistant", "content": "Well"}]}),
        (15, {"messages": [*REQUEST["messages"], {"role": "system", "content": "Well"}]}),
    ],
)
def test_tokens_are_counted_as_the_coupled_server_does(tokens: int, fields: Json) -> None:
    assert counted(**fields)["input_tokens"] == tokens


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (404, {"model": "nope"}),
        (400, {"model": ""}),
        (400, {"model": None}),
        (400, {"messages": None}),
        (400, {"messages": []}),
        (400, {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}),
        (400, {"tool_choice": {"type": "tool"}}),
        (400, {"thinking": {"type": "enabled", "budget_tokens": 10}}),
        (400, {"messages": [{"role": "user", "content": "word " * 5000}]}),
    ],
)
def test_what_cannot_be_counted(status: int, fields: Json) -> None:
    with pytest.raises(ApiError) as caught:
        counted(**fields)
    assert caught.value.status == status
