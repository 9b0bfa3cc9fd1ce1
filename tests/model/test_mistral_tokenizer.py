"""Mistral's tokenizer files: what vLLM 0.33.0 answered with --tokenizer-mode mistral, and calls."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from parsers import ModelFacts, build
from renderd.derender.detokenizer import Detokenizer
from renderd.model import Model, ModelConfig, load_model
from tests.model import foreign
from tests.model.answers import answer, derenderer, recorded

CALLS = '[{"name": "get", "arguments": {"city": "Paris"}}]'
TOOLS = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}]


@cache
def model(kind: str) -> Model:
    return load_model(ModelConfig(str(foreign.folder_of(kind)), max_model_len=4096, served_model_name=["m"]))


def family(kind: str) -> Any:
    tokenizer = model(kind).tokenizer
    return build("mistral", "mistral", ModelFacts(is_token=lambda text: tokenizer.token_id(text) is not None))


def corrected(kind: str, case: dict[str, Any]) -> Any:
    """vLLM's answer, but for two losses: bytes of a character that came token by token where special tokens
    were to be kept, and blanks in what a SentencePiece model decodes."""
    want, request = case["answer"], case["request"]
    if "generate_responses" in request:
        ids = request["generate_responses"][0]["choices"][0]["token_ids"]
        if ids == [1240, 1159, 1140, 1141] and kind == "tekken":
            want["text"] = "🌍"
    if kind == "mistral_sentencepiece":
        for key in ("prompt", "tokens"):
            value = want.get(key) if isinstance(want, dict) and "token_strs" not in want else None
            if isinstance(value, str):
                want[key] = value.replace("▁", " ")
            elif isinstance(value, list):
                want[key] = [text.replace("▁", " ") for text in value]
    return want


@pytest.mark.parametrize("kind", ["tekken", "mistral_sentencepiece"])
def test_answers_are_those_of_vllm(kind: str) -> None:
    differing = []
    for case in recorded(kind):
        got = answer(model(kind), case["path"], case["request"], family(kind))
        if got != corrected(kind, case):
            differing.append((case["request"], case["answer"], got))
    assert differing == []


@pytest.mark.parametrize("kind", foreign.MISTRAL)
def test_any_chunking_gives_the_same_text(kind: str) -> None:
    tokenizer = model(kind).tokenizer
    for text in ("Hello wörld 🌍\n  x", "</s>a<s> b", "日本語 テキスト\t12345", "[INST] [TOOL_CALLS]"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
        decoder = Detokenizer(tokenizer, skip_special=True)
        seed = tokenizer.encode("a", add_special_tokens=False)
        window = decoder.seed(seed)
        pieces = [piece for token_id in ids for piece in decoder.read(window, [token_id])]
        assert "".join(pieces).lstrip(" ") == text


def test_text_never_spells_control_tokens() -> None:
    for kind in foreign.MISTRAL:
        tokenizer = model(kind).tokenizer
        control = tokenizer.token_id("[INST]")
        assert control is not None
        assert control not in tokenizer.encode("[INST]", add_special_tokens=False)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("kind", foreign.MISTRAL)
def test_calls_are_parsed(kind: str, chunk: int) -> None:
    """The parser reads control tokens by their ids, whole and streamed."""
    tokenizer = model(kind).tokenizer

    def ids_of(*parts: str) -> list[int]:
        ids: list[int] = []
        for part in parts:
            control = tokenizer.token_id(part)
            ids += [control] if control is not None else tokenizer.encode(part, add_special_tokens=False)
        return ids

    if kind == "tekken_13":
        ids = ids_of("[THINK]", "why", "[/THINK]", "[TOOL_CALLS]", "get", "[ARGS]", '{"city": "Paris"}')
    else:
        ids = ids_of("[TOOL_CALLS]", CALLS)
    request = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS}
    head = {"chat_request": request, "prompt_token_ids": [1, 3]}
    api = derenderer(model(kind), family(kind))
    said = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids, "finish_reason": "length"}]}
    body = json.dumps({**head, "generate_response": said}).encode()
    message = json.loads(api.chat(body))["choices"][0]["message"]
    [call] = message["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("get", {"city": "Paris"})
    assert message["reasoning"] == ("why" if kind == "tekken_13" else None)

    state, arguments = None, ""
    for start in range(0, len(ids), chunk):
        part = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids[start : start + chunk]}]}
        body = json.dumps({**head, "stream": True, "generate_chunk": part, "stream_state": state}).encode()
        answered = json.loads(api.chat(body))
        state = answered["stream_state"]
        for piece in answered["chunk"]["choices"][0]["delta"].get("tool_calls") or ():
            arguments += piece["function"].get("arguments") or ""
    assert json.loads(arguments) == {"city": "Paris"}


def test_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    foreign.write_config(tmp_path)
    (tmp_path / "tekken.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tekken\.json of the model cannot be read by mistral-common"):
        load_model(ModelConfig(str(tmp_path)))
