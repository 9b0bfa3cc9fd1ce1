"""What renderd answers to a request on a model, cut to what the recorded answers of tests/model/data keep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parsers import Family
from renderd.derender import Derenderer, DerenderOptions
from renderd.model import Model
from renderd.render import Renderer, RenderOptions
from renderd.wire.errors import ApiError

DATA = Path(__file__).parent / "data"


def recorded(name: str) -> Iterator[dict[str, Any]]:
    """Requests to vLLM 0.33.0, and its answers."""
    with (DATA / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def derenderer(model: Model, family: Family | None = None) -> Derenderer:
    return Derenderer(model, family, DerenderOptions())


def answer(model: Model, path: str, request: Any, family: Family | None = None) -> Any:
    """The part of the answer that recordings have; of a refusal its type, parameter and message."""
    try:
        return _answer(model, path, json.dumps(request).encode(), family)
    except ApiError as error:
        return {"error": [error.type, error.param, error.message]}


def _answer(model: Model, path: str, body: bytes, family: Family | None) -> Any:
    renderer = Renderer(model, family, RenderOptions())
    if path == "/v1/completions/derender":
        choice = json.loads(derenderer(model).completion(body))["choices"][0]
        return {"text": choice["text"], "tokens": choice["logprobs"]["tokens"]}
    if path == "/detokenize":
        return json.loads(renderer.detokenize(body))
    if path == "/tokenize":
        answered = json.loads(renderer.tokenize(body))
        return {"tokens": answered["tokens"], "token_strs": answered["token_strs"]}
    if path == "/v1/completions/render":
        got = json.loads(renderer.completion(body, None))
        return [{"token_ids": one["token_ids"], "token_offsets": one["token_offsets"]} for one in got]
    return {"token_ids": json.loads(renderer.chat(body, None))["token_ids"]}
