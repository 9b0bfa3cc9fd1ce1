"""The clients: one that waits, one for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, closing, suppress
from types import TracebackType
from typing import Self, cast

import httpx
import msgspec

from renderd.client.calls import (
    CHAT,
    COMPLETION,
    Api,
    Body,
    Call,
    Events,
    GenerateRequest,
    GenerateResponse,
    RenderdError,
    Server,
    Stream,
    abort_call,
    derender_chat_call,
    derender_completion_call,
    derender_event_call,
    generate_call,
    prefill_call,
    render_call,
)

_UNABLE = (502, 503, 504)
"""Statuses of a replica that cannot answer now, where another one may."""


class _Common:
    """Which server a call goes to."""

    def __init__(self, render: str | Sequence[str], engine: str, prefill: str | None) -> None:
        self._urls: dict[Server, list[str]] = {
            "render": [render] if isinstance(render, str) else list(render),
            "engine": [engine],
            "prefill": [] if prefill is None else [prefill],
        }
        self._last = 0  # of render's replicas, the one that answered

    def _replicas(self, server: Server) -> list[str]:
        """In the order in which they are to be asked."""
        urls = self._urls[server]
        at = self._last if server == "render" else 0
        return urls[at:] + urls[:at]

    def _read(self, call: Call, url: str, response: httpx.Response) -> bytes:
        if call.server == "render":
            self._last = self._urls["render"].index(url)
        if response.status_code != 200:
            raise RenderdError(call.server, response.status_code, response.content)
        return response.content


def _arguments(call: Call, url: str) -> Body:
    """Of an httpx request."""
    return {
        "method": "POST",
        "url": url.rstrip("/") + call.path,
        "content": call.body,
        "headers": {"Content-Type": "application/json"},
    }


_TIMEOUT = httpx.Timeout(None, connect=5.0)


class Client(_Common):
    """The calls, one after another. Errors of servers are RenderdError, those of the network httpx's.

    `render`, `engine`, `prefill`: URLs; without one for prefill there is no fourth call. `render` may name
    several replicas of one server: where one is gone or cannot answer, another gets the same call, in the
    middle of a stream too. `http`: for settings of one's own, such as an API key; else an answer may take any
    time. May be used by several threads.
    """

    def __init__(
        self,
        render: str | Sequence[str],
        engine: str,
        prefill: str | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(render, engine, prefill)
        self._http = http or httpx.Client(timeout=_TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def render_chat(self, chat: Body) -> GenerateRequest:
        """A chat as token ids and sampling parameters."""
        return cast(GenerateRequest, self._ask(render_call(CHAT, chat)))

    def render_completion(self, completion: Body) -> list[GenerateRequest]:
        """The prompts of a completion as token ids and sampling parameters."""
        return cast("list[GenerateRequest]", self._ask(render_call(COMPLETION, completion)))

    def prefill(self, request: GenerateRequest) -> Body | None:
        """Have the prompt computed. What decode has to know to load its KV; None when it has to compute the
        prompt itself, for there is no engine for prefill, or it hands nothing over."""
        if not self._urls["prefill"]:
            return None
        return cast("Body | None", self._ask(prefill_call(request)).get("kv_transfer_params"))

    def generate(self, request: GenerateRequest, kv_transfer_params: Body | None = None) -> GenerateResponse:
        """The tokens of the answer, for a request that does not stream."""
        return cast(GenerateResponse, self._ask(generate_call(request, kv_transfer_params)))

    def events(
        self, request: GenerateRequest, kv_transfer_params: Body | None = None
    ) -> Generator[bytes, None, None]:
        """The events of a request that streams, without [DONE]. Ending it early aborts the request."""
        events = Events()
        call = generate_call(request, kv_transfer_params)
        with self._http.stream(**_arguments(call, self._urls["engine"][0])) as response:
            if response.status_code != 200:
                raise RenderdError("engine", response.status_code, response.read())
            try:
                for piece in response.iter_raw():
                    yield from events.feed(piece)
                events.end()
            finally:
                if not events.is_over:
                    with suppress(httpx.TransportError):  # an engine that is gone has nothing to abort
                        self.abort([f"generate-tokens-{request['request_id']}"])

    def abort(self, answer_ids: Sequence[str]) -> None:
        """End requests by the `request_id` of their answers."""
        self._post(abort_call(answer_ids))

    def derender_chat(self, chat: Body, request: GenerateRequest, response: GenerateResponse) -> Body:
        """The chat completion."""
        return self._ask(derender_chat_call(chat, request, response))

    def derender_completion(
        self, completion: Body, requests: Sequence[GenerateRequest], responses: Sequence[GenerateResponse]
    ) -> Body:
        """The completion, of the answers in the order of its prompts."""
        return self._ask(derender_completion_call(completion, requests, responses))

    def stream_chat(self, chat: Body) -> Generator[Body, None, None]:
        """All calls: the chunks of a chat completion."""
        chat = chat | {"stream": True}
        return self._stream(CHAT, chat, self.render_chat(chat))

    def stream_completion(self, completion: Body) -> Generator[Body, None, None]:
        """All calls: the chunks of a completion, which has one prompt."""
        completion = completion | {"stream": True}
        (request,) = self.render_completion(completion)
        return self._stream(COMPLETION, completion, request)

    def _stream(self, api: Api, body: Body, request: GenerateRequest) -> Generator[Body, None, None]:
        stream = Stream(api, body, request)
        with closing(self.events(request, self.prefill(request))) as events:
            for event in events:
                chunk = stream.read(self._post(derender_event_call(api, stream, event)))
                if chunk["choices"] or chunk.get("usage"):
                    yield chunk
                if stream.cut():  # what still comes is read, for usage is in it
                    self.abort([stream.answer_id])

    def _ask(self, call: Call) -> Body:
        return cast(Body, msgspec.json.decode(self._post(call)))

    def _post(self, call: Call) -> bytes:
        *others, last = self._replicas(call.server)
        for url in others:
            with suppress(httpx.TransportError):
                response = self._http.request(**_arguments(call, url))
                if response.status_code not in _UNABLE:
                    return self._read(call, url, response)
        return self._read(call, last, self._http.request(**_arguments(call, last)))


class AsyncClient(_Common):
    """`Client` for asyncio. Belongs to one event loop."""

    def __init__(
        self,
        render: str | Sequence[str],
        engine: str,
        prefill: str | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(render, engine, prefill)
        self._http = http or httpx.AsyncClient(timeout=_TIMEOUT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def render_chat(self, chat: Body) -> GenerateRequest:
        """See Client."""
        return cast(GenerateRequest, await self._ask(render_call(CHAT, chat)))

    async def render_completion(self, completion: Body) -> list[GenerateRequest]:
        """See Client."""
        return cast("list[GenerateRequest]", await self._ask(render_call(COMPLETION, completion)))

    async def prefill(self, request: GenerateRequest) -> Body | None:
        """See Client."""
        if not self._urls["prefill"]:
            return None
        return cast("Body | None", (await self._ask(prefill_call(request))).get("kv_transfer_params"))

    async def generate(
        self, request: GenerateRequest, kv_transfer_params: Body | None = None
    ) -> GenerateResponse:
        """See Client."""
        return cast(GenerateResponse, await self._ask(generate_call(request, kv_transfer_params)))

    async def events(
        self, request: GenerateRequest, kv_transfer_params: Body | None = None
    ) -> AsyncGenerator[bytes, None]:
        """See Client. Use `contextlib.aclosing` where it may be ended early."""
        events = Events()
        call = generate_call(request, kv_transfer_params)
        async with self._http.stream(**_arguments(call, self._urls["engine"][0])) as response:
            if response.status_code != 200:
                raise RenderdError("engine", response.status_code, await response.aread())
            try:
                async for piece in response.aiter_raw():
                    for event in events.feed(piece):
                        yield event
                events.end()
            finally:
                if not events.is_over:
                    with suppress(httpx.TransportError):
                        await self.abort([f"generate-tokens-{request['request_id']}"])

    async def abort(self, answer_ids: Sequence[str]) -> None:
        """See Client."""
        await self._post(abort_call(answer_ids))

    async def derender_chat(self, chat: Body, request: GenerateRequest, response: GenerateResponse) -> Body:
        """See Client."""
        return await self._ask(derender_chat_call(chat, request, response))

    async def derender_completion(
        self, completion: Body, requests: Sequence[GenerateRequest], responses: Sequence[GenerateResponse]
    ) -> Body:
        """See Client."""
        return await self._ask(derender_completion_call(completion, requests, responses))

    async def stream_chat(self, chat: Body) -> AsyncGenerator[Body, None]:
        """See Client. Use `contextlib.aclosing` where it may be ended early."""
        chat = chat | {"stream": True}
        async with aclosing(self._stream(CHAT, chat, await self.render_chat(chat))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def stream_completion(self, completion: Body) -> AsyncGenerator[Body, None]:
        """See Client. Use `contextlib.aclosing` where it may be ended early."""
        completion = completion | {"stream": True}
        (request,) = await self.render_completion(completion)
        async with aclosing(self._stream(COMPLETION, completion, request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _stream(self, api: Api, body: Body, request: GenerateRequest) -> AsyncGenerator[Body, None]:
        stream = Stream(api, body, request)
        async with aclosing(self.events(request, await self.prefill(request))) as events:
            async for event in events:
                chunk = stream.read(await self._post(derender_event_call(api, stream, event)))
                if chunk["choices"] or chunk.get("usage"):
                    yield chunk
                if stream.cut():
                    await self.abort([stream.answer_id])

    async def _ask(self, call: Call) -> Body:
        return cast(Body, msgspec.json.decode(await self._post(call)))

    async def _post(self, call: Call) -> bytes:
        *others, last = self._replicas(call.server)
        for url in others:
            with suppress(httpx.TransportError):
                response = await self._http.request(**_arguments(call, url))
                if response.status_code not in _UNABLE:
                    return self._read(call, url, response)
        return self._read(call, last, await self._http.request(**_arguments(call, last)))
