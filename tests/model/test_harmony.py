from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from golden.models import model_path
from renderd.model import ModelConfig, load_model
from renderd.model.harmony import Harmony, load_harmony

FOLDER = "TIKTOKEN_ENCODINGS_BASE"


@pytest.fixture(scope="module")
def harmony() -> Harmony:
    return load_harmony(model_path("gptoss"))


def test_the_network_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert load_harmony(model_path("gptoss")).encode("Hello there") == [13225, 1354]


@pytest.mark.parametrize("before", [None, "/somewhere"])
def test_the_environment_is_as_before(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    if before is not None:
        monkeypatch.setenv(FOLDER, before)
    load_harmony(model_path("gptoss"))
    assert os.environ.get(FOLDER) == before


def test_texts_have_the_ids_of_the_model_s_tokenizer(harmony: Harmony) -> None:
    tokenizer = load_model(ModelConfig(str(model_path("gptoss")))).tokenizer
    for text in (
        "",
        " ",
        "a\n\n b",
        "don't DON'T a'ſb",
        "漢字 👩‍👩‍👧 ﬁ \u0301",
        "12345 \u2028 \t x",
        "{'a': [1, null]}",
    ):
        assert harmony.encode(text) == tokenizer.encode(text, add_special_tokens=False)
    assert all(tokenizer.token_id(text) == token_id for text, token_id in harmony.ids.items())


def test_no_token_of_a_text_is_special(harmony: Harmony) -> None:
    assert not set(harmony.encode("<|start|>assistant<|end|><|endoftext|>")) & set(harmony.ids.values())


def test_a_lone_surrogate_is_an_error(harmony: Harmony) -> None:
    for refused in (
        lambda: harmony.encode("\ud800"),
        lambda: harmony.system("\ud800", "low", "2025-01-01", False),
        lambda: harmony.developer("\ud800", ()),
    ):
        with pytest.raises(ValueError):
            refused()


def test_tools_that_are_nested_too_deeply(harmony: Harmony) -> None:
    for depth in (200, 3000):
        schema: dict[str, object] = {"type": "string"}
        for _ in range(depth):
            schema = {"type": "object", "properties": {"a": schema}}
        tool = {"function": {"name": "f", "description": None, "parameters": schema}}
        with pytest.raises(ValueError, match="recursion"):
            harmony.developer(None, [tool])


@pytest.mark.parametrize("name", ["qwen3", "gemma3"])
def test_another_vocabulary_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="models of type gpt_oss"):
        load_model(ModelConfig(str(model_path(name)), hf_overrides={"model_type": "gpt_oss"}))


def test_a_marker_of_another_id_is_refused(tmp_path: Path) -> None:
    tokenizer = json.loads((model_path("gptoss") / "tokenizer.json").read_text("utf-8"))
    for token in tokenizer["added_tokens"]:
        if token["content"] == "<|call|>":
            token["id"] = 200013
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(ValueError, match=r"<\|call\|> of .* is 200013, in Harmony 200012"):
        load_harmony(tmp_path)


@pytest.mark.parametrize("text", [None, "{", '{"model": {}}'])
def test_no_vocabulary(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match="no vocabulary that Harmony can use"):
        load_harmony(tmp_path)


def test_other_models_have_none() -> None:
    assert load_model(ModelConfig(str(model_path("qwen3")))).harmony is None
