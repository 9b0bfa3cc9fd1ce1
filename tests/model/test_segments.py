"""Cutting a prompt at anchors changes no id, on real tokenizers and whatever the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from golden import models
from renderd.model.segments import Encoder, find_anchors

MODELS = ["qwen3", "deepseek_v3", "gemma3", "gptoss", "llama3_1"]


@cache
def loaded(name: str) -> tuple[Callable[[str], list[int]], list[str], list[str]]:
    text = (models.fetch(name) / "tokenizer.json").read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_str(text)
    content = json.loads(text)

    def encode(text: str) -> list[int]:
        return tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids

    return encode, find_anchors(text.encode()), [token["content"] for token in content["added_tokens"]]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_segments_give_the_ids_of_the_whole(name: str, data: st.DataObject) -> None:
    encode, anchors, added = loaded(name)
    assert anchors
    piece = st.one_of(
        st.sampled_from(anchors),
        st.sampled_from(added),
        st.sampled_from(
            ["user\n", " it's", "don'T", "\r\n", "\t ", "12345", "  ", "é", "😀", "<|im", "|>", "ﬁ"]
        ),
        st.text(max_size=8),
    )
    encoder = Encoder(encode, anchors, max_bytes=data.draw(st.sampled_from([800, 10**6])))
    for _ in range(2):
        text = "".join(data.draw(st.lists(piece, max_size=12)))
        assert encoder.encode(text) == encode(text)
        assert encoder.encode(text) == encode(text)


def test_what_was_encoded_is_remembered_within_its_bound() -> None:
    seen: list[str] = []

    def encode(text: str) -> list[int]:
        seen.append(text)
        return [1] * 10

    encoder = Encoder(encode, ["|"], max_bytes=3 * 500)
    ids = encoder.encode("a|b|a")
    assert ids == [1] * 50
    assert (len(ids), ids[-1], ids[48:], [*reversed(ids)]) == (50, 1, [1, 1], [1] * 50)
    assert json.loads(ids.json()) == [1] * 50
    assert encoder.encode("").json() == b"[]"
    assert seen == ["a", "|", "b"]
    encoder.encode("|a|c")
    assert seen == ["a", "|", "b", "c"]
    assert (encoder.hits, encoder.misses, encoder.evictions) == (5, 4, 1)
    assert encoder.cached_bytes <= 3 * 500
    assert Encoder(encode, ["|"], max_bytes=10).encode("a|a") == [1] * 30


def added(content: str, **flags: bool) -> dict[str, Any]:
    return {"content": content, "special": True, **flags}


@pytest.mark.parametrize(
    ("change", "anchors"),
    [
        ({}, ["<a>", "<b>"]),
        ({"added_tokens": [added("<a>", lstrip=True), added("<b>", normalized=True)]}, []),
        ({"added_tokens": [added("<a>"), added("a>x"), added("y<a")]}, []),
        ({"added_tokens": [added("ab"), added("xaby")]}, ["xaby"]),
        ({"added_tokens": [added("<a>"), added("<b>", special=False)]}, ["<a>"]),
        ({"truncation": {"max_length": 4}}, []),
        ({"model": {"dropout": 0.1}}, []),
        ({"pre_tokenizer": {"pretokenizers": [{"type": "Metaspace", "prepend_scheme": "first"}]}}, []),
    ],
)
def test_where_texts_may_be_cut(change: dict[str, Any], anchors: list[str]) -> None:
    tokenizer = {"added_tokens": [added("<a>"), added("<b>")], "model": {}, **change}
    assert find_anchors(json.dumps(tokenizer).encode()) == anchors
