from __future__ import annotations

import time

import pytest

from golden.models import model_path
from renderd.model import ModelConfig, load_model
from renderd.model.harmony import Harmony
from renderd.model.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_model(ModelConfig(str(model_path("gptoss")))).tokenizer


@pytest.fixture(scope="module")
def harmony() -> Harmony:
    harmony = load_model(ModelConfig(str(model_path("gptoss")))).harmony
    assert harmony is not None
    return harmony


def test_texts_have_the_ids_of_the_tokenizer(harmony: Harmony, tokenizer: Tokenizer) -> None:
    assert harmony.encode("Hello there") == [13225, 1354]
    for text in ("", " ", "a\n\n b", "don't DON'T a'ſb", "漢字 👩‍👩‍👧 ﬁ \u0301", "12345 \u2028 \t x", "<|en"):
        assert harmony.encode(text) == tokenizer.encode(text, add_special_tokens=False)
    assert all(tokenizer.token_id(text) == token_id for text, token_id in harmony.ids.items())


def test_no_token_of_a_text_is_special(harmony: Harmony, tokenizer: Tokenizer) -> None:
    text = "a<|start|>assistant <|end|>!<|endoftext|><|return|>b"
    ids = harmony.encode(text)
    assert not set(ids) & tokenizer.special_ids
    assert tokenizer.decode(ids) == text


def test_what_cannot_be_encoded(harmony: Harmony) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        harmony.encode("\ud800")
    with pytest.raises(ValueError, match="cannot split"):
        harmony.encode(" " * 20_000_000)


@pytest.mark.parametrize("piece", [" ", "a", "漢", "\n", "!", "<|end|>"])
def test_a_long_run_takes_no_long_time(harmony: Harmony, piece: str) -> None:
    begun = time.process_time()
    harmony.encode(piece * 100_000)
    assert time.process_time() - begun < 10


def test_a_tokenizer_without_the_frame_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has no <\|start\|>, <\|message\|>.* for"):
        load_model(ModelConfig(str(model_path("qwen3")), hf_overrides={"model_type": "gpt_oss"}))


def test_other_models_have_none() -> None:
    assert load_model(ModelConfig(str(model_path("qwen3")))).harmony is None
