"""How many tokens fit into the model's context (contract C.5)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_UNSCALED = {
    "su",
    "longrope",
    "llama3",
    "yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
    "mrope",
    "default",
}
_FALLBACK = 2048
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}


def text_config(hf_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of config.json that describes the language model."""
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        if isinstance(hf_config.get(key), dict):
            return text_config(hf_config[key])
    return hf_config


def max_model_len(wanted: str | int | None, hf_config: Mapping[str, Any]) -> int:
    """The context window in tokens: what --max-model-len says, else what config.json implies.

    Raises ValueError for a value that is no size, or above the model's own.
    """
    derived = _derive(text_config(hf_config))
    if wanted is None or wanted in ("auto", -1, "-1"):
        return derived
    size = _parse(wanted)
    if size > derived and os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") not in ("1", "true", "True"):
        raise ValueError(
            f"--max-model-len {size} is greater than the model's own limit of {derived} tokens "
            "(set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 to allow it)."
        )
    return size


def _parse(wanted: str | int) -> int:
    """4096, "4096", "8k" (8000) or "8K" (8192)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgKMG]?)", str(wanted).strip())
    size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if size < 1:
        raise ValueError(
            f"--max-model-len must be a positive number of tokens such as 4096 or 8k, not '{wanted}'."
        )
    return size


def _derive(config: Mapping[str, Any]) -> int:
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(rope, dict):
        raise ValueError(f"The rope scaling in config.json of the model is no object: {rope!r}")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if not isinstance(kind, str):
        raise ValueError(f"The rope scaling in config.json of the model has a type that is no name: {kind!r}")
    if kind == "longrope" and config.get("original_max_position_embeddings"):
        return int(_number("original_max_position_embeddings", config["original_max_position_embeddings"]))
    found = [config[key] for key in _KEYS if isinstance(config.get(key), int) and config[key] > 0]
    if not found:
        return _FALLBACK
    size = min(found)
    if kind not in _UNSCALED and "gemma3" not in str(config.get("model_type", "")):
        size = int(size * _number("factor", rope.get("factor", 1.0)))
    return int(config["model_max_length"]) if isinstance(config.get("model_max_length"), int) else size


def _number(name: str, value: Any) -> float:
    """A finite number of config.json, which may be written as text. Raises ValueError for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"{name} in config.json of the model is no number that can be used: {value!r}")
    return number
