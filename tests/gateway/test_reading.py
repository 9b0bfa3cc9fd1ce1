"""Engines that say what no engine should: a 502 before the answer has begun, an end with an error after."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from renderd.gateway.route import EngineFailure
from renderd.wire.generate import GenerateChunk, GenerateChunkChoice, GenerateUsage
from tests.gateway.scripted import closing, request, routed, tokens
from tests.gateway.support import FakeRoute, Json, streamed

DONE = b"[DONE]"
PROMPT = (1, 2, 3)


def body(*choices: Json, **more: Any) -> bytes:
    return json.dumps({"request_id": "x", "choices": list(choices), **more}).encode()


def choice(index: int = 0, finish: str | None = None, ids: Sequence[int] = (5,)) -> Json:
    return {"index": index, "token_ids": list(ids), "finish_reason": finish}


def usage(**details: Any) -> Json:
    return {"prompt_tokens": 3, "total_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": details}


DEEP = b'{"choices":[{"index":0,"token_ids":[1],"routed_experts":%b%b}]}' % (b"[" * 5000, b"]" * 5000)
MALFORMED: dict[str, bytes] = {
    "no choice of this index": body(choice(1, "stop")),
    "an index from the end": body(choice(-1, "stop")),
    "nested too deeply": DEEP,
    "no JSON": b"\xff{{",
    "no object": b"[]",
    "an id that no tokenizer has": body(choice(0, "stop", [10**30])),
    "an id below zero": body(choice(0, "stop", [-5])),
    "text for a number": body(choice(0, "stop"), usage=usage(cached_tokens="x")),
    "fewer than none": body(choice(0, "stop"), usage=usage(cached_tokens=-1)),
}
NO_ANSWER: dict[str, bytes] = {
    "no choice": body(),
    "one choice twice": body(choice(0, "stop"), choice(0, "stop")),
    "prompt_logprobs that are none": body(
        choice(0, "stop"), prompt_logprobs=[None, {"5": {"logprob": -1}}, 5]
    ),
    "prompt_logprobs of words": body(choice(0, "stop"), prompt_logprobs=[None, {"x": {"logprob": -1}}, None]),
    "prompt_logprobs without one": body(choice(0, "stop"), prompt_logprobs=[None, {"5": {}}, None]),
    "prompt_logprobs of another prompt": body(choice(0, "stop"), prompt_logprobs=[None]),
}


@asynccontextmanager
async def saying(answer: bytes | Sequence[bytes], status: int = 200) -> AsyncIterator[str]:
    """The URL of an engine that has one answer: a body, or the data of a stream's events."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        said = answer if isinstance(answer, bytes) else b"".join(b"data: %b\n\n" % one for one in answer)
        writer.write(b"HTTP/1.1 %d X\r\nconnection: close\r\n" % status)
        writer.write(b"content-length: %d\r\n\r\n%b" % (len(said), said))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def failure_of(url: str, streams: bool, said: list[int], **sampling: Any) -> EngineFailure:
    """How a request fails. `said`: gets the tokens that came before."""
    async with routed([url]) as (route, notes):
        with pytest.raises(EngineFailure) as caught:
            if not streams:
                await route.whole(request(PROMPT, **sampling))
            else:
                async with closing(await route.stream(request(PROMPT, **sampling))) as generation:
                    async for event in generation:
                        said += [token for one in event.choices for token in one.token_ids or ()]
        assert notes.outcomes == {"lost" if said else "failed": 1}
    return caught.value


@pytest.mark.parametrize("what", [*MALFORMED, *NO_ANSWER])
def test_a_whole_answer_that_is_none(what: str, caplog: pytest.LogCaptureFixture) -> None:
    async def talk() -> EngineFailure:
        async with saying((MALFORMED | NO_ANSWER)[what]) as url:
            return await failure_of(url, False, [])

    failure = asyncio.run(talk())
    assert (failure.status, str(failure)) == (502, "The engine's answer is malformed.")
    assert [record.name for record in caplog.records] == ["renderd.gateway"]
    assert caplog.messages[0].startswith("engine http://127.0.0.1:")


@pytest.mark.parametrize("what", MALFORMED)
@pytest.mark.parametrize("begun", [False, True], ids=["first", "later"])
def test_an_event_that_is_none(what: str, begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    said: list[int] = []

    async def talk() -> EngineFailure:
        events = [body(choice())] * begun + [MALFORMED[what], body(choice(0, "stop")), DONE]
        async with saying(events) as url:
            return await failure_of(url, True, said)

    failure = asyncio.run(talk())
    assert (failure.status, failure.begun, said) == (502, begun, [5] * begun)
    assert caplog.messages[0].startswith("engine http://127.0.0.1:")


@pytest.mark.parametrize("events", [[], [body(choice())], [body(choice(0, "stop")), body(choice(1))]])
def test_a_stream_that_ends_before_its_choices(events: list[bytes]) -> None:
    said: list[int] = []

    async def talk() -> EngineFailure:
        async with saying([*events, DONE]) as url:
            return await failure_of(url, True, said, n=2)

    failure = asyncio.run(talk())
    assert (failure.status, failure.begun, len(said)) == (502, bool(events), len(events))
    assert str(failure) == "The engine broke off its answer."


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [302, 600, 700, 999])
def test_a_status_that_is_no_error_of_http(status: int, streams: bool) -> None:
    async def talk() -> EngineFailure:
        error = {"error": {"message": "m", "type": "t", "param": None, "code": status}}
        async with saying(json.dumps(error).encode(), status) as url:
            return await failure_of(url, streams, [])

    assert asyncio.run(talk()).status == 502


def test_what_is_allowed() -> None:
    """Several choices in any order, log probabilities of the prompt, usage without details."""

    async def talk() -> None:
        logprobs: list[Any] = [None, {"5": {"logprob": -1, "rank": 1, "decoded_token": "a"}}, {}]
        answer = body(choice(1, "stop"), choice(0, "length"), usage=usage(), prompt_logprobs=logprobs)
        async with saying(answer) as url, routed([url]) as (route, _):
            whole = await route.whole(request(PROMPT, n=2))
            assert whole.response.prompt_logprobs == logprobs
        events = [
            body(choice(1, "stop")),
            body(choice(0, "length")),
            body(usage=usage(cached_tokens=2)),
            DONE,
        ]
        async with saying(events) as url, routed([url]) as (route, _):
            generation = await route.stream(request(PROMPT, n=2))
            assert generation.pending
            assert await tokens(generation) == [5, 5]

    asyncio.run(talk())


def test_a_message_that_cannot_end_ends_with_an_error() -> None:
    last = GenerateChunkChoice(0, "stop", token_ids=[9707])
    counted = GenerateUsage(prompt_tokens_details={"cached_tokens": "x"})
    event = GenerateChunk(request_id="x", choices=[last], usage=counted)
    asked = {
        "model": "qwen3",
        "max_tokens": 5,
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
    }
    text = b"".join(streamed("qwen3-plain", "/v1/messages", asked, FakeRoute([[event]]))).decode()
    assert text.split("\n\n")[-2].startswith("event: error\n")
    assert "message_stop" not in text
