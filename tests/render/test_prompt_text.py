"""`return_prompt_text`: the prompt's text in render's answer, where it was asked for and nowhere else."""

from __future__ import annotations

import pytest

from tests.render.support import HELLO, Json, chat, model, post

COMPLETION = "/v1/completions/render"
PROMPT = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


def test_chat() -> None:
    answer = chat({**HELLO, "return_prompt_text": True})
    assert answer["prompt_text"] == PROMPT
    assert list(answer)[-1] == "prompt_text"
    assert answer["token_ids"] == chat(HELLO)["token_ids"]


@pytest.mark.parametrize("asked", [{}, {"return_prompt_text": False}, {"return_prompt_text": None}])
def test_not_asked(asked: Json) -> None:
    assert "prompt_text" not in chat({**HELLO, **asked})
    assert "prompt_text" not in post(COMPLETION, {"prompt": "Hello", **asked})[0]


def test_truncation_leaves_the_text_to_which_offsets_refer() -> None:
    answer = chat(
        {**HELLO, "return_prompt_text": True, "return_token_offsets": True, "truncate_prompt_tokens": 3}
    )
    assert answer["prompt_text"] == PROMPT
    cut = "".join(PROMPT[start:end] for start, end in answer["token_offsets"])
    assert cut == "<|im_start|>assistant\n"


def test_completions_prompt_by_prompt() -> None:
    ids = model().tokenizer.encode("wörld", add_special_tokens=False)
    texts = post(COMPLETION, {"prompt": ["Hello", " 🌍 "], "return_prompt_text": "yes"})
    assert [answer["prompt_text"] for answer in texts] == ["Hello", " 🌍 "]
    assert post(COMPLETION, {"prompt": [list(ids)], "return_prompt_text": True})[0]["prompt_text"] == "wörld"


def test_ids_that_came_with_a_chat_are_decoded() -> None:
    ids = chat(HELLO)["token_ids"]
    answer = chat({**HELLO, "kv_transfer_params": {"prompt_token_ids": ids}, "return_prompt_text": True})
    assert (answer["token_ids"], answer["prompt_text"]) == (ids, PROMPT)


def test_ids_without_text() -> None:
    """Ids of completions are not checked against the vocabulary: unknown ones decode to nothing."""
    ids = [*model().tokenizer.encode("a", add_special_tokens=False), 2**63]
    assert post(COMPLETION, {"prompt": ids, "return_prompt_text": True})[0]["prompt_text"] == "a"
