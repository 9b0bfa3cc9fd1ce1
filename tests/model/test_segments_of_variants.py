"""Rules of a tokenizer that make a cut inexact: where there are any, nothing is cut there."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tokenizers import Tokenizer

from renderd.demo import model_dir
from renderd.model.segments import Encoder, find_anchors

Json = dict[str, Any]
START, END = "<|im_start|>", "<|im_end|>"
BYTES = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "▁", "split": True}


@cache
def original() -> str:
    return (model_dir() / "tokenizer.json").read_text(encoding="utf-8")


def flagged(**flags: bool) -> Callable[[Json], None]:
    """The end of a message has these flags."""

    def change(file: Json) -> None:
        for token in file["added_tokens"]:
            if token["content"] == END:
                token.update(flags)

    return change


def more(*contents: str) -> Callable[[Json], None]:
    """The vocabulary has more added tokens."""

    def change(file: Json) -> None:
        like = file["added_tokens"][0]
        size = len(file["model"]["vocab"]) + len(file["added_tokens"])
        file["added_tokens"] += [{**like, "id": size + i, "content": text} for i, text in enumerate(contents)]

    return change


def part(**parts: Any) -> Callable[[Json], None]:
    return lambda file: file.update(parts)


def texts() -> list[str]:
    generator = random.Random(1)
    pieces = ["Hello", " world", " ", "\n", "  ", "It's", "A", "é", "|", ">", "<|", "x<|", START, END, END]
    return ["".join(generator.choices(pieces, k=generator.randrange(1, 14))) for _ in range(400)]


@pytest.mark.parametrize(
    ("change", "anchors"),
    [
        (part(), {START, END}),
        (flagged(lstrip=True), {START}),
        (flagged(rstrip=True), {START}),
        (flagged(single_word=True), {START}),
        (flagged(normalized=True), {START}),
        (flagged(special=False), {START}),
        (more("x" + START), {END}),
        (more("|>|"), set()),
        (more(END + START, "aa"), set()),
        (part(normalizer={"type": "Lowercase"}), {START, END}),
        (part(normalizer={"type": "Strip", "strip_left": True, "strip_right": True}), {START, END}),
        (part(normalizer={"type": "Prepend", "prepend": "▁"}), {START, END}),
        (
            part(pre_tokenizer={**BYTES, "add_prefix_space": True}),
            {START, END},
        ),
        (part(pre_tokenizer={**METASPACE, "prepend_scheme": "always"}), {START, END}),
        (part(pre_tokenizer={**METASPACE, "prepend_scheme": "never"}), {START, END}),
        (part(pre_tokenizer={**METASPACE, "prepend_scheme": "first"}), set()),
    ],
)
def test_a_cut_changes_no_id(change: Callable[[Json], None], anchors: set[str]) -> None:
    file = json.loads(original())
    change(file)
    written = json.dumps(file)
    found = find_anchors(written.encode())
    assert {START, END} & set(found) == anchors
    tokenizer = Tokenizer.from_str(written)

    def encode(text: str) -> list[int]:
        return tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids

    encoder = Encoder(encode, found, least=1)
    assert [text for text in texts() if encoder.encode(text) != encode(text)] == []


def test_what_is_cut_at_every_token_would_be_wrong() -> None:
    file = json.loads(original())
    flagged(rstrip=True)(file)
    tokenizer = Tokenizer.from_str(json.dumps(file))

    def encode(text: str) -> list[int]:
        return tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids

    encoder = Encoder(encode, [START, END], least=1)
    assert [text for text in texts() if encoder.encode(text) != encode(text)]


@pytest.mark.parametrize(
    "parts",
    [
        {"truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}},
        {"padding": {"strategy": "BatchLongest", "pad_id": 0, "pad_token": "x"}},
        {"model": {**json.loads(original())["model"], "dropout": 0.1}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{**METASPACE, "prepend_scheme": "first"}]}},
    ],
)
def test_a_tokenizer_that_is_not_cut_at_all(parts: Json) -> None:
    assert find_anchors(json.dumps({**json.loads(original()), **parts}).encode()) == []
