"""`renderd demo`: a chat with a tool through render, generate and derender, batch and streaming.

It starts `renderd serve` on the carried model and a scripted engine, both on free ports, and shows what is
sent and answered at each step. Exit status 0 says that the streamed answer is the batch answer.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec

from renderd.conformance.assemble import Assembly, outline
from renderd.demo import model_dir
from renderd.engine.client import EngineClient, EngineFailure

RENDER = "/v1/chat/completions/render"
DERENDER = "/v1/chat/completions/derender"
PARSERS = ("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice")
SERVE = ("serve", str(model_dir()), "--served-model-name", "demo", *PARSERS)
ENGINE = ("engine", str(model_dir()), "--served-model-name", "demo")
STARTUP_SECONDS = 60

OUTPUT = """<think>
A forecast is wanted, and there is a tool for it.
</think>

I will look it up.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Reykjavík", "days": 2}}
</tool_call>"""

# force_text is for the scripted engine; a real engine would ignore it.
CHAT: dict[str, Any] = {
    "model": "demo",
    "request_id": "demo",
    "messages": [{"role": "user", "content": "Will it rain in Reykjavík tomorrow?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather forecast of a city.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city"],
                },
            },
        }
    ],
    "vllm_xargs": {"force_text": OUTPUT},
}


class DemoError(Exception):
    """A step did not do what it should."""


def main(argv: Sequence[str]) -> int:
    """Run the demonstration. Returns the exit status."""
    argparse.ArgumentParser(prog="renderd demo", description=__doc__).parse_args(argv)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # shown as it happens, in a pipe too
    try:
        asyncio.run(demo())
    except (DemoError, EngineFailure, aiohttp.ClientError) as error:
        print(f"renderd demo: {error}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


async def demo() -> None:
    """Start both servers, talk to them, end them. Raises DemoError, EngineFailure, aiohttp.ClientError."""
    task = asyncio.current_task()
    assert task is not None
    # Cancelling, unlike an exception out of a signal handler, never strikes between a start and its end.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        serve = await stack.enter_async_context(server(*SERVE))
        print(f"renderd serve    {serve}   the carried model, parsers qwen3 and hermes")
        engine = await stack.enter_async_context(server(*ENGINE))
        print(f"renderd engine   {engine}   scripted: it answers what the request tells it to")
        await converse(serve, engine)


@asynccontextmanager
async def server(*arguments: str) -> AsyncIterator[str]:
    """A `renderd` server on a free port, ended with the block. Yields its URL. Raises DemoError."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "renderd", *arguments, "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryFile("w+") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        try:
            if not await _healthy(process, url):
                log.seek(0)
                raise DemoError(f"renderd {arguments[0]} did not start:\n{log.read()}")
            yield url
        finally:
            await _end(process)


async def _healthy(process: Process, url: str) -> bool:
    deadline = time.monotonic() + STARTUP_SECONDS
    async with aiohttp.ClientSession() as http:
        while process.returncode is None and time.monotonic() < deadline:
            try:
                async with http.get(f"{url}/health") as answer:
                    if answer.status == 200:
                        return True
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
    return False


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 5)
    except TimeoutError:
        process.kill()
        await process.wait()


async def converse(serve: str, engine: str) -> None:
    """The three calls, then the same as a stream. Raises DemoError when the two answers differ."""
    async with aiohttp.ClientSession(serve) as http, EngineClient(engine) as client:
        batch = await _batch(http, client)
        streamed = await _stream(http, client)
    if streamed.faults:
        raise DemoError(f"the stream is out of order: {streamed.faults}")
    if streamed.answer() != outline(batch):
        raise DemoError(f"the streamed answer is another one:\n{streamed.answer()}\n{outline(batch)}")
    print("\nThe streamed answer equals the batch answer.")


async def _batch(http: aiohttp.ClientSession, engine: EngineClient) -> dict[str, Any]:
    print("\nBATCH")
    rendered = await _render(http, CHAT)
    generated = await engine.generate(rendered)
    choice = msgspec.json.decode(generated)["choices"][0]
    print(f"2. generate  <- {_tokens(choice['token_ids'])}, finish_reason {choice['finish_reason']}")
    prompt_ids = msgspec.json.decode(rendered)["token_ids"]
    body = {
        "model": "demo",
        "generate_response": msgspec.Raw(generated),
        "prompt_tokens": len(prompt_ids),
        "prompt_token_ids": prompt_ids,
        "chat_request": CHAT,
    }
    answer: dict[str, Any] = msgspec.json.decode(await _post(http, DERENDER, body))
    message = answer["choices"][0]["message"]
    print(f"3. derender  <- reasoning   {_json(message['reasoning'])}")
    print(f"                content     {_json(message['content'])}")
    for call in message["tool_calls"] or []:
        print(f"                tool call   {call['function']['name']}({call['function']['arguments']})")
    print(f"                finish_reason {answer['choices'][0]['finish_reason']}")
    print(f"                usage       {_json(_without_nulls(answer['usage']))}")
    return answer


async def _stream(http: aiohttp.ClientSession, engine: EngineClient) -> Assembly:
    print("\nSTREAMING, three tokens an event; the state that the client carries from call to call in bytes")
    chat = CHAT | {"stream": True, "stream_options": {"include_usage": True}, "stream_interval": 3}
    rendered = await _render(http, chat)
    prompt_ids = msgspec.json.decode(rendered)["token_ids"]
    # What belongs to the request goes along with the first event alone: the state remembers it.
    once: dict[str, Any] = {"chat_request": chat, "prompt_token_ids": prompt_ids}
    state = msgspec.Raw(b"null")
    assembly = Assembly()
    async for event in await engine.stream(rendered):
        body = {
            "stream": True,
            "model": "demo",
            "generate_chunk": msgspec.Raw(event),
            "stream_state": state,
            "prompt_tokens": len(prompt_ids),
            **once,
        }
        once = {}
        answer = msgspec.json.decode(await _post(http, DERENDER, body), type=dict[str, msgspec.Raw])
        state = answer["stream_state"]
        chunk = msgspec.json.decode(answer["chunk"])
        assembly.add(chunk)
        _show(msgspec.json.decode(event), chunk, len(bytes(state)))
    return assembly


def _show(event: dict[str, Any], chunk: dict[str, Any], state_bytes: int) -> None:
    token_ids = [token for choice in event["choices"] for token in choice["token_ids"]]
    news: dict[str, Any] = {}
    for choice in chunk["choices"]:
        news |= choice["delta"] | {"finish_reason": choice["finish_reason"]}
    news["usage"] = chunk.get("usage")
    print(f"   {_json(token_ids):20} -> {_json(_without_nulls(news)):66}  state {state_bytes}")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


async def _render(http: aiohttp.ClientSession, chat: dict[str, Any]) -> bytes:
    rendered = await _post(http, RENDER, chat)
    request = msgspec.json.decode(rendered)
    shown = {key: request["sampling_params"].get(key) for key in ("temperature", "top_p", "max_tokens")}
    print(f"1. render    <- {_tokens(request['token_ids'])}, sampling_params {_json(shown)[:-1]},...}}")
    return rendered


async def _post(http: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> bytes:
    headers = {"Content-Type": "application/json"}
    async with http.post(path, data=msgspec.json.encode(body), headers=headers) as answer:
        if answer.status != 200:
            raise DemoError(f"{path} answered {answer.status}: {await answer.text()}")
        return await answer.read()


def _tokens(token_ids: list[int]) -> str:
    return f"{len(token_ids)} token ids [{', '.join(map(str, token_ids[:6]))}, ...]"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
