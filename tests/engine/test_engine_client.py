"""The client of engines, against an engine on a port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import httpx2
import pytest

from renderd.engine.client import EngineClient, EngineError


def request(**top: Any) -> bytes:
    sampling = {"extra_args": {"force_token_ids": [5, 6, 7]}, "max_tokens": 3, **top.pop("sampling", {})}
    return json.dumps({"request_id": "r", "token_ids": [1], "sampling_params": sampling, **top}).encode()


def run(url: str, talk: Any) -> Any:
    async def talk_to(url: str) -> Any:
        async with EngineClient(url) as client:
            return await talk(client)

    coroutine: Coroutine[Any, Any, Any] = talk_to(url)
    return asyncio.run(coroutine)


def test_generate(slow_url: str) -> None:
    async def talk(client: EngineClient) -> Any:
        return json.loads(await client.generate(request()))

    assert run(slow_url, talk)["choices"][0]["token_ids"] == [5, 6, 7]


def test_stream(slow_url: str) -> None:
    async def talk(client: EngineClient) -> Any:
        return [json.loads(event) async for event in client.stream(request(stream=True))]

    assert [event["choices"][0]["token_ids"] for event in run(slow_url, talk)] == [[5], [6], [7]]


@pytest.mark.parametrize("stream", [False, True])
def test_refusal(slow_url: str, stream: bool) -> None:
    async def talk(client: EngineClient) -> None:
        body = request(stream=stream, sampling={"n": 0})
        if stream:
            async for _ in client.stream(body):
                pass
        else:
            await client.generate(body)

    with pytest.raises(EngineError, match="n must be at least 1") as caught:
        run(slow_url, talk)
    assert caught.value.status == 400


@pytest.mark.parametrize("n", [1, 2])
def test_abort_ends_a_stream(slow_url: str, n: int) -> None:
    async def talk(client: EngineClient) -> list[Any]:
        body = request(stream=True, sampling={"n": n, "ignore_eos": True, "max_tokens": 5000})
        found = []
        async for event in client.stream(body):
            found.append(json.loads(event))
            if len(found) == 4:
                await client.abort(["generate-tokens-r"])
        return found

    found = run(slow_url, talk)
    assert len(found) < 50
    last = [event["choices"][0] for event in found[-n:]]
    assert {choice["finish_reason"] for choice in last} == {"abort"}
    assert [choice["token_ids"] for choice in last] == [[]] * n
    for choice in last:
        tokens = [e["choices"][0] for e in found if e["choices"][0]["index"] == choice["index"]]
        assert choice["weight_versions"][0]["end"] == sum(len(event["token_ids"]) for event in tokens)


def test_abort_ends_a_batch(slow_url: str) -> None:
    async def talk(client: EngineClient) -> Any:
        body = request(sampling={"ignore_eos": True, "max_tokens": 5000})
        answer = asyncio.create_task(client.generate(body))
        await asyncio.sleep(0.1)
        await client.abort(["r"])  # not the id of the answer: ends nothing
        await asyncio.sleep(0.05)
        assert not answer.done()
        await client.abort(["generate-tokens-r"])
        return json.loads(await answer)

    (choice,) = run(slow_url, talk)["choices"]
    assert choice["finish_reason"] == "abort"
    assert 0 < len(choice["token_ids"]) < 500


def test_no_engine() -> None:
    async def talk(client: EngineClient) -> Any:
        return await client.generate(request())

    with pytest.raises(httpx2.TransportError):
        run("http://127.0.0.1:9", talk)


class Canned:
    """A server that answers every connection with the same bytes."""

    def __init__(self, events: bytes) -> None:
        self.answer = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + events
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        await writer.drain()
        writer.close()


def read(events: bytes) -> list[bytes]:
    async def talk() -> list[bytes]:
        server = await asyncio.start_server(Canned(events).serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server, EngineClient(f"http://{host}:{port}") as client:
            return [event async for event in client.stream(request(stream=True))]

    return asyncio.run(talk())


def test_line_separators_in_data_are_data() -> None:
    event = '{"text":"a\N{LINE SEPARATOR}b\x85c"}'.encode()
    assert read(b"data: " + event + b"\n\ndata: [DONE]\n\n") == [event]


def test_a_stream_that_breaks_off() -> None:
    with pytest.raises(EngineError, match=r"ended without \[DONE\]"):
        read(b'data: {"choices":[]}\n\n')


def test_an_error_event() -> None:
    envelope = (
        b'{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}'
    )
    with pytest.raises(EngineError, match="Internal server error") as caught:
        read(b"data: " + envelope + b"\n\ndata: [DONE]\n\n")
    assert caught.value.status is None
