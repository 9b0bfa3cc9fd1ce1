"""Templates by name: built-in ones, and those of a tokenizer that has several (contract C.3)."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from golden.models import model_path
from parsers import build
from renderd.model import ModelConfig, load_model
from renderd.model.templates import BUILT_IN
from renderd.render import Renderer, RenderOptions
from tests.render.support import GET, HELLO, Json

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


MESSAGES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
SEVERAL = {
    "default": f"D{MESSAGES}",
    "tool_use": f"T{{{{ (tools or [])|length }}}}{MESSAGES}",
    "rag": "R{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}",
}


@cache
def several(server_template: str | None = None) -> Renderer:
    """Of a tokenizer with three templates."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("tokenizer.json", "config.json"):
            shutil.copy(model_path("qwen3") / file, folder)
        config = json.loads((model_path("qwen3") / "tokenizer_config.json").read_text(encoding="utf-8"))
        config["chat_template"] = [{"name": name, "template": text} for name, text in SEVERAL.items()]
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        asked = ModelConfig(
            name, max_model_len=4096, trust_request_chat_template=True, chat_template=server_template
        )
        return Renderer(load_model(asked), build(None, "hermes"), RenderOptions())


def prompt(request: Json, server_template: str | None = None) -> str:
    body = json.dumps({**HELLO, "return_prompt_text": True, **request}).encode()
    return str(json.loads(several(server_template).chat(body, None))["prompt_text"])


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "D[user]Hello"),
        ({"tools": [GET]}, "T1[user]Hello"),
        ({"tools": [GET], "tool_choice": "none"}, "T1[user]Hello"),
        ({"tools": [GET], "chat_template": "default"}, "D[user]Hello"),
        ({"chat_template": "tool_use"}, "T0[user]Hello"),
        ({"chat_template": "rag"}, "R<Hello>"),
        ({"chat_template": "{{ messages[0].content }}!"}, "Hello!"),
        ({"chat_template": "nothing"}, "nothing"),
        ({"chat_template_kwargs": {"chat_template": "rag"}}, "R<Hello>"),
        ({"chat_template": ""}, "D[user]Hello"),
    ],
)
def test_a_tokenizer_with_several_templates(request_: Json, text: str) -> None:
    assert prompt(request_) == text


def test_the_server_chooses_one_by_name() -> None:
    assert prompt({}, "rag") == prompt({"tools": [GET]}, "rag") == "R<Hello>"
    assert prompt({"chat_template": "default"}, "rag") == "D[user]Hello"


def test_tokenizer_info_has_them_all_unless_the_server_has_its_own() -> None:
    shown = several().tokenizer_info()
    assert [entry["name"] for entry in shown["chat_template"]] == list(SEVERAL)
    assert shown["added_tokens_decoder"]["151645"] == "<|im_end|>"
    assert (shown["tokenizer_class"], shown["eos_token"]) == ("Qwen2Tokenizer", "<|im_end|>")
    assert several("rag").tokenizer_info()["chat_template"] == SEVERAL["rag"]
