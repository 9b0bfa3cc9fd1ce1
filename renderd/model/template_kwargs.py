"""The variables that a chat request gives its template (contract B.5, C.4). Render and derender agree on
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from renderd.wire.chat import ChatCompletionRequest

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_COHERE_FORMAT = {"cohere_format": "cmd4"}  # vLLM has this server default for every model


def effective_kwargs(
    request: ChatCompletionRequest, defaults: Mapping[str, Any], effort_map: Mapping[str, str]
) -> dict[str, Any]:
    """Template kwargs of a request: server defaults, overlaid with the request's kwargs, overlaid with its
    fields.

    A null or "auto" never overrides. `effort_map`: what --reasoning-effort-map makes of the request's effort.
    """
    asked = request.chat_template_kwargs or {}
    mapped = mapped_effort(request, effort_map)
    fields: dict[str, Any] = {
        "add_generation_prompt": request.add_generation_prompt,
        "continue_final_message": request.continue_final_message,
        "documents": request.documents,
        "reasoning_effort": mapped,
    }
    if mapped is not None and "enable_thinking" not in asked:
        fields["enable_thinking"] = mapped != "none"
    kwargs = {**defaults, **_COHERE_FORMAT}
    for layer in (asked, fields):
        kwargs.update((key, value) for key, value in layer.items() if value is not None and value != "auto")
    return kwargs


def mapped_effort(request: ChatCompletionRequest, effort_map: Mapping[str, str]) -> str | None:
    """The request's reasoning effort, as --reasoning-effort-map rewrites it."""
    effort = request.reasoning_effort
    return None if effort is None else effort_map.get(effort, effort)


def check_effort_map(effort_map: Mapping[str, Any]) -> None:
    """Raises ValueError unless --reasoning-effort-map maps known efforts to strings."""
    if not all(isinstance(value, str) for value in effort_map.values()):
        raise ValueError(
            "Error: --reasoning-effort-map must be a JSON object mapping reasoning efforts to strings."
        )
    unknown = [effort for effort in effort_map if effort not in EFFORTS]
    if unknown:
        raise ValueError(
            f"Error: --reasoning-effort-map has unknown efforts {unknown}; keys must be one of "
            f"{list(EFFORTS)}."
        )
