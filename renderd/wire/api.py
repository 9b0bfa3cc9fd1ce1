"""The small APIs around render and derender: models, versions, load, tokenizer (contract A.1, A.4, A.5)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

VLLM_VERSION = "0.33.0"
"""The release whose wire protocol is spoken."""


class ServedModel(Protocol):
    """What a model list says of a model."""

    @property
    def name(self) -> str: ...
    @property
    def served_names(self) -> Sequence[str]: ...
    @property
    def max_model_len(self) -> int: ...


class ModelPermission(msgspec.Struct):
    """OpenAI's permission object of a model. `created` is a Unix time in seconds."""

    id: str
    object: Literal["model_permission"]
    created: int
    allow_create_engine: bool = False
    allow_sampling: bool = True
    allow_logprobs: bool = True
    allow_search_indices: bool = False
    allow_view: bool = True
    allow_fine_tuning: bool = False
    organization: str = "*"
    group: str | None = None
    is_blocking: bool = False


class ModelCard(msgspec.Struct):
    """One served name. `max_model_len` counts tokens, prompt and answer together."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: str | None
    max_model_len: int
    permission: list[ModelPermission]


class ModelList(msgspec.Struct):
    """Answer of `GET /v1/models`: one card a served name, in the order of --served-model-name."""

    object: Literal["list"]
    data: list[ModelCard]


def _permission(now: int) -> ModelPermission:
    return ModelPermission(id=f"modelperm-{uuid.uuid4().hex[:16]}", object="model_permission", created=now)


def model_list(model: ServedModel) -> ModelList:
    """The list as of now (contract A.4)."""
    now = int(time.time())
    cards = [
        ModelCard(
            id=name,
            object="model",
            created=now,
            owned_by="vllm",
            root=model.name,
            parent=None,
            max_model_len=model.max_model_len,
            permission=[_permission(now)],
        )
        for name in model.served_names
    ]
    return ModelList(object="list", data=cards)


class VersionResponse(msgspec.Struct):
    """Answer of `GET /version`: the vLLM release whose wire protocol is spoken, and renderd's own release.

    `fingerprint`: of what replicas must have in common; `fingerprint_parts`: of its parts, by their names.
    """

    version: str
    renderd: str
    fingerprint: str
    fingerprint_parts: Mapping[str, str]


class Readiness(msgspec.Struct):
    """Answer of `GET /health/ready`: `ready` with 200, `not ready` with 503. `reason`: null, `loading`,
    `draining` or `no worker`."""

    status: str
    reason: str | None


class Liveness(msgspec.Struct):
    """Answer of `GET /health/live`: always `live`, with 200."""

    status: str


class LoadResponse(msgspec.Struct):
    """Answer of `GET /load`. No engine, no load: always 0, as on vLLM's render server."""

    server_load: int


class TokenizeCompletionRequest(msgspec.Struct):
    """`POST /tokenize` for a text."""

    prompt: str
    model: str | None = None
    add_special_tokens: bool = True
    return_token_strs: bool | None = False


class TokenizeChatRequest(msgspec.Struct):
    """`POST /tokenize` for a conversation; a body with `prompt` and `messages` is this one."""

    messages: list[Any]
    model: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    return_token_strs: bool | None = False
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    media_io_kwargs: dict[str, Any] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None


class TokenizeResponse(msgspec.Struct):
    """Answer of `POST /tokenize`. `token_strs` are raw vocabulary pieces, null unless asked for."""

    count: int
    max_model_len: int
    tokens: Sequence[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(msgspec.Struct):
    """`POST /detokenize`: token ids from 0 to 2**63 - 1."""

    tokens: list[int]
    model: str | None = None


class DetokenizeResponse(msgspec.Struct):
    """Answer of `POST /detokenize`."""

    prompt: str
