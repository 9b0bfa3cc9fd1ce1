"""One request between the server and its engines, which are fake here."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from renderd import telemetry
from renderd.gateway.exchange import MAX_PIECES, events, responses
from renderd.gateway.prepared import packed, unpacked
from renderd.gateway.route import EngineFailure
from renderd.wire.errors import ApiError
from renderd.wire.generate import (
    ChoiceLogprobs,
    GenerateChoice,
    GenerateChunk,
    GenerateChunkChoice,
    GenerateResponse,
    GenerateUsage,
    TokenLogprob,
)
from tests.gateway.support import FakeRoute, Json, chunks, face, gateway, streamed, whole

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PLAIN = "qwen3-plain"
REQUEST: Json = {"messages": [{"role": "user", "content": "hi"}]}
EOS = 151645


def ids(text: str) -> list[int]:
    return list(gateway(PLAIN).desk.setup.model.tokenizer.encode(text, False))


def said(token_ids: list[int], index: int = 0, finish: str | None = None, **more: Any) -> GenerateChunk:
    choice = GenerateChunkChoice(index, finish, token_ids=token_ids, **more)
    return GenerateChunk(request_id="generate-tokens-x", choices=[choice])


def stream_of(text: str, index: int = 0) -> list[GenerateChunk]:
    return [*(said([one], index) for one in ids(text)), said([EOS], index, "stop")]


def content(got: list[Json], index: int = 0) -> str:
    choices = [choice for chunk in got for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def test_engines_get_no_stop_strings_and_nothing_of_the_client() -> None:
    route = FakeRoute([stream_of("a b c")])
    request = {**REQUEST, "stop": ["b"], "stream": True, "return_token_ids": True, "return_prompt_text": True}
    request["return_token_offsets"] = True
    streamed(PLAIN, CHAT, request, route)
    asked = msgspec.json.decode(msgspec.json.encode(route.asked[0], enc_hook=lambda ids: list(ids)))
    assert "stop" not in asked["sampling_params"]
    assert asked["token_ids"][-2:] == [77091, 198]
    assert (asked["return_token_ids"], asked["token_offsets"], asked["parse_context"]) == (None, None, None)
    assert "prompt_text" not in asked


def test_a_stop_string_ends_the_generation() -> None:
    route = FakeRoute([stream_of("one two three four")])
    got = chunks(streamed(PLAIN, CHAT, {**REQUEST, "stop": "three", "stream": True}, route))
    assert content(got) == "one two "
    assert got[-1]["choices"][0]["stop_reason"] == "three"
    assert route.generations[0].closed_after == 3
    route = FakeRoute([stream_of("one two three four")])
    record = telemetry.Record()
    answer = record.run(whole, PLAIN, CHAT, {**REQUEST, "stop": "three", "n": 1}, route)
    assert record.tokens_derendered == 3
    assert answer["choices"][0]["message"]["content"] == "one two "
    assert answer["usage"]["completion_tokens"] == 3
    assert route.generations[0].closed_after == 3


def test_a_stop_string_of_one_choice_leaves_the_others() -> None:
    first, second = stream_of("one two three"), stream_of("six seven eight nine ten", 1)
    mixed = [event for pair in zip(first, second, strict=False) for event in pair] + second[len(first) :]
    route = FakeRoute([mixed])
    request = {**REQUEST, "stop": ["two"], "n": 2, "stream": True, "stream_options": {"include_usage": True}}
    got = chunks(streamed(PLAIN, CHAT, request, route))
    assert (content(got, 0), content(got, 1)) == ("one ", "six seven eight nine ten")
    assert got[-1]["usage"]["completion_tokens"] == 2 + len(second)
    assert route.generations[0].closed_after == len(mixed)
    assert [chunk["choices"][0].get("finish_reason") for chunk in got[:-1]].count("stop") == 2


def test_prompt_logprobs_survive_a_stop_string() -> None:
    """No stream has them, so the engine is asked for the whole answer, which is cut."""
    token_ids = ids("one two three four")
    logprobs = ChoiceLogprobs([TokenLogprob(one, -1.0) for one in token_ids])
    response = GenerateResponse(
        request_id="x",
        choices=[GenerateChoice(0, "length", token_ids=token_ids, logprobs=logprobs)],
        prompt_logprobs=[None, {"872": {"logprob": -1.0, "rank": 3, "decoded_token": None}}],
    )
    request = {**REQUEST, "stop": ["three"], "prompt_logprobs": 1, "logprobs": True}
    answer = whole(PLAIN, CHAT, request, FakeRoute(wholes=[response]))
    choice = answer["choices"][0]
    assert choice["message"]["content"] == "one two "
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "three")
    assert len(choice["logprobs"]["content"]) == answer["usage"]["completion_tokens"] == 3
    assert answer["prompt_logprobs"][1]["872"]["decoded_token"] == "user"


def test_events_that_are_there_are_one_piece() -> None:
    events = stream_of("word " * 200)
    assert len(streamed(PLAIN, CHAT, {**REQUEST, "stream": True}, FakeRoute([events]))) == len(events) + 1
    pieces = streamed(PLAIN, CHAT, {**REQUEST, "stream": True}, FakeRoute([events], pending=True))
    assert len(pieces) <= len(events) / MAX_PIECES + 2
    assert len(chunks(pieces)) == len(events) + 1


def test_the_first_piece_waits_for_the_engine() -> None:
    failure = EngineFailure(503, "ServiceUnavailableError", "No engine is healthy.", retry_after=1)
    for stream in (False, True):
        ask = streamed if stream else whole
        with pytest.raises(EngineFailure, match="healthy"):
            ask(PLAIN, CHAT, {**REQUEST, "stream": stream}, FakeRoute(failure=failure))
    for prompt in ("one", ["one", "two"]):
        with pytest.raises(EngineFailure, match="healthy"):
            streamed(PLAIN, TEXT, {"prompt": prompt, "stream": True}, FakeRoute(failure=failure))
        with pytest.raises(EngineFailure, match="healthy"):
            whole(PLAIN, TEXT, {"prompt": prompt}, FakeRoute(failure=failure))


def test_an_engine_that_is_lost_in_the_middle() -> None:
    failure = EngineFailure(502, "BadGatewayError", "The engine was lost.", begun=True)
    events = [said([one]) for one in ids("one two")]
    for path, request in ((CHAT, REQUEST), (TEXT, {"prompt": "zero"})):
        route = FakeRoute([events], failure=failure)
        got = chunks(streamed(PLAIN, path, {**request, "stream": True}, route))
        assert got[-1] == {
            "error": {
                "message": "The engine was lost.",
                "type": "BadGatewayError",
                "param": None,
                "code": 502,
            }
        }
        assert all(chunk["choices"][0]["finish_reason"] is None for chunk in got[:-1])


def test_a_defect_in_the_middle_is_an_error_event(caplog: pytest.LogCaptureFixture) -> None:
    events = [said([ids("one")[0]]), said([5], index=7)]
    got = chunks(streamed(PLAIN, CHAT, {**REQUEST, "stream": True}, FakeRoute([events])))
    assert got[-1]["error"]["code"] == 500
    assert "broke off" in caplog.text


def test_a_reader_that_stops_reading_ends_the_generation() -> None:
    route = FakeRoute([stream_of("one two three")])
    api = face(PLAIN, CHAT)
    prepared = api.prepare(msgspec.json.encode({**REQUEST, "stream": True}), None)

    async def read_one() -> None:
        pieces = events(api.writer(prepared), route, prepared)
        await anext(pieces)
        await pieces.aclose()

    asyncio.run(read_one())
    assert route.generations[0].closed_after == 1


def test_prompts_are_asked_at_once_and_numbered_through() -> None:
    route = FakeRoute([stream_of(" a", 0), stream_of(" b c", 0)])
    request = {"prompt": ["one", "two words"], "stream": True, "stream_options": {"include_usage": True}}
    got = chunks(streamed(PLAIN, TEXT, request, route))
    texts = ["", ""]
    for chunk in got:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == [" a", " b c"]
    assert got[-1]["usage"] == {"prompt_tokens": 3, "total_tokens": 8, "completion_tokens": 5}
    assert {asked.request_id[-2:] for asked in route.asked} == {"-0", "-1"}
    assert got[0]["id"] == route.asked[0].request_id[:-2]


def test_one_prompt_that_fails_ends_the_others() -> None:
    failure = EngineFailure(500, "InternalServerError", "Internal server error", begun=True)

    class OneFails(FakeRoute):
        async def stream(self, request: Any, session: str | None = None) -> Any:
            if request.request_id.endswith("-1"):
                await asyncio.sleep(0.01)
                raise failure
            return await super().stream(request, session)

    class Slow(list[GenerateChunk]):
        pass

    route = OneFails([Slow(stream_of("and so on " * 100))])
    pieces = streamed(PLAIN, TEXT, {"prompt": ["one", "two"], "stream": True}, route)
    assert len(route.generations) == 1
    assert route.generations[0].closed_after is not None
    assert b"".join(pieces).endswith(b"data: [DONE]\n\n")


def test_an_answer_without_tokens() -> None:
    """An engine that aborts a request before its first token answers nothing: no fault of the client."""
    response = GenerateResponse(request_id="x", choices=[GenerateChoice(0, "abort", token_ids=[])])
    answer = whole(PLAIN, CHAT, REQUEST, FakeRoute(wholes=[response]))
    assert answer["choices"][0]["finish_reason"] == "abort"
    assert answer["choices"][0]["message"]["content"] == ""


def test_what_the_engine_says_besides() -> None:
    usage = GenerateUsage(9, 10, 1, prompt_tokens_details={"cached_tokens": 8})
    weights = [{"version": "default", "start": 0, "end": 1}]
    choice = GenerateChoice(0, "stop", token_ids=[EOS], weight_versions=weights)
    response = GenerateResponse(
        request_id="x",
        choices=[choice],
        usage=usage,
        kv_transfer_params={"a": 1},
        ec_transfer_params={"b": 2},
        metrics={"c": 3},
    )
    answer = whole(PLAIN, CHAT, {**REQUEST, "return_weight_versions": True}, FakeRoute(wholes=[response]))
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}
    assert answer["choices"][0]["weight_versions"] == weights
    assert (answer["kv_transfer_params"], answer["ec_transfer_params"]) == ({"a": 1}, {"b": 2})
    assert answer["metrics"] == {"c": 3}
    last = GenerateChunk(request_id="x", choices=[], usage=usage)
    request = {**REQUEST, "stream": True, "stream_options": {"include_usage": True}}
    got = chunks(streamed(PLAIN, CHAT, request, FakeRoute([[*stream_of("a"), last]])))
    assert got[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}


def test_how_long_the_stages_took() -> None:
    choice = GenerateChoice(0, "stop", token_ids=[EOS])
    response = GenerateResponse(request_id="x", choices=[choice])
    stages = {"queue": None, "prefill": None, "first_token": None, "decode": None}
    timed = {**REQUEST, "return_stage_times": True}
    answer = whole(PLAIN, CHAT, timed, FakeRoute(wholes=[response]))
    assert answer["metrics"] == {"stage_seconds": stages}
    for path, request in ((CHAT, timed), (TEXT, {"prompt": "a", "return_stage_times": True})):
        got = chunks(streamed(PLAIN, path, {**request, "stream": True}, FakeRoute([stream_of("a")])))
        assert got[-1]["choices"] == []
        assert got[-1]["metrics"] == {"stage_seconds": stages}
        assert "usage" not in got[-1]


def test_an_echo() -> None:
    messages = [{"role": "user", "content": "Say"}, {"role": "assistant", "content": "Well,"}]
    request = {
        "messages": messages,
        "echo": True,
        "add_generation_prompt": False,
        "continue_final_message": True,
    }
    response = GenerateResponse(
        request_id="x", choices=[GenerateChoice(0, "stop", token_ids=[*ids(" yes"), EOS])]
    )
    answer = whole(PLAIN, CHAT, request, FakeRoute(wholes=[response]))
    assert answer["choices"][0]["message"]["content"] == "Well, yes"
    got = chunks(streamed(PLAIN, CHAT, {**request, "stream": True}, FakeRoute([stream_of(" yes")])))
    assert [chunk["choices"][0]["delta"].get("content") for chunk in got] == ["", "Well,", " yes", ""]
    wanted: Json = {
        "text_offset": [0, 4, 9],
        "token_logprobs": [None, -2.0, -3.0],
        "tokens": ["Once", " upon", " a"],
        "top_logprobs": [None, {" upon": -2.0, "Once": -1.0}, None],
    }
    of_prompt = [None, {"5193": {"logprob": -2.0}, "12522": {"logprob": -1.0}}]
    for silent in (False, True):
        logprobs = ChoiceLogprobs([TokenLogprob(ids(" a")[0], -3.0)])
        choice = GenerateChoice(0, "length", token_ids=ids(" a"), logprobs=logprobs)
        response = GenerateResponse(request_id="x", choices=[choice], prompt_logprobs=of_prompt)
        echoed = {"prompt": "Once upon", "echo": True, "logprobs": 1, "max_tokens": 0 if silent else 1}
        answer = whole(PLAIN, TEXT, echoed, FakeRoute(wholes=[response]))
        shown = {key: value[:2] for key, value in wanted.items()} if silent else wanted
        assert answer["choices"][0]["logprobs"] == shown
        assert answer["choices"][0]["text"] == ("Once upon" if silent else "Once upon a")
    nothing = {"prompt": "Once", "echo": True, "max_tokens": 0}
    one = GenerateResponse(request_id="x", choices=[GenerateChoice(0, "length", token_ids=ids(" upon"))])
    answer = whole(PLAIN, TEXT, nothing, FakeRoute(wholes=[one]))
    assert answer["choices"][0]["text"] == "Once"
    ended = [said(ids(" upon"), finish="length")]
    got = chunks(streamed(PLAIN, TEXT, {**nothing, "stream": True}, FakeRoute([ended])))
    assert [chunk["choices"][0]["text"] for chunk in got] == ["Once"]


def test_a_request_travels_between_processes() -> None:
    api = face("qwen3-hermes", CHAT)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    request = {
        **REQUEST,
        "tools": [tool],
        "stop": ["x"],
        "logit_bias": {"5": 1.5},
        "vllm_xargs": {"a": "b"},
        "conversation_id": "c",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    prepared = api.prepare(msgspec.json.encode(request), "mine")
    again = unpacked(packed(prepared))
    assert packed(again) == packed(prepared)
    assert again.context == prepared.context
    assert (again.session, again.request_id) == ("c", "chatcmpl-mine")
    route = FakeRoute([stream_of("a")])
    with pytest.raises(IndexError):
        asyncio.run(responses(gateway("qwen3-hermes").desk, FakeRoute(), again))
    assert route.asked == []


def test_an_answer_that_would_repeat_too_much() -> None:
    """It is refused before an engine works on it."""
    long = "word " * 3600
    chat = {**REQUEST, "messages": [{"role": "user", "content": long}], "n": 16000, "stream": True}
    for path, request in (
        (CHAT, {**chat, "return_token_ids": True}),
        (CHAT, {**chat, "return_prompt_text": True}),
        (TEXT, {"prompt": long, "n": 16000, "echo": True}),
        (TEXT, {"prompt": long, "n": 16000, "return_token_ids": True}),
    ):
        with pytest.raises(ApiError, match="--max-answer-bytes"):
            face(PLAIN, path).prepare(msgspec.json.encode(request), None)
    assert face(PLAIN, CHAT).prepare(msgspec.json.encode(chat), None).choices == 16000
