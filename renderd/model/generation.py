"""The server's sampling defaults and the model's end-of-sequence tokens (contract B.4.2, E.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from renderd.model.files import read_json

_SWITCH = "skip_special_tokens"
_KEYS = (
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "max_new_tokens",
    _SWITCH,
)


def generation_defaults(source: str, override: Mapping[str, Any], model_dir: Path) -> dict[str, Any]:
    """Sampling defaults by request field name (`max_new_tokens` is `max_tokens`).

    `source`: "auto" reads the model's generation_config.json, "vllm" reads none, anything else is a
    directory to read it from. Raises ValueError if that directory has none, and for a value that is no
    number: it would fail every request.
    """
    config: dict[str, Any] = {}
    if source == "auto":
        config = read_json(model_dir / "generation_config.json")
    elif source != "vllm":
        path = Path(source).expanduser() / "generation_config.json"
        if not path.is_file():
            raise ValueError(f"--generation-config names '{source}', which has no generation_config.json.")
        config = read_json(path)
    merged = {**config, **override}
    defaults = {key: merged[key] for key in _KEYS if merged.get(key) is not None}
    for key, value in defaults.items():
        if not _fits(key, value):
            where = (
                "--override-generation-config" if key in override else "generation_config.json of the model"
            )
            kind = "true or false" if key == _SWITCH else "a number"
            raise ValueError(f"{key} in {where} must be {kind}, not {value!r}.")
    if "max_new_tokens" in defaults:
        defaults["max_tokens"] = defaults.pop("max_new_tokens")
    return defaults


def _fits(key: str, value: Any) -> bool:
    if key == _SWITCH or isinstance(value, bool):
        return key == _SWITCH and isinstance(value, bool)
    return isinstance(value, int | float) and math.isfinite(value)


def output_cap(source: str, override: Mapping[str, Any], defaults: Mapping[str, Any]) -> int | None:
    """The number of output tokens that no request may exceed, None without limit: the default of a
    --generation-config directory, or an override of max_new_tokens."""
    if source not in ("auto", "vllm"):
        return defaults.get("max_tokens")
    return override.get("max_new_tokens")


def eos_token_ids(model_dir: Path, hf_config: Mapping[str, Any], tokenizer_eos: int | None) -> frozenset[int]:
    """Every token that ends an answer: generation_config.json's, else config.json's, and the tokenizer's
    own."""
    config = read_json(model_dir / "generation_config.json")
    listed = config.get("eos_token_id", hf_config.get("eos_token_id"))
    ids = listed if isinstance(listed, list) else [listed]
    found = {i for i in ids if isinstance(i, int)}
    return frozenset(found if tokenizer_eos is None else found | {tokenizer_eos})
