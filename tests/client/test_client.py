"""The client of the three and four calls, against renderd and scripted engines."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

import renderd.client
from renderd.client import AsyncClient, Client, RenderdError
from renderd.conformance.assemble import Assembly, outline
from tests.gateway.scripted import Scripted, scripted
from tests.server.running import running

PARSERS = ("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice")
TEXT = """<think>
Hm.</think>

The sky is blue. Really.
<tool_call>
{"name": "f", "arguments": {"x": 1}}
</tool_call>"""
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def render() -> Iterator[str]:
    with running(*PARSERS) as server:
        yield server.url


@pytest.fixture
def engines() -> Iterator[list[Scripted]]:
    with scripted(2, has_kv=True) as both:
        yield both


def chat(**more: Any) -> dict[str, Any]:
    extra = {"force_text": TEXT} | more.pop("xargs", {})
    messages = [{"role": "user", "content": "Why?"}]
    return {"messages": messages, "tools": TOOLS, "vllm_xargs": extra, "max_tokens": 200, **more}


def batch(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    request = client.render_chat(body)
    return client.derender_chat(body, request, client.generate(request, client.prefill(request)))


def assembled(chunks: list[dict[str, Any]]) -> Any:
    assembly = Assembly()
    for chunk in chunks:
        assembly.add(chunk)
    assert not assembly.faults
    return assembly.answer()


def test_the_example(engines: list[Scripted], capsys: pytest.CaptureFixture[str]) -> None:
    code = re.search(r"\n\n((?:    .*\n|\n)+)", inspect.getdoc(renderd.client) + "\n")
    assert code is not None
    decode, prefill = engines
    text = textwrap.dedent(code[1])
    found: dict[str, Any] = {}
    with running() as server:
        for port, url in ((8000, server.url), (8001, decode.url), (8002, prefill.url)):
            text = text.replace(f"http://localhost:{port}", url)
        exec(text, found)
    assert capsys.readouterr().out.count("This is a scripted engine") == 2
    assert "scripted engine" in found["completion"]["choices"][0]["message"]["content"]
    assert decode.engine.counts["loaded"] == 1


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("stop", [None, "Really"])
@pytest.mark.parametrize("calls", [3, 4])
def test_a_stream_is_the_whole_answer(
    render: str, engines: list[Scripted], n: int, stop: str | None, calls: int
) -> None:
    decode, prefill = engines
    body = chat(n=n, stop=stop, request_id="r", stream_options={"include_usage": True})
    with Client(render, decode.url, prefill.url if calls == 4 else None) as client:
        streamed = assembled(list(client.stream_chat(body)))
        whole = batch(client, {key: value for key, value in body.items() if key != "stream_options"})
    assert streamed["choices"] == outline(whole)["choices"]
    assert {one["stop_reason"] for one in whole["choices"]} == {stop}
    assert decode.engine.counts["loaded"] == (2 if calls == 4 else 0)
    assert decode.engine.counts["aborts"] == (stop is not None)
    assert decode.engine.running == 0


def test_completions(render: str, engines: list[Scripted]) -> None:
    body = {"prompt": "a", "vllm_xargs": {"force_text": "The sky"}, "max_tokens": 20}
    with Client(render, engines[0].url) as client:
        text = "".join(
            choice["text"] for chunk in client.stream_completion(body) for choice in chunk["choices"]
        )
        several = {**body, "prompt": ["a", "b"]}
        requests = client.render_completion(several)
        completion = client.derender_completion(several, requests, [client.generate(one) for one in requests])
    assert [text] * 2 == [choice["text"] for choice in completion["choices"]] == ["The sky"] * 2


def test_async(render: str, engines: list[Scripted]) -> None:
    async def talk() -> None:
        body = chat(stop="Really")
        async with AsyncClient(render, engines[0].url, engines[1].url) as client:
            streamed = assembled([chunk async for chunk in client.stream_chat(body)])
            request = await client.render_chat(body)
            response = await client.generate(request, await client.prefill(request))
            whole = await client.derender_chat(body, request, response)
            assert streamed["choices"] == outline(whole)["choices"]
            completion = {"prompt": "a", "vllm_xargs": {"force_text": "The sky"}, "max_tokens": 20}
            chunks = [chunk async for chunk in client.stream_completion(completion)]
            requests = await client.render_completion(completion)
            answer = await client.derender_completion(
                completion, requests, [await client.generate(one) for one in requests]
            )
            text = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
            assert text == answer["choices"][0]["text"] == "The sky"

    asyncio.run(talk())


def test_another_replica_goes_on(render: str, engines: list[Scripted]) -> None:
    """With the same state, in the middle of a stream: nothing is lost and nothing said twice."""
    body = chat(stop="Really", request_id="r")
    with Client(render, engines[0].url) as client:
        expected = assembled(list(client.stream_chat(body)))
    with running(*PARSERS) as first, Client([first.url, render], engines[0].url) as client:
        chunks = client.stream_chat(body)
        got = [next(chunks) for _ in range(6)]
        first.stop()
        assert assembled(got + list(chunks))["choices"] == expected["choices"]
        assert batch(client, body)["choices"]

    async def talk() -> None:
        gone = "http://127.0.0.1:9"
        async with AsyncClient([gone, render], engines[0].url) as client:
            streamed = assembled([chunk async for chunk in client.stream_chat(body)])
            assert streamed["choices"] == expected["choices"]
        async with AsyncClient([gone, gone], engines[0].url) as client:
            with pytest.raises(httpx.ConnectError):
                await client.render_chat(body)

    asyncio.run(talk())


def test_a_replica_that_cannot_answer(render: str, engines: list[Scripted]) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        status = {"busy": 503, "wrong": 400}[request.url.host]
        return httpx.Response(status, json={"error": {"message": request.url.host}})

    asked: list[str] = []
    http = httpx.Client(transport=httpx.MockTransport(refuse))
    with Client(["http://busy", "http://wrong"], engines[0].url, http=http) as client:
        for _ in range(2):
            with pytest.raises(RenderdError, match="render: 400: wrong"):
                client.render_chat(chat())
    assert asked == ["busy", "wrong", "wrong"]


def test_the_page(render: str, engines: list[Scripted]) -> None:
    """docs/client.md: its example runs."""
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
    found: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        for port, url in ((8000, render), (8001, engines[0].url), (8002, engines[1].url)):
            code = code.replace(f"http://localhost:{port}", url).replace("http://renderd-2:8000", render)
        exec(code, found)
    assert "scripted engine" in found["completion"]["choices"][0]["message"]["reasoning"]
    assert found["prefix"]["shared_tokens"] == len(found["request"]["token_ids"])


ENDLESS = {"force_delay": 0.01, "force_token_ids": [65] * 1000}


def test_ending_a_stream_early_aborts(render: str, engines: list[Scripted]) -> None:
    body = chat(xargs=ENDLESS)
    with Client(render, engines[0].url) as client:
        chunks = client.stream_chat(body)
        next(chunks)
        chunks.close()
        assert engines[0].engine.counts["aborts"] == 1

    async def talk() -> None:
        async with (
            AsyncClient(render, engines[0].url) as client,
            aclosing(client.stream_chat(body)) as chunks,
        ):
            await anext(chunks)

    asyncio.run(talk())
    assert engines[0].engine.counts["aborts"] == 2


def test_errors(render: str, engines: list[Scripted]) -> None:
    with Client(render, engines[0].url) as client:
        with pytest.raises(RenderdError, match="render: 400") as caught:
            client.render_chat({"messages": 5})
        assert (caught.value.server, caught.value.type) == ("render", "BadRequestError")
        engines[0].fail("refuse")
        for ask in (lambda: batch(client, chat()), lambda: list(client.stream_chat(chat()))):
            with pytest.raises(RenderdError, match="told to refuse") as caught:
                ask()
            assert (caught.value.server, caught.value.status) == ("engine", 503)
        engines[0].fail("error", after=2)
        with pytest.raises(RenderdError, match="Internal server error") as caught:
            list(client.stream_chat(chat()))
        assert caught.value.status == 500
        engines[0].fail("drop", after=2)
        with pytest.raises(httpx.RemoteProtocolError):
            list(client.stream_chat(chat()))


def test_without_httpx() -> None:
    program = "import sys; sys.modules['httpx'] = None; import renderd.client"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stderr.splitlines()[-1] == (
        "ImportError: renderd.client needs httpx: pip install 'renderd[client]'"
    )
