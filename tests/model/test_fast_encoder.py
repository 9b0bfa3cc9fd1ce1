"""The fast encoder is taken where it is exact, and nowhere else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from golden import models
from renderd.model.fast_encoder import SpeedUp, corpus, differing
from renderd.model.tokenizer import load_tokenizer

PIECES = ["'s", "'ſ", "a", "é", "漢", " ", "\n", "\u0301", "12", "...", "<|im_end|>", "Hello", "😀", "\u200d"]


@pytest.mark.parametrize(
    ("name", "fast"),
    [("qwen3", True), ("deepseek_v3", True), ("gemma3", True), ("llama3_1", True), ("gptoss", False)],
)
def test_which_tokenizers_are_encoded_fast(name: str, fast: bool) -> None:
    tokenizer = load_tokenizer(models.fetch(name))
    faster = SpeedUp(tokenizer)
    assert faster.found and faster.prove() is fast
    if fast:
        faster.take()
        assert tokenizer.encoder.encode_text != tokenizer.encode_whole
        assert tokenizer.encoder.brief_chars > 10_000
    rng = random.Random(0)
    for _ in range(500):
        text = "".join(rng.choices(PIECES, k=8))
        assert tokenizer.encode(text, False) == tokenizer.encode_whole(text)


def test_one_wrong_text_is_enough() -> None:
    tokenizer = load_tokenizer(models.fetch("qwen3"))
    texts = list(corpus(tokenizer.added_tokens[:64]))
    odd = texts[-1]
    assert differing(lambda text: [] if text == odd else tokenizer.encode_whole(text), tokenizer) == odd
    assert differing(tokenizer.encode_whole, tokenizer) is None


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (Path("nowhere/tokenizer.json"), "fastokens cannot read this tokenizer ("),
        (None, "encoding with the tokenizer's own library: fastokens reads nothing but tokenizer.json"),
    ],
)
def test_a_tokenizer_that_cannot_be_read_stays_as_it_is(
    caplog: pytest.LogCaptureFixture, path: Path | None, line: str
) -> None:
    tokenizer = load_tokenizer(models.fetch("qwen3"))
    tokenizer.path = path
    with caplog.at_level("INFO", "renderd.model"):
        faster = SpeedUp(tokenizer)
        assert not faster.found and not faster.prove()
        faster.take()
    assert line in caplog.text
    assert "None" not in caplog.text
    assert tokenizer.encoder.encode_text == tokenizer.encode_whole


def test_text_that_cannot_be_encoded_fails_as_ever() -> None:
    tokenizer = load_tokenizer(models.fetch("llama3_1"))
    SpeedUp(tokenizer).take()
    with pytest.raises(TypeError):
        tokenizer.encode("\ud800", False)
