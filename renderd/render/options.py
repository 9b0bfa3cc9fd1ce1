"""What the command line says of rendering (contract H)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class RenderOptions:
    """Flags of the server; whether a tool parser may be used is said by the family it gives to `Renderer`."""

    exclude_tools_when_tool_choice_none: bool = False
    tool_strict_level: Literal["auto", "function", "parameter"] | None = None
    trust_request_mm_kwargs: bool = False
    anthropic_disabled_thinking_effort: str = "auto"
    max_answer_bytes: int = 256 * 1024 * 1024
    """Of the requests that a completion request with several prompts becomes."""
