"""The ASGI endpoint: what it lets in, what it does when a client reads slowly or goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from renderd.server.admission import Admission
from renderd.server.config import ServerConfig
from renderd.server.endpoint import BROKEN_OFF
from renderd.server.gateway_endpoint import GatewayEndpoint
from renderd.server.long_work import LongWork
from renderd.wire.generate import GenerateChoice, GenerateChunk, GenerateChunkChoice, GenerateResponse
from tests.gateway.support import FakeRoute, gateway

CHAT = "/v1/chat/completions"
MODEL = gateway("qwen3-plain").desk.setup.model.served_names[0]
BODY = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
EVENTS = [
    GenerateChunk(request_id="x", choices=[GenerateChunkChoice(0, token_ids=[9707])]) for _ in range(50)
]


class Client:
    """An ASGI client. `full`: it reads no more after so many messages. `gone`: it has left."""

    def __init__(self, body: bytes, full: int | None = None) -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()
        self.reading = asyncio.Event()
        self._body: bytes | None = body
        self._full = full

    async def receive(self) -> Any:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if self._full is not None and len(self.sent) >= self._full:
            await self.reading.wait()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class Stalled(FakeRoute):
    """An engine that never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = False

    async def whole(self, request: Any, session: str | None = None) -> Any:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def endpoint(route: FakeRoute, path: str = CHAT) -> tuple[GatewayEndpoint, Admission]:
    made, config = gateway("qwen3-plain"), ServerConfig()
    admission = Admission(config)
    work = LongWork(config, made.handlers())
    return GatewayEndpoint(path, made, route, lambda body: True, work, admission, 10**6), admission


def scope(**headers: str) -> Any:
    given = {"content-type": "application/json"} | headers
    return {"path": CHAT, "headers": [(key.encode(), value.encode()) for key, value in given.items()]}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_client_that_reads_slowly_is_waited_for() -> None:
    async def run() -> None:
        route = FakeRoute([EVENTS])
        api, admission = endpoint(route)
        client = Client(json.dumps(BODY).encode(), full=5)
        task = asyncio.create_task(api(scope(), client.receive, client.send))
        await until(lambda: len(client.sent) == 5)
        await asyncio.sleep(0.02)
        assert route.generations[0].taken < 10
        assert (admission.in_flight, admission.held_bytes) == (1, 0)
        client.reading.set()
        await task
        assert route.generations[0].taken == len(EVENTS)
        assert client.body.endswith(b"data: [DONE]\n\n")
        assert client.sent[-1] == {"type": "http.response.body", "body": b""}
        assert admission.in_flight == 0

    asyncio.run(run())


def test_a_client_that_goes_away_while_it_is_written_to() -> None:
    async def run() -> None:
        route = FakeRoute([EVENTS])
        api, admission = endpoint(route)
        client = Client(json.dumps(BODY).encode(), full=5)
        task = asyncio.create_task(api(scope(), client.receive, client.send))
        await until(lambda: len(client.sent) == 5)
        client.gone.set()
        await task
        assert not task.cancelled()
        assert route.generations[0].closed_after is not None
        assert route.generations[0].closed_after < 10
        assert admission.in_flight == 0

    asyncio.run(run())


def test_a_client_that_goes_away_before_the_answer() -> None:
    async def run() -> None:
        route = Stalled()
        api, admission = endpoint(route)
        client = Client(json.dumps(BODY | {"stream": False}).encode())
        task = asyncio.create_task(api(scope(), client.receive, client.send))
        await asyncio.sleep(0.02)
        assert admission.in_flight == 1
        client.gone.set()
        await task
        assert route.cancelled
        assert client.sent == []
        assert admission.in_flight == 0

    asyncio.run(run())


def test_a_server_that_ends_ends_its_requests() -> None:
    """Cancelling from outside is no client that went away."""

    async def run() -> None:
        route = Stalled()
        api, admission = endpoint(route)
        client = Client(json.dumps(BODY | {"stream": False}).encode())
        task = asyncio.create_task(api(scope(), client.receive, client.send))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert route.cancelled
        assert admission.in_flight == 0

    asyncio.run(run())


def test_a_stream_that_is_cut_ends_with_an_error() -> None:
    async def run(path: str, body: dict[str, Any]) -> bytes:
        route = FakeRoute([EVENTS])
        api, admission = endpoint(route, path)
        client = Client(json.dumps(body).encode(), full=5)
        task = asyncio.create_task(api(scope(), client.receive, client.send))
        await until(lambda: len(client.sent) == 5)
        assert admission.cut() == 1
        client.reading.set()
        await task
        assert route.generations[0].closed_after is not None
        assert client.sent[-1][BROKEN_OFF] == 503
        assert not client.sent[-1].get("more_body")
        assert admission.in_flight == 0
        assert admission.cut() == 0
        return client.body

    said = asyncio.run(run(CHAT, BODY))
    assert said.endswith(b"data: [DONE]\n\n")
    assert json.loads(said.split(b"data: ")[-2])["error"]["code"] == 503
    said = asyncio.run(run("/v1/messages", BODY | {"max_tokens": 100, "model": MODEL}))
    assert json.loads(said.split(b"data: ")[-1])["error"]["type"] == "overloaded_error"
    assert b"message_stop" not in said


def test_an_answer_that_is_cut_before_it_begins_is_a_503() -> None:
    async def run() -> None:
        route = Stalled()
        api, admission = endpoint(route)
        client = Client(json.dumps(BODY | {"stream": False}).encode())
        task = asyncio.create_task(api(scope(), client.receive, client.send))
        await asyncio.sleep(0.02)
        assert admission.cut() == 1
        await task
        assert route.cancelled
        assert client.sent[0]["status"] == 503
        assert (b"retry-after", b"1") in client.sent[0]["headers"]
        late = Client(json.dumps(BODY).encode())
        await api(scope(), late.receive, late.send)
        assert late.sent[0]["status"] == 503
        assert admission.in_flight == 0

    asyncio.run(run())


def test_a_session_may_be_a_header() -> None:
    async def asked(body: dict[str, Any], **headers: str) -> str | None:
        seen: list[str | None] = []

        class Seeing(FakeRoute):
            async def whole(self, request: Any, session: str | None = None) -> Any:
                seen.append(session)
                return await super().whole(request, session)

        response = GenerateResponse(request_id="x", choices=[])
        api, _ = endpoint(Seeing(wholes=[response]))
        client = Client(json.dumps(BODY | {"stream": False} | body).encode())
        await api(scope(**headers), client.receive, client.send)
        assert client.sent[0]["status"] == 200
        return seen[0]

    assert asyncio.run(asked({})) is None
    assert asyncio.run(asked({}, **{"x-session-id": "a"})) == "a"
    assert asyncio.run(asked({"conversation_id": "b"}, **{"x-session-id": "a"})) == "b"


@pytest.mark.parametrize("length", [5, 500])
def test_numbers_of_any_size_are_handed_on(length: int) -> None:
    """Those of a long answer go through another process."""
    most = {"most": 10**40, "least": -(10**40)}
    choice = GenerateChoice(0, token_ids=[9707] * length, routed_experts=[[10**30]])
    response = GenerateResponse(request_id="x", choices=[choice], metrics=most)

    async def run() -> Any:
        api, _ = endpoint(FakeRoute(wholes=[response]))
        client = Client(json.dumps(BODY | {"stream": False}).encode())
        await api(scope(), client.receive, client.send)
        assert client.sent[0]["status"] == 200
        return json.loads(client.body)

    answer = asyncio.run(run())
    assert answer["metrics"] == most
    assert answer["choices"][0]["routed_experts"] == [[10**30]]
