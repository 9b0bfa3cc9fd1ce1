"""The small model that the package carries, and a demonstration of the three calls on it."""

from __future__ import annotations

from pathlib import Path


def model_dir() -> Path:
    """Directory of the carried model: tokenizer, template, configuration; there are no weights."""
    return Path(__file__).parent / "model"
