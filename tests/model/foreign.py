"""Folders of models without a tokenizer.json, made of the vocabularies that are at hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from golden.models import HARMONY_VOCABULARY, model_path

TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
BOUNDS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def write_config(folder: Path, **entries: Any) -> None:
    write_json(folder / "config.json", {"model_type": "llama", "max_position_embeddings": 4096, **entries})


def mistral_file(name: str) -> Path:
    """A tokenizer file that mistral-common carries."""
    return Path(str(files("mistral_common").joinpath("data", name)))


def sentencepiece(folder: Path) -> None:
    """What LlamaTokenizer reads: transformers turns it into a fast tokenizer."""
    shutil.copy(mistral_file("tokenizer.model.v1"), folder / "tokenizer.model")
    write_config(folder, vocab_size=32000)
    configuration = {**BOUNDS, "add_bos_token": True, "add_eos_token": False, "legacy": False}
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "LlamaTokenizer", "chat_template": TEMPLATE, **configuration},
    )


def slow(folder: Path) -> None:
    """A class that there is in Python only."""
    shutil.copy(mistral_file("tokenizer.model.v1"), folder / "spiece.model")
    write_config(folder, vocab_size=32000)
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "GPTSw3Tokenizer", **BOUNDS, "pad_token": "<unk>"},
    )


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


def tekken(folder: Path) -> None:
    """Mistral's tekken, third version."""
    shutil.copy(mistral_file("tekken_240911.json"), folder / "tekken.json")
    write_config(folder, model_type="mistral", vocab_size=131072)


def tekken_13(folder: Path) -> None:
    """The same vocabulary with the control tokens of the thirteenth version."""
    content = json.loads(mistral_file("tekken_240911.json").read_text(encoding="utf-8"))
    config = content["config"] | {"version": "v13"}
    names = [f"<SPECIAL_{n}>" for n in range(config["default_num_special_tokens"])]
    known = (
        "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
    )
    known += " [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT]"
    names[:20] = f"{known} [/SYSTEM_PROMPT] [TOOL_CONTENT]".split()
    names[32:36] = ["[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"]
    special = [{"rank": n, "token_str": name, "is_control": True} for n, name in enumerate(names)]
    vocabulary = content["vocab"][: config["default_vocab_size"]]
    write_json(folder / "tekken.json", {"config": config, "vocab": vocabulary, "special_tokens": special})
    write_config(folder, model_type="mistral", vocab_size=131072)


def mistral_sentencepiece(folder: Path) -> None:
    """Mistral's SentencePiece model, third version."""
    shutil.copy(mistral_file("mistral_instruct_tokenizer_240323.model.v3"), folder / "tokenizer.model.v3")
    write_config(folder, model_type="mistral", vocab_size=32768)


MISTRAL: dict[str, Callable[[Path], None]] = {
    "tekken": tekken,
    "tekken_13": tekken_13,
    "mistral_sentencepiece": mistral_sentencepiece,
}
KINDS: dict[str, Callable[[Path], None]] = {
    "sentencepiece": sentencepiece,
    "slow": slow,
    "tiktoken": tiktoken,
    "merges": merges,
}
