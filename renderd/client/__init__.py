"""A client for applications that keep the route in their own hands: render, [prefill,] generate, derender.

    from renderd.client import Client

    chat = {"messages": [{"role": "user", "content": "Why is the sky blue?"}]}
    with Client(render="http://localhost:8000", engine="http://localhost:8001") as client:
        # Three calls. What render answers goes to the engine, and what that answers to derender.
        request = client.render_chat(chat)
        response = client.generate(request)
        completion = client.derender_chat(chat, request, response)
        print(completion["choices"][0]["message"]["content"])

        # The same as a stream: of every event of the engine, derender makes a chunk.
        for chunk in client.stream_chat(chat):
            for choice in chunk["choices"]:
                print(choice["delta"].get("content") or "", end="")

    # Four calls: one engine computes the prompt, another one loads its KV and decodes.
    with Client("http://localhost:8000", "http://localhost:8001", prefill="http://localhost:8002") as client:
        request = client.render_chat(chat)
        response = client.generate(request, client.prefill(request))
        completion = client.derender_chat(chat, request, response)

`AsyncClient` has the same methods with `await` and `async for`. Answers are the objects that the servers
write, as dictionaries. It needs httpx: `pip install 'renderd[client]'`.
"""

try:
    import httpx  # noqa: F401 - said here what is missing
except ImportError:
    raise ImportError("renderd.client needs httpx: pip install 'renderd[client]'") from None

from renderd.client.calls import (
    CHAT,
    COMPLETION,
    GenerateRequest,
    GenerateResponse,
    RenderdError,
    Stream,
    for_engine,
    for_prefill,
)
from renderd.client.clients import AsyncClient, Client

__all__ = [
    "CHAT",
    "COMPLETION",
    "AsyncClient",
    "Client",
    "GenerateRequest",
    "GenerateResponse",
    "RenderdError",
    "Stream",
    "for_engine",
    "for_prefill",
]
