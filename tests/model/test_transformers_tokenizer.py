"""Tokenizers that only transformers can read: what vLLM 0.33.0 answered on the same folders."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from parsers import build
from renderd.derender.detokenizer import Detokenizer
from renderd.model import Model, ModelConfig, load_model
from tests.model import foreign
from tests.model.answers import answer, derenderer, recorded

TEXTS = [
    "",
    " a",
    "Hello wörld 🌍\n  x",
    "</s>a<s> b",
    "日本語 テキスト\t12345",
    "e\u0301 \x00 <unk>z",
    "a" * 500,
]


@cache
def model(kind: str) -> Model:
    return load_model(ModelConfig(str(foreign.folder_of(kind)), max_model_len=4096, served_model_name=["m"]))


@cache
def reference(kind: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model(kind).name)


@pytest.mark.parametrize("kind", foreign.KINDS)
def test_answers_are_those_of_vllm(kind: str) -> None:
    asked = 0
    for case in recorded(kind):
        got, want = answer(model(kind), case["path"], case["request"]), case["answer"]
        if kind == "slow" and "tokens" in want and "text" in want:
            # vLLM loses the blank before a word when it decodes one token alone.
            assert [text.strip() for text in got.pop("tokens")] == [t.strip() for t in want.pop("tokens")]
        assert got == want, case["request"]
        asked += 1
    assert asked > 60


@pytest.mark.parametrize("kind", foreign.KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_those_of_transformers(kind: str, text: str) -> None:
    hf = reference(kind)
    tokenizer = model(kind).tokenizer
    for framed in (False, True):
        ids = tokenizer.encode(text, add_special_tokens=framed)
        assert ids == hf.encode(text, add_special_tokens=framed)
        assert tokenizer.decode(ids) == hf.decode(ids)
        assert tokenizer.decode(ids, skip_special_tokens=True) == hf.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("kind", foreign.KINDS)
def test_any_chunking_gives_the_same_text(kind: str) -> None:
    tokenizer = model(kind).tokenizer
    for text in TEXTS:
        ids = [*tokenizer.encode(text, add_special_tokens=False), 10**9]
        for spaces in (False, True):
            decoder = Detokenizer(tokenizer, skip_special=False, spaces=spaces)
            window = decoder.seed([])
            whole = "".join(decoder.read(window, ids))
            window = decoder.seed([])
            assert "".join(piece for i in ids for piece in decoder.read(window, [i])) == whole


def test_a_lone_surrogate_is_a_bad_request() -> None:
    with pytest.raises(TypeError):
        model("slow").tokenizer.encode("\ud800", add_special_tokens=False)


def test_special_tokens() -> None:
    """By their roles for templates, by their ids for the detokenizer."""
    for kind in ("slow", "sentencepiece"):
        tokenizer = model(kind).tokenizer
        assert {role: tokenizer.special_tokens[role] for role in foreign.BOUNDS} == foreign.BOUNDS
        assert (tokenizer.eos_token_id, tokenizer.token_id("</s>")) == (2, 2)
        assert {0, 1, 2} <= tokenizer.special_ids
        assert tokenizer.piece(10**9) is tokenizer.piece(-1) is None
        assert tokenizer.token_id("no such entry") is None
    assert model("merges").eos_token_ids == {151645}


def test_parsers_read_a_slow_tokenizer() -> None:
    """Markers that are text there are found in the joined pieces."""
    slow = model("slow")
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    ids = list(slow.tokenizer.encode(f"<think>why</think> Hi {call}", add_special_tokens=False))
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = {
        "chat_request": {"messages": [{"role": "user", "content": "x"}], "tools": tools},
        "prompt_token_ids": list(slow.tokenizer.encode("x", add_special_tokens=False)),
        "generate_response": {"request_id": "r", "choices": [{"index": 0, "token_ids": ids}]},
    }
    message = json.loads(derenderer(slow, build("qwen3", "hermes")).chat(json.dumps(body).encode()))[
        "choices"
    ][0]["message"]
    assert (message["reasoning"].strip(), message["content"].strip()) == ("why", "Hi")
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    foreign.write_config(tmp_path)
    with pytest.raises(ValueError, match=r"has no tokenizer\.json, and transformers cannot read"):
        load_model(ModelConfig(str(tmp_path)))


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "llama"])
def test_a_tokenizer_made_of_nothing_is_refused(tmp_path: Path, name: str) -> None:
    """transformers makes one by the kind of model alone."""
    foreign.write_config(tmp_path, model_type=name)
    foreign.write_json(tmp_path / "tokenizer_config.json", {"eos_token": "</s>", "unk_token": "<unk>"})
    with pytest.raises(ValueError, match=r"has no vocabulary|transformers cannot read"):
        load_model(ModelConfig(str(tmp_path)))


def test_code_of_a_model_runs_only_if_it_is_trusted(tmp_path: Path) -> None:
    foreign.slow(tmp_path)
    (tmp_path / "tokenization_own.py").write_text(
        "from transformers import GPTSw3Tokenizer\n\n\nclass OwnTokenizer(GPTSw3Tokenizer):\n    pass\n"
    )
    configuration = json.loads((tmp_path / "tokenizer_config.json").read_text())
    configuration |= {
        "tokenizer_class": "OwnTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]},
    }
    foreign.write_json(tmp_path / "tokenizer_config.json", configuration)
    with pytest.raises(ValueError, match="code, which runs only with --trust-remote-code"):
        load_model(ModelConfig(str(tmp_path)))
    trusted = load_model(ModelConfig(str(tmp_path), trust_remote_code=True))
    assert trusted.tokenizer.encode("Hello", add_special_tokens=True) == [22557]
