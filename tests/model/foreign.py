"""Folders of models without a tokenizer.json, made of the vocabularies that are at hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from golden import carried
from golden.carried import BOUNDS, write_json
from golden.models import HARMONY_VOCABULARY, model_path

__all__ = ["BOUNDS", "KINDS", "MISTRAL", "folder_of", "write_config", "write_json"]

_FOLDERS = TemporaryDirectory(prefix="renderd-")  # removed when the tests end


def write_config(folder: Path, **entries: Any) -> None:
    write_json(folder / "config.json", {"model_type": "llama", "max_position_embeddings": 4096, **entries})


def sentencepiece(folder: Path) -> None:
    """What LlamaTokenizer reads: transformers turns it into a fast tokenizer."""
    carried.write_sentencepiece(folder)
    write_config(folder, vocab_size=32000)


def slow(folder: Path) -> None:
    """A class that there is in Python only; without a chat template."""
    carried.write_slow(folder)
    configuration = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    del configuration["chat_template"]
    write_json(folder / "tokenizer_config.json", configuration)
    write_config(folder, vocab_size=32000)


def tiktoken(folder: Path) -> None:
    """Ranks in tiktoken's format."""
    shutil.copy(model_path("gptoss") / HARMONY_VOCABULARY, folder / "tokenizer.model")
    write_config(folder, vocab_size=201088)
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"},
    )


def merges(folder: Path) -> None:
    """A vocabulary and its merges, as GPT-2's descendants have."""
    qwen = model_path("qwen3")
    model = json.loads((qwen / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    write_json(folder / "vocab.json", model["vocab"])
    lines = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines, ""]), encoding="utf-8")
    shutil.copy(qwen / "tokenizer_config.json", folder)
    write_config(folder, model_type="qwen2", vocab_size=151936)


def _tekken(version: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        carried.write_tekken(folder, version)
        write_config(folder, model_type="mistral", vocab_size=131072)

    return write


def mistral_sentencepiece(folder: Path) -> None:
    """Mistral's SentencePiece model, third version."""
    carried.write_mistral_sentencepiece(folder)
    write_config(folder, model_type="mistral", vocab_size=32768)


MISTRAL: dict[str, Callable[[Path], None]] = {
    "tekken": _tekken("v3"),
    "tekken_11": _tekken("v11"),
    "tekken_13": _tekken("v13"),
    "mistral_sentencepiece": mistral_sentencepiece,
}
KINDS: dict[str, Callable[[Path], None]] = {
    "sentencepiece": sentencepiece,
    "slow": slow,
    "tiktoken": tiktoken,
    "merges": merges,
}


def folder_of(kind: str) -> Path:
    """A folder with a model of one of those kinds."""
    folder = Path(_FOLDERS.name, kind)
    if not folder.is_dir():
        folder.mkdir()
        (MISTRAL | KINDS)[kind](folder)
    return folder
