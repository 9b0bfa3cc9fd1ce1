"""Renderers as the recorded servers were configured, and a client of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from golden.models import model_path
from parsers import build
from renderd.model import Model, ModelConfig, load_model
from renderd.render import Renderer, RenderOptions
from renderd.wire.errors import ApiError

Json = dict[str, Any]

HELLO: Json = {"messages": [{"role": "user", "content": "Hello"}]}
GET: Json = {
    "type": "function",
    "function": {"name": "get", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
}
KWARGS: Json = {"enable_thinking": False, "zz": None, "yy": "auto", "xx": 1}


@cache
def model(name: str = "qwen3") -> Model:
    """A real tokenizer; requests may bring templates."""
    return load_model(
        ModelConfig(
            str(model_path(name)),
            max_model_len=4096,
            trust_request_chat_template=True,
            served_model_name=["a", "b"],
        )
    )


@cache
def renderer(server: str = "trusting") -> Renderer:
    """`plain`: no flag but the length. `parsers`: Qwen3's, and everything else a server can be told.
    `trusting`: takes templates from requests."""
    if server == "trusting":
        return Renderer(model(), None, RenderOptions())
    path = str(model_path("qwen3"))
    if server == "plain":
        return Renderer(load_model(ModelConfig(path, max_model_len=4096)), None, RenderOptions())
    config = ModelConfig(
        path,
        max_model_len=4096,
        trust_request_chat_template=True,
        served_model_name=["a", "b"],
        default_chat_template_kwargs=KWARGS,
        reasoning_effort_map={"medium": "low", "high": "none"},
    )
    return Renderer(load_model(config), build("qwen3", "hermes"), RenderOptions())


def post(path: str, request: Any, server: str = "trusting", header: str | None = None) -> Any:
    """The answer's JSON. Raises ApiError for a refusal."""
    api = renderer(server)
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    if path == "/v1/chat/completions/render":
        return json.loads(api.chat(body, header))
    if path == "/v1/completions/render":
        return json.loads(api.completion(body, header))
    return json.loads(api.tokenize(body) if path == "/tokenize" else api.detokenize(body))


def chat(request: Json, server: str = "trusting") -> Json:
    """A GenerateRequest."""
    return dict(post("/v1/chat/completions/render", request, server))


def chat_text(request: Json, server: str = "trusting") -> str:
    """The prompt that the ids spell."""
    return model().tokenizer.decode(chat(request, server)["token_ids"])


def refusal(path: str, request: Any, server: str = "trusting") -> ApiError:
    """The error that the request gets."""
    try:
        answer = post(path, request, server)
    except ApiError as error:
        return error
    raise AssertionError(f"expected a refusal, got {answer}")


def recorded(name: str) -> Iterator[Json]:
    """Lines of a file in data/."""
    with (Path(__file__).parent / "data" / name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
