"""Templates by name: built-in ones, and those of a tokenizer that has several (contract C.3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golden.models import model_path
from renderd.model import ModelConfig, load_model
from renderd.model.templates import BUILT_IN
from renderd.render import Renderer, RenderOptions
from tests.render.support import HELLO

DATA = Path(__file__).parent / "data"
RECORDED: dict[str, Any] = json.loads((DATA / "built_in_templates.json").read_text(encoding="utf-8"))


def ids(model: str, request: Any, template: str) -> list[int]:
    loaded = load_model(ModelConfig(str(model_path(model)), max_model_len=4096, chat_template=template))
    answer = Renderer(loaded, None, RenderOptions()).chat(json.dumps(request).encode(), None)
    return list(json.loads(answer)["token_ids"])


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_templates_give_the_ids_of_vllm(name: str) -> None:
    for request, want in RECORDED[name]["cases"]:
        assert ids(RECORDED[name]["model"], request, name) == want, request


def test_templates_that_only_vllm_carries() -> None:
    with pytest.raises(ValueError, match=r"template_blip2\.jinja.* give the path"):
        ids("qwen3", HELLO, "template_blip2.jinja")
    with pytest.raises(ValueError, match="no such file"):
        ids("qwen3", HELLO, "template_chatml")
