"""The fast encoder is taken where it is exact, and nowhere else."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from golden import models
from renderd.model.fast_encoder import SpeedUp, corpus, prove
from renderd.model.tokenizer import load_tokenizer

PIECES = ["'s", "'ſ", "a", "é", "漢", " ", "\n", "\u0301", "12", "...", "<|im_end|>", "Hello", "😀", "\u200d"]


@pytest.mark.parametrize(
    ("name", "fast"),
    [("qwen3", True), ("deepseek_v3", True), ("gemma3", True), ("llama3_1", True), ("gptoss", False)],
)
def test_which_tokenizers_are_encoded_fast(name: str, fast: bool) -> None:
    tokenizer = load_tokenizer(models.fetch(name))
    SpeedUp(tokenizer).run()
    assert (tokenizer.encoder.encode_text != tokenizer.encode_whole) is fast
    rng = random.Random(0)
    for _ in range(500):
        text = "".join(rng.choices(PIECES, k=8))
        assert tokenizer.encode(text, False) == tokenizer.encode_whole(text)


def test_one_wrong_text_is_enough() -> None:
    tokenizer = load_tokenizer(models.fetch("qwen3"))
    texts = list(corpus(tokenizer.added_tokens[:64]))
    odd = texts[-1]
    assert prove(lambda text: [] if text == odd else tokenizer.encode_whole(text), tokenizer) == (
        False,
        odd,
    )
    assert prove(tokenizer.encode_whole, tokenizer) == (True, None)


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
        SpeedUp(tokenizer).run()
    assert line in caplog.text
    assert "None" not in caplog.text
    assert tokenizer.encoder.encode_text == tokenizer.encode_whole


def test_text_that_cannot_be_encoded_fails_as_ever() -> None:
    tokenizer = load_tokenizer(models.fetch("llama3_1"))
    SpeedUp(tokenizer).run()
    with pytest.raises(TypeError):
        tokenizer.encode("\ud800", False)


def test_a_proof_that_nobody_waits_for_is_left() -> None:
    tokenizer = load_tokenizer(models.fetch("qwen3"))
    asked: list[str] = []
    begun = threading.Event()

    def slow(text: str) -> list[int]:
        asked.append(text)
        begun.set()
        time.sleep(0.2)
        return tokenizer.encode_whole(text)

    faster = SpeedUp(tokenizer)
    faster._encode = slow
    faster.start()
    assert begun.wait(10)
    faster.stop()
    assert not faster.is_alive() and len(asked) < 5
    assert tokenizer.encoder.encode_text == tokenizer.encode_whole


def test_a_proof_that_never_began_can_be_stopped() -> None:
    SpeedUp(load_tokenizer(models.fetch("qwen3"))).stop()
