"""The chat templates of many real models, over twelve conversations each: vLLM's ids or vLLM's refusal."""

from __future__ import annotations

import datetime as clock
import json

import pytest

from golden import foreign_templates as foreign
from golden.cases import Json
from golden.models import model_path
from parsers import build
from renderd.model import ModelConfig, jinja, load_model
from renderd.render import Renderer, RenderOptions
from renderd.wire.errors import ApiError

ASKED_ON, ANSWERS = foreign.answers()


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    config = ModelConfig(
        str(model_path(foreign.TOKENIZER)),
        max_model_len=16384,
        trust_request_chat_template=True,
        served_model_name=["qwen3"],
    )
    return Renderer(load_model(config), build("qwen3", "hermes"), RenderOptions())


def test_every_conversation_was_asked_with_every_template() -> None:
    names = [conversation["name"] for conversation in foreign.conversations()]
    assert len(names) == len(set(names)) == 12
    templates = {template for template, _ in ANSWERS}
    assert len(templates) == 70
    assert ANSWERS.keys() == {(template, name) for template in templates for name in names}


@pytest.mark.parametrize("name", sorted({template for template, _ in ANSWERS}))
def test_template(renderer: Renderer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    templates = foreign.templates()
    if not templates:
        pytest.skip("run `python -m golden.foreign_templates`")
    monkeypatch.setattr(jinja, "datetime", Then)
    differing = []
    for conversation in foreign.conversations():
        want = {k: v for k, v in ANSWERS[name, conversation["name"]].items() if k in KEPT}
        got = ask(renderer, foreign.request_of(conversation, templates[name]))
        if got != want:
            differing.append((conversation["name"], want, got))
    assert not differing


KEPT = ("count", "digest", "status", "message")


class Then(clock.datetime):
    """The day on which vLLM was asked."""

    @classmethod
    def now(cls, tz: clock.tzinfo | None = None) -> Then:
        return cls(ASKED_ON.year, ASKED_ON.month, ASKED_ON.day, tzinfo=tz)


def ask(renderer: Renderer, request: Json) -> Json:
    try:
        answer = renderer.chat(json.dumps(request).encode(), None)
    except ApiError as error:
        return foreign.compact(error.status, json.loads(error.body()))
    return foreign.compact(200, json.loads(answer))
