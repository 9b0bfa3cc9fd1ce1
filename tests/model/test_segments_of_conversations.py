"""Conversations that share their beginnings get the ids of the uncached encoding, whatever is in them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import models
from renderd.model import Model, ModelConfig, load_model
from renderd.model.jinja import CompiledTemplate, compile_template
from renderd.model.segments import LEAST, Encoder

MODELS = ["qwen3", "deepseek_v3", "gemma3", "gptoss", "llama3_1"]


HARMONY = (
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "<|start|>assistant"
)
"""gpt-oss brings no template."""


@cache
def loaded(name: str) -> tuple[Model, CompiledTemplate]:
    model = load_model(ModelConfig(model=str(models.fetch(name))))
    return model, compile_template(model.templates.default or HARMONY)


def encoder(model: Model, max_bytes: int, least: int) -> Encoder:
    """A new cache around the encoder that a server has, anchors and all."""
    own = model.tokenizer.encoder
    return Encoder(own.encode_text, own.anchors, max_bytes, least)


@st.composite
def contents(draw: st.DrawFn, model: Model) -> str:
    """Prose, code, other scripts, blanks and the text of special tokens, whole and cut."""
    added = model.tokenizer.added_tokens
    token = st.sampled_from(added[:40] + added[-40:])
    piece = st.one_of(
        token,
        st.builds(lambda text, end: text[:end], token, st.integers(1, 8)),
        st.builds(
            lambda text, times: text * times,
            st.sampled_from(["it's ", "12 ", "\n", "é", " "]),
            st.integers(1, 90),
        ),
        st.sampled_from(
            ["don'T", "\r\n", "\t ", "😀", "<|im", "|>", "ﬁ", "def f(x):\n    return {", "今日は", "٣٤"]
        ),
        st.text(max_size=8),
    )
    return "".join(draw(st.lists(piece, max_size=8)))


@st.composite
def prompts(draw: st.DrawFn, name: str) -> list[str]:
    """The prompts of a few conversations, turn by turn: some go on, some go back and answer otherwise."""
    model, template = loaded(name)
    system = [{"role": "system", "content": draw(contents(model))}]
    histories: list[list[dict[str, Any]]] = [system]
    texts = []
    for _ in range(draw(st.integers(1, 6))):
        history = draw(st.sampled_from(histories))
        turn = {"role": "user", "content": draw(contents(model)) or "?"}
        asked = [*history, turn]
        variables = {
            **model.tokenizer.special_tokens,
            "messages": asked,
            "tools": None,
            "add_generation_prompt": True,
        }
        texts.append(template.render(variables))
        histories.append([*asked, {"role": "assistant", "content": draw(contents(model))}])
    return texts


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_conversations_have_the_ids_of_the_uncached_encoding(name: str, data: st.DataObject) -> None:
    model, _ = loaded(name)
    assert model.tokenizer.encoder.anchors
    texts = data.draw(prompts(name))
    sizes = st.sampled_from([2000, 20_000, 10**7])
    cached = encoder(model, data.draw(sizes), data.draw(st.sampled_from([0, 20, LEAST])))
    for text in (*texts, *texts):
        ids = cached.encode(text)
        assert ids == model.tokenizer.encode_whole(text)
        assert [*reversed(ids)] == ids[::-1]
        assert 0 <= cached.cached_bytes <= cached.max_bytes


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_threads_share_a_cache(name: str, data: st.DataObject) -> None:
    model, _ = loaded(name)
    texts = data.draw(prompts(name))
    wanted = [model.tokenizer.encode_whole(text) for text in texts]
    cached = encoder(model, data.draw(st.sampled_from([3000, 10**7])), 20)
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(cached.encode, texts * 20)]
    assert all(ids == own for ids, own in zip(answers, wanted * 20, strict=True))
    assert cached.cached_bytes == sum(segment.size for segment in cached._cache.values()) <= cached.max_bytes
    assert cached.hits + cached.misses >= len(answers)
