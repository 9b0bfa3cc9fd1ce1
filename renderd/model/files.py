"""A model's files: a directory, or what a Hugging Face repository holds of tokenizer, templates and
configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATTERNS = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model*",
    "qwen.tiktoken",
    "tiktoken.model",
    "spiece.model",
    "sentencepiece*.model",
    "tekken.json",
    "params.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenization*.py",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*.jinja",
]
"""Everything that is read of a repository. Weights are never among it."""


def fetch(name: str, revision: str | None, token: str | None, cache: str | None) -> Path:
    """The directory that holds the model's files: `name` itself, or the snapshot of the hub repository
    `name`.

    Raises ValueError if there is neither.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise ValueError(f"The model directory '{name}' does not exist.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(name, revision=revision, token=token, cache_dir=cache, allow_patterns=PATTERNS)
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"The model '{name}' is neither a directory nor a repository that could be fetched: {reason}"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one if there is no such file. Raises ValueError if it holds
    anything else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{path.name} of the model cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} of the model does not hold a JSON object.")
    return value


def read_text(path: Path) -> str:
    """The text of a file. Raises ValueError if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name} of the model cannot be read: {error}") from error
