"""The client of engines, against an engine on a port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from renderd import telemetry
from renderd.engine.client import EngineClient, EngineFailure, Timeouts


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
        return [json.loads(event) async for event in await client.stream(request(stream=True))]

    assert [event["choices"][0]["token_ids"] for event in run(slow_url, talk)] == [[5], [6], [7]]


@pytest.mark.parametrize("stream", [False, True])
def test_refusal(slow_url: str, stream: bool) -> None:
    async def talk(client: EngineClient) -> None:
        body = request(stream=stream, sampling={"n": 0})
        if stream:
            await client.stream(body)
        else:
            await client.generate(body)

    with pytest.raises(EngineFailure, match="n must be at least 1") as caught:
        run(slow_url, talk)
    assert caught.value.status == 400


@pytest.mark.parametrize("n", [1, 2])
def test_abort_ends_a_stream(slow_url: str, n: int) -> None:
    async def talk(client: EngineClient) -> list[Any]:
        body = request(stream=True, sampling={"n": n, "ignore_eos": True, "max_tokens": 5000})
        found = []
        async for event in await client.stream(body):
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

    with pytest.raises(EngineFailure, match="cannot be reached") as caught:
        run("http://127.0.0.1:9", talk)
    assert (caught.value.status, caught.value.retry_after, caught.value.begun) == (503, 1, False)


class Canned:
    """A server that answers every connection with the same bytes. `open`: and then keeps it."""

    def __init__(self, answer: bytes, open: bool = False) -> None:
        self.answer = answer
        self.open = open
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        await writer.drain()
        if self.open:
            await reader.read()
        writer.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
FIRST = b'data: {"choices":[]}\n\n'
ERROR = b'data: {"error":{"message":"Oh no","type":"InternalServerError","param":null,"code":500}}\n\n'


def read(answer: bytes, timeouts: Timeouts | None = None, open: bool = False) -> list[bytes]:
    async def talk() -> list[bytes]:
        server = await asyncio.start_server(Canned(answer, open).serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server, EngineClient(f"http://{host}:{port}", timeouts) as client:
            return [event async for event in await client.stream(request(stream=True))]

    return asyncio.run(talk())


def failure(answer: bytes, timeouts: Timeouts | None = None, open: bool = False) -> EngineFailure:
    with pytest.raises(EngineFailure) as caught:
        read(answer, timeouts, open)
    return caught.value


def test_line_separators_in_data_are_data() -> None:
    event = '{"text":"a\N{LINE SEPARATOR}b\x85c"}'.encode()
    assert read(HEAD + b"data: " + event + b"\n\ndata: [DONE]\n\n") == [event]


@pytest.mark.parametrize(
    ("answer", "status", "begun"),
    [
        (b"", 502, False),
        (b"no HTTP\r\n\r\n", 502, False),
        (HEAD, 502, False),
        (HEAD + FIRST, 502, True),
        (HEAD + FIRST[:-1], 502, False),
        (HEAD + ERROR, 500, False),
        (HEAD + FIRST + ERROR, 500, True),
        (HEAD + FIRST + ERROR + b"data: [DONE]\n\n", 500, True),
        (HEAD + b'data: {"error":"?"}\n\n', 502, False),
        (b"HTTP/1.1 204 No\r\n\r\n", 502, False),
        (b"HTTP/1.1 302 No\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n", 502, False),
        (b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno", 429, False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nda", 502, False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nda", 502, False),
    ],
)
def test_answers_that_are_none(answer: bytes, status: int, begun: bool) -> None:
    found = failure(answer)
    assert (found.status, found.begun) == (status, begun)
    assert found.retry_after == (7 if status == 429 else None)


def refused(status: int, body: bytes = b"", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d No\r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_a_deployment_that_is_wrong_is_no_fault_of_the_client(status: int) -> None:
    envelope = json.dumps({"error": {"message": "No", "type": "T", "param": None, "code": status}}).encode()
    answers = [refused(status), refused(status, b'{"error":"Unauthorized"}'), refused(status, envelope)]
    for answer in [*answers, HEAD + b"data: " + envelope + b"\n\n"]:
        found = failure(answer)
        assert (found.status, found.type) == (502, "BadGatewayError")
        assert found.message == "The engine is not set up for this server."
        assert found.__notes__[0].startswith(f"It answered {status}: ")


@pytest.mark.parametrize(
    ("status", "type"),
    [
        (400, "BadRequestError"),
        (429, "TooManyRequestsError"),
        (500, "InternalServerError"),
        (502, "BadGatewayError"),
        (503, "ServiceUnavailableError"),
        (504, "GatewayTimeoutError"),
        (599, "BadGatewayError"),
    ],
)
def test_a_refusal_without_a_body(status: int, type: str) -> None:
    found = failure(refused(status, head=b"Retry-After: 3\r\n"))
    assert (found.status, found.type, found.retry_after) == (status, type, 3)
    assert found.message == f"The engine answered {status}."


def test_the_key_and_the_trace_go_to_the_engine() -> None:
    async def talk() -> list[bytes]:
        canned = Canned(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        server = await asyncio.start_server(canned.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        telemetry.begin(telemetry.Record()).trace = {"traceparent": "00-1-2-01"}
        async with server, EngineClient(f"http://{host}:{port}", api_key="sesame") as client:
            await client.generate(request())
            await client.abort(["x"])
            assert await client.illness(5.0) is None
        return canned.heads

    generate, abort, health = asyncio.run(talk())
    for head in (generate, abort):
        assert b"Authorization: Bearer sesame\r\n" in head and b"traceparent: 00-1-2-01\r\n" in head
    assert b"sesame" not in health


def test_why_an_engine_is_not_healthy() -> None:
    async def illness(answer: bytes, open: bool = False) -> str | None:
        server = await asyncio.start_server(Canned(answer, open).serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server, EngineClient(f"http://{host}:{port}") as client:
            return await client.illness(0.2)

    async def nobody() -> str | None:
        async with EngineClient("http://127.0.0.1:9") as client:
            return await client.illness(1.0)

    assert asyncio.run(illness(refused(404))) == "GET /health was answered 404"
    assert asyncio.run(illness(b"", open=True)) == "GET /health was not answered in 0.2 seconds"
    assert "Cannot connect" in str(asyncio.run(nobody()))


def test_an_engine_that_sends_no_token() -> None:
    for answer in (b"", HEAD):
        found = failure(answer, Timeouts(first_token=0.1), open=True)
        assert (found.status, found.message, found.begun) == (504, "The engine sent no token in time.", False)


def test_an_engine_that_falls_silent() -> None:
    found = failure(HEAD + FIRST, Timeouts(first_token=5, idle=0.1), open=True)
    assert (found.status, found.message, found.begun) == (504, "The engine fell silent.", True)


def test_a_reader_that_takes_its_time_is_no_idle_engine(slow_url: str) -> None:
    async def talk(client: EngineClient) -> int:
        client.timeouts = Timeouts(idle=0.1)
        count = 0
        async for _ in await client.stream(request(stream=True)):
            count += 1
            await asyncio.sleep(0.3)
        return count

    assert run(slow_url, talk) == 3


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("declared", [True, False])
def test_an_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch, status: int, declared: bool) -> None:
    monkeypatch.setattr("renderd.engine.client.LARGEST_ANSWER", 1000)

    async def talk(size: int) -> bytes:
        length = b"Content-Length: %d\r\n" % size if declared else b""
        head = b"HTTP/1.1 %d X\r\n%bConnection: close\r\n\r\n" % (status, length)
        server = await asyncio.start_server(Canned(head + b"x" * size, False).serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server, EngineClient(f"http://{host}:{port}") as client:
            return await client.generate(request())

    with pytest.raises(EngineFailure) as caught:
        asyncio.run(talk(1001))
    assert (caught.value.status, str(caught.value)) == (502, "The engine broke off its answer.")
    assert caught.value.__notes__ == ["an answer has more than 1000 bytes"]
    if status == 200:
        assert len(asyncio.run(talk(1000))) == 1000
