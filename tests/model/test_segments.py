"""Cutting a prompt at anchors changes no id, on real tokenizers and whatever the text."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from golden import models
from renderd.model.segments import LEAST, Encoder, _Segment, find_anchors

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
@settings(max_examples=60, deadline=None)
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
    encoder = Encoder(
        encode,
        anchors,
        max_bytes=data.draw(st.sampled_from([0, 2000, 10**6])),
        least=data.draw(st.sampled_from([0, 1, 7, LEAST])),
    )
    for _ in range(2):
        text = "".join(data.draw(st.lists(piece, max_size=12)))
        assert encoder.encode(text) == encode(text)
        assert encoder.encode(text) == encode(text)


def numbered(seen: list[str], text: str) -> list[int]:
    seen.append(text)
    return [ord(c) for c in text for _ in range(10)]


def test_what_was_encoded_is_remembered_within_its_bound() -> None:
    seen: list[str] = []
    encoder = Encoder(partial(numbered, seen), ["|"], max_bytes=3 * 600, least=1)
    ids = encoder.encode("a|b|a")
    assert ids == numbered([], "a|b|a")
    assert (len(ids), ids[-1], ids[48:], [*reversed(ids)]) == (50, 97, [97, 97], ids[::-1])
    assert json.loads(ids.json()) == ids
    assert ids.framed([1, 2], [3]) == [1, 2, *ids, 3]
    assert ids.framed([], []) is ids
    assert encoder.encode("").json() == encoder.encode("").framed([], []).json() == b"[]"
    assert seen == ["a|", "b|", "a"]
    assert encoder.encode("b|a|c") == numbered([], "b|a|c")
    assert seen == ["a|", "b|", "a", "c"]
    assert (encoder.hits, encoder.misses, encoder.evictions) == (2, 4, 1)
    assert 2 * 600 < encoder.cached_bytes <= 3 * 600


def test_a_segment_is_long_unless_the_text_ends() -> None:
    seen: list[str] = []
    encoder = Encoder(partial(numbered, seen), ["|"], least=4)
    for text in ("a|b|c|d|e|f", "a|b|c|d|e|fg|h", "a|b|c|d|"):
        assert encoder.encode(text) == numbered([], text)
    assert seen == ["a|b|c|", "d|e|f", "d|e|fg|", "h", "d|"]


@pytest.mark.parametrize("max_bytes", [0, 10])
def test_no_room_to_remember(max_bytes: int) -> None:
    seen: list[str] = []
    encoder = Encoder(partial(numbered, seen), ["|"], max_bytes, least=1)
    for _ in range(2):
        assert encoder.encode("a|a") == numbered([], "a|a")
    assert seen == 2 * (["a|", "a"] if max_bytes else ["a|a"])
    assert (encoder.cached_bytes, encoder.evictions) == (0, 0)


def living() -> int:
    gc.collect()
    return sum(isinstance(thing, _Segment) for thing in gc.get_objects())


def test_what_is_forgotten_takes_no_memory() -> None:
    encoder = Encoder(lambda text: [1], ["|"], max_bytes=2000, least=1)
    before = living()
    encoder.encode("".join(f"{number}|" for number in range(1000)))
    assert living() - before < 10


def test_what_is_only_rehearsed() -> None:
    encoder = Encoder(lambda text: [len(text)], ["|"], least=1)
    encoder.encode("aa|b|")
    counts = encoder.hits, encoder.misses, encoder.evictions, encoder.cached_bytes
    before = living()
    with encoder.forgetting():
        assert list(encoder.encode("aa|ccc|d|")) == [3, 4, 2]
    assert (encoder.hits, encoder.misses, encoder.evictions, encoder.cached_bytes) == counts
    assert living() == before
    assert list(encoder.encode("aa|b|ccc|")) == [3, 2, 4]
    assert (encoder.hits, encoder.misses) == (counts[0] + 2, counts[1] + 1)


def test_ids_are_found_from_the_end() -> None:
    ids = Encoder(partial(numbered, []), ["|"], least=1).encode("ab|cb|ad")
    wanted = frozenset({ord("b"), ord("c")})
    for _ in range(2):
        assert [*ids.search(wanted)] == [(at, ids[at]) for at in range(79, -1, -1) if ids[at] in wanted]
    assert not [*ids.search(frozenset({1}))]
    assert len([*ids.search(frozenset({ord("d")}))]) == 10


def added(content: str, **flags: bool) -> dict[str, Any]:
    return {"content": content, "special": True, **flags}


@pytest.mark.parametrize(
    ("change", "anchors"),
    [
        ({}, ["<a>", "<b>"]),
        ({"added_tokens": [added("<a>", lstrip=True), added("<b>", normalized=True)]}, []),
        ({"added_tokens": [added("<a>"), added("a>x"), added("y<a")]}, []),
        ({"added_tokens": [added("ab"), added("xaby")]}, ["xaby"]),
        ({"added_tokens": [added("xyx"), added("aba"), added("<b>")]}, ["<b>"]),
        ({"added_tokens": [added("<a>"), added("<b>", special=False)]}, ["<a>"]),
        ({"truncation": {"max_length": 4}}, []),
        ({"model": {"dropout": 0.1}}, []),
        ({"pre_tokenizer": {"pretokenizers": [{"type": "Metaspace", "prepend_scheme": "first"}]}}, []),
    ],
)
def test_where_texts_may_be_cut(change: dict[str, Any], anchors: list[str]) -> None:
    tokenizer = {"added_tokens": [added("<a>"), added("<b>")], "model": {}, **change}
    assert find_anchors(json.dumps(tokenizer).encode()) == anchors
