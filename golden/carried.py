"""Model folders without a tokenizer.json, built of the tokenizer files that mistral-common carries.

Nothing is fetched, and the same files come out every time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
BOUNDS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_FIRST = """<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]
    [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT]
    [TOOL_CONTENT]"""
_CONTROL = {
    **dict(enumerate(_FIRST.split())),
    **{32: "[ARGS]", 33: "[CALL_ID]", 34: "[THINK]", 35: "[/THINK]"},
}
"""Control tokens of tekken's eleventh and thirteenth version, by their ids."""


def mistral_file(name: str) -> Path:
    """A tokenizer file that mistral-common carries."""
    return Path(str(files("mistral_common").joinpath("data", name)))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes a JSON file."""
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def write_tekken(folder: Path, version: str) -> None:
    """A tekken.json. `version`: v3, the one that is carried, or v11 or v13: the same vocabulary under other
    control tokens."""
    carried = mistral_file("tekken_240911.json")
    if version == "v3":
        shutil.copy(carried, folder / "tekken.json")
        return
    content = json.loads(carried.read_text(encoding="utf-8"))
    config = content["config"] | {"version": version}
    names = [_CONTROL.get(n, f"<SPECIAL_{n}>") for n in range(config["default_num_special_tokens"])]
    special = [{"rank": n, "token_str": name, "is_control": True} for n, name in enumerate(names)]
    vocabulary = content["vocab"][: config["default_vocab_size"]]
    write_json(folder / "tekken.json", {"config": config, "vocab": vocabulary, "special_tokens": special})


def write_mistral_sentencepiece(folder: Path) -> None:
    """Mistral's SentencePiece model of the third version."""
    shutil.copy(mistral_file("mistral_instruct_tokenizer_240323.model.v3"), folder / "tokenizer.model.v3")


def write_sentencepiece(folder: Path) -> None:
    """A SentencePiece model for LlamaTokenizer, which becomes a fast tokenizer at load."""
    shutil.copy(mistral_file("tokenizer.model.v1"), folder / "tokenizer.model")
    configuration = {**BOUNDS, "add_bos_token": True, "add_eos_token": False, "legacy": False}
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "LlamaTokenizer", "chat_template": TEMPLATE, **configuration},
    )


def write_slow(folder: Path) -> None:
    """A SentencePiece model for a tokenizer class that there is in Python only."""
    shutil.copy(mistral_file("tokenizer.model.v1"), folder / "spiece.model")
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "GPTSw3Tokenizer", **BOUNDS, "pad_token": "<unk>", "chat_template": TEMPLATE},
    )


CARRIED: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "tekken_v3": (lambda folder: write_tekken(folder, "v3"), "mistral", 131072),
    "tekken_v11": (lambda folder: write_tekken(folder, "v11"), "mistral", 131072),
    "tekken_v13": (lambda folder: write_tekken(folder, "v13"), "mistral", 131072),
    "sentencepiece": (write_sentencepiece, "llama", 32000),
    "slow_sentencepiece": (write_slow, "llama", 32000),
}
"""What writes the tokenizer of a model, its model_type, its vocabulary's size. The end token of each is 2."""
END = 2
