"""What the command line says of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class ModelConfig:
    """Where a model's files are and how they are to be read; field names are vLLM's flags (contract H)."""

    model: str
    tokenizer: str | None = None
    revision: str | None = None
    tokenizer_revision: str | None = None
    tokenizer_mode: str = "auto"
    trust_remote_code: bool = False
    hf_token: str | None = None
    download_dir: str | None = None
    max_model_len: str | int | None = None
    chat_template: str | None = None
    chat_template_content_format: Literal["auto", "string", "openai"] = "auto"
    trust_request_chat_template: bool = False
    hf_overrides: Mapping[str, Any] = field(default_factory=dict)
    generation_config: str = "auto"
    override_generation_config: Mapping[str, Any] = field(default_factory=dict)
    served_model_name: Sequence[str] = ()
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort_map: Mapping[str, str] = field(default_factory=dict)
    max_text_chars: int | None = None
    max_template_seconds: float = 2.0
