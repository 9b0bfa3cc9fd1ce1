"""Trains the carried model on the project's own text: `python -m renderd.demo.train` in a checkout.

The same text gives the same files, byte for byte. There are no weights: config.json names a tiny architecture
so that other servers accept the directory as well.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from renderd.demo import model_dir

ROOT = Path(__file__).parents[2]
TEXTS = (
    "README.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "renderd/**/*.py",
    "renderd/**/*.jinja",
    "parsers/**/*.py",
)

VOCABULARY = 4096
WINDOW = 8192
END, START, STOP = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PLAIN = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def corpus() -> Iterator[str]:
    """The project's texts, in an order that does not depend on the file system."""
    for pattern in TEXTS:
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_text(encoding="utf-8")


def train() -> Tokenizer:
    """A byte-level BPE: any text encodes, and decodes to itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(PLAIN),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in PLAIN])
    return tokenizer


def write(directory: Path, tokenizer: Tokenizer) -> None:
    """Write tokenizer.json and its configuration files. The chat template is written by hand."""
    added = {
        str(tokenizer.token_to_id(text)): {
            "content": text,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": text in SPECIAL,
        }
        for text in (*SPECIAL, *PLAIN)
    }
    stop, end = tokenizer.token_to_id(STOP), tokenizer.token_to_id(END)
    files: dict[str, dict[str, Any]] = {
        "tokenizer_config.json": {
            "added_tokens_decoder": added,
            "clean_up_tokenization_spaces": False,
            "eos_token": STOP,
            "pad_token": END,
            "model_max_length": WINDOW,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
        "config.json": {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000,
            "max_position_embeddings": WINDOW,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
            "vocab_size": VOCABULARY,
            "eos_token_id": stop,
        },
        "generation_config.json": {
            "eos_token_id": [stop, end],
            "pad_token_id": end,
            "temperature": 0.7,
            "top_p": 0.9,
        },
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m renderd.demo.train", description=__doc__).parse_args()
    write(model_dir(), train())
