"""What a prompt shares with the tokens of the last turn: ids, hashes, and what Qwen3's template drops."""

from __future__ import annotations

import hashlib
import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderd.model.segments import Encoder, TokenIds
from renderd.render.prefix import prefix_of
from renderd.wire.errors import ApiError
from renderd.wire.prefix import Prefix, PrefixChain, PrefixFields, prefix_chain
from tests.render.support import HELLO, Json, chat, model, post, renderer

IDS = st.lists(st.integers(0, 12), max_size=40)


def shared(ids: Any, previous: list[int], **fields: Any) -> Prefix:
    prefix = prefix_of(PrefixFields(previous_token_ids=previous, **fields), ids)
    assert isinstance(prefix, Prefix)
    return prefix


def by_hashes(ids: list[int], chain: PrefixChain) -> Prefix:
    prefix = prefix_of(PrefixFields(previous_prefix_hashes=chain), ids)
    assert isinstance(prefix, Prefix)
    return prefix


def common_tokens(one: list[int], other: list[int]) -> int:
    places = (at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs)
    return next(places, min(len(one), len(other)))


def chain_of(ids: list[int], block: int) -> list[str]:
    """As the documentation says it, and another language would do it."""
    hashes, last = [], b""
    for at in range(0, len(ids) // block * block, block):
        last = hashlib.sha256(last + struct.pack(f"<{block}I", *ids[at : at + block])).digest()[:16]
        hashes.append(last.hex())
    return hashes


@given(IDS, IDS, st.lists(st.integers(0, 40)))
def test_ids(common: list[int], rest: list[int], cuts: list[int]) -> None:
    """However the prompt's ids are cut into segments."""
    ids = [*common, *rest]
    places = sorted({0, len(ids), *(cut for cut in cuts if cut <= len(ids))})
    segments = [ids[start:end] for start, end in pairwise(places)]
    for previous in ([*common, *reversed(rest)], ids, common, [*ids, 11], [112, *ids]):
        expected = common_tokens(ids, previous)
        for prompt in (ids, TokenIds.joined(segments), TokenIds.joined([TokenIds.joined(segments)])):
            prefix = shared(prompt, previous)
            assert prefix.shared_tokens == expected
            assert prefix.previous_tokens == len(previous)
            parts = expected < len(ids) and expected < len(previous)
            assert prefix.diverges_at == (expected if parts else None)


def test_an_id_that_begins_like_another() -> None:
    assert shared(TokenIds.joined([[1, 2], [3]]), [1, 23]).shared_tokens == 1
    assert shared(TokenIds.joined([[1, 23]]), [1, 2]).shared_tokens == 1
    assert shared(TokenIds.joined([[1, 2]]), [1, 2, 3]) == Prefix(2, 3, None)


@given(IDS, IDS, st.integers(1, 9))
def test_hashes_agree_with_ids(ids: list[int], previous: list[int], block: int) -> None:
    """They show as many whole blocks as the ids share."""
    chain = prefix_chain(previous, block)
    assert chain == PrefixChain(block, chain_of(previous, block))
    exact = shared(ids, previous)
    prefix = by_hashes(ids, chain)
    assert exact.shared_tokens is not None
    assert prefix.shared_tokens == exact.shared_tokens // block * block
    assert prefix.previous_tokens == len(previous) // block * block
    whole = min(len(ids), len(previous)) // block * block
    assert prefix.diverges_at == (prefix.shared_tokens if prefix.shared_tokens < whole else None)


def test_the_longest_ids() -> None:
    ids = [2**32 - 1, 0, 255, 256]
    assert prefix_chain(ids, 2).hashes == chain_of(ids, 2)


def test_segments_of_a_real_prompt() -> None:
    """Thousands of tokens, most of them remembered, compared without being looked at one by one."""
    encoder = Encoder(lambda text: list(text.encode()), ["<|im_end|>"])
    text = "".join(f"message {n} " * 40 + "<|im_end|>" for n in range(50))
    ids = encoder.encode(text)
    for at in (0, 1, 5000, len(ids) - 1):
        assert shared(ids, [*ids[:at], 7, *ids[at + 1 :]]) == Prefix(at, len(ids), at)


# What the routes answer


def test_chat() -> None:
    ids = chat(HELLO)["token_ids"]
    answer = chat({**HELLO, "previous_token_ids": [*ids[:5], 1, 2], "return_prefix_hashes": 4})
    assert list(answer)[-1] == "prefix"
    assert answer["token_ids"] == ids
    assert answer["prefix"] == {
        "shared_tokens": 5,
        "previous_tokens": 7,
        "diverges_at": 5,
        "chain": {"block_size": 4, "hashes": chain_of(ids, 4)},
    }
    again = chat({**HELLO, "previous_prefix_hashes": answer["prefix"]["chain"]})["prefix"]
    covered = len(ids) // 4 * 4
    assert again == {
        "shared_tokens": covered,
        "previous_tokens": covered,
        "diverges_at": None,
        "chain": None,
    }


@pytest.mark.parametrize(
    "asked",
    [{}, {"previous_token_ids": None, "previous_prefix_hashes": None, "return_prefix_hashes": None}],
)
def test_not_asked(asked: Json) -> None:
    assert "prefix" not in chat({**HELLO, **asked})


def test_the_hashes_alone() -> None:
    prefix = chat({**HELLO, "return_prefix_hashes": 1000})["prefix"]
    assert prefix == {
        "shared_tokens": None,
        "previous_tokens": None,
        "diverges_at": None,
        "chain": {"block_size": 1000, "hashes": []},
    }


def test_messages() -> None:
    body = {"model": "a", "max_tokens": 9, "messages": HELLO["messages"], "previous_token_ids": []}
    ids = json.loads(renderer().messages(json.dumps(body).encode(), None))["token_ids"]
    body |= {"previous_token_ids": ids, "return_prefix_hashes": 2}
    prefix = json.loads(renderer().messages(json.dumps(body).encode(), None))["prefix"]
    assert (prefix["shared_tokens"], prefix["diverges_at"]) == (len(ids), None)
    del body["previous_token_ids"]
    body["previous_prefix_hashes"] = prefix["chain"]
    again = json.loads(renderer().messages(json.dumps(body).encode(), None))["prefix"]
    assert again["shared_tokens"] == len(ids) // 2 * 2


def test_completions() -> None:
    path = "/v1/completions/render"
    (answer,) = post(path, {"prompt": [1, 2, 3], "previous_token_ids": [1, 2, 4]})
    assert answer["prefix"]["diverges_at"] == 2
    answers = post(path, {"prompt": [[1, 2], [3]], "return_prefix_hashes": 1})
    assert [len(answer["prefix"]["chain"]["hashes"]) for answer in answers] == [2, 1]
    for field, value in (
        ("previous_token_ids", [1]),
        ("previous_prefix_hashes", {"block_size": 1, "hashes": []}),
    ):
        with pytest.raises(ApiError) as refused:
            post(path, {"prompt": [[1], [2]], field: value})
        assert (refused.value.status, refused.value.param) == (400, field)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_token_ids": "x"}, "body.previous_token_ids"),
        ({"previous_token_ids": {}}, "body.previous_token_ids"),
        ({"previous_token_ids": [1, -1]}, "body.previous_token_ids.1"),
        ({"previous_token_ids": [1.5]}, "body.previous_token_ids.0"),
        ({"previous_token_ids": [2**32]}, "body.previous_token_ids.0"),
        ({"previous_token_ids": [10**30]}, "body.previous_token_ids.0"),
        ({"previous_token_ids": [None]}, "body.previous_token_ids.0"),
        ({"previous_token_ids": [[1]]}, "body.previous_token_ids.0"),
        ({"return_prefix_hashes": 0}, "body.return_prefix_hashes"),
        ({"return_prefix_hashes": -16}, "body.return_prefix_hashes"),
        ({"return_prefix_hashes": "many"}, "body.return_prefix_hashes"),
        ({"previous_prefix_hashes": ["00" * 16]}, "body.previous_prefix_hashes"),
        ({"previous_prefix_hashes": {"hashes": []}}, "body.previous_prefix_hashes.block_size"),
        (
            {"previous_prefix_hashes": {"block_size": 0, "hashes": []}},
            "body.previous_prefix_hashes.block_size",
        ),
        ({"previous_prefix_hashes": {"block_size": 4}}, "body.previous_prefix_hashes.hashes"),
        (
            {"previous_prefix_hashes": {"block_size": 4, "hashes": ["00"]}},
            "body.previous_prefix_hashes.hashes.0",
        ),
        (
            {"previous_prefix_hashes": {"block_size": 4, "hashes": ["G" * 32]}},
            "previous_prefix_hashes",
        ),
        (
            {"previous_prefix_hashes": {"block_size": 4, "hashes": ["00" * 15 + "  "]}},
            "previous_prefix_hashes",
        ),
        (
            {"previous_prefix_hashes": {"block_size": 4, "hashes": ["0" * 33]}},
            "body.previous_prefix_hashes.hashes.0",
        ),
        (
            {"previous_token_ids": [], "previous_prefix_hashes": {"block_size": 4, "hashes": []}},
            "previous_prefix_hashes",
        ),
    ],
)
def test_refusals(fields: Json, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        chat({**HELLO, **fields})
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize("large", [2**32, 2**64, 10**30])
@pytest.mark.parametrize(
    "fields",
    [{"return_prefix_hashes": 1}, {"previous_prefix_hashes": {"block_size": 1, "hashes": ["00" * 16]}}],
)
def test_ids_of_a_prompt_that_are_none(large: int, fields: Json) -> None:
    path = "/v1/completions/render"
    with pytest.raises(ApiError, match="32 bits") as refused:
        post(path, {"prompt": [large], **fields})
    assert refused.value.status == 400
    (answer,) = post(path, {"prompt": [1, large], "previous_token_ids": [1, 2]})
    assert answer["prefix"]["shared_tokens"] == 1


def test_lenient_spellings() -> None:
    ids = chat(HELLO)["token_ids"]
    spelled = [str(ids[0]), float(ids[1]), *ids[2:]]
    assert chat({**HELLO, "previous_token_ids": spelled})["prefix"]["shared_tokens"] == len(ids)


# The hazard: what an engine holds of a turn is not what the next turn's prompt begins with


def test_thinking_that_the_template_drops() -> None:
    """Five turns with thinking: the prompt goes on from the last prompt, and never beyond the place where the
    last answer's thinking begins, though the text behind it is the same."""
    tokenizer = model().tokenizer
    messages: list[Json] = []
    held: list[int] = []
    hashes: Json | None = None
    last_prompt = 0
    for turn in range(5):
        messages.append({"role": "user", "content": f"Question {turn}?"})
        fields: Json = {"previous_token_ids": held} if turn else {}
        request = chat({"messages": messages, "return_prefix_hashes": 16, **fields})
        ids, prefix = request["token_ids"], request["prefix"]
        if turn:
            assert prefix["shared_tokens"] == common_tokens(ids, held)
            assert prefix["shared_tokens"] == prefix["diverges_at"] == last_prompt
            assert tokenizer.decode(held[last_prompt:]).startswith("<think>\n")
            assert tokenizer.decode(ids[last_prompt:]).startswith(f"Answer {turn - 1}.")
            by_hash = chat({"messages": messages, "previous_prefix_hashes": hashes})["prefix"]
            assert by_hash["shared_tokens"] == last_prompt // 16 * 16
        thought, text = f"Thought {turn}. " * 20, f"Answer {turn}."
        said = tokenizer.encode(f"<think>\n{thought}\n</think>\n\n{text}<|im_end|>", False)
        last_prompt, held = len(ids), [*ids, *said]
        chain = prefix_chain(held, 16)
        hashes = {"block_size": chain.block_size, "hashes": chain.hashes}
        messages.append({"role": "assistant", "reasoning_content": thought, "content": text})


def test_thinking_that_the_template_keeps() -> None:
    """Between the calls of one turn it stays, and all that an engine holds can be used."""
    call = {"type": "function", "function": {"name": "get", "arguments": '{"a": "b"}'}, "id": "c"}
    said = (
        '<think>\nThought.\n</think>\n\n<tool_call>\n{"name": "get", "arguments": {"a": "b"}}\n</tool_call>'
    )
    asked = [{"role": "user", "content": "Question?"}]
    held = chat({"messages": asked})["token_ids"]
    held += model().tokenizer.encode(said + "<|im_end|>", False)
    after: list[Json] = [
        *asked,
        {"role": "assistant", "reasoning_content": "Thought.", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "d"},
    ]
    prefix = chat({"messages": after, "previous_token_ids": held})["prefix"]
    assert prefix == {
        "shared_tokens": len(held),
        "previous_tokens": len(held),
        "diverges_at": None,
        "chain": None,
    }


def test_the_documentation_says_how_to_hash() -> None:
    page = (Path(__file__).parents[2] / "docs" / "prefix.md").read_text("utf-8")
    found: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], found)
    ids = [*range(0, 70_000, 1001), 2**32 - 1]
    for block in (1, 7, 16, 71, 100):
        assert found["chain"](ids, block) == prefix_chain(ids, block).hashes
