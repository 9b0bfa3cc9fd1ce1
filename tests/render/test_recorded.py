"""What vLLM answered to single requests, renderd answers too."""

from __future__ import annotations

import json

import pytest

from parsers import build
from renderd.render import Renderer, RenderOptions
from tests.render.support import HELLO, Json, model, post, recorded, refusal


@pytest.mark.parametrize("server", ["plain", "parsers"])
def test_refusals(server: str) -> None:
    differences = []
    for case in recorded("refusals.jsonl"):
        if case["server"] != server:
            continue
        error = refusal(case["path"], case["request"], server)
        param: str | None = error.param
        message: str | None = error.message
        if case["type"] == "Bad Request":
            param, message = ".".join((param or "").split(".")[:2]), case.get("message")
        else:
            message = error.message.split("Final message to")[0]
        if (error.type, param, message) != (case["type"], case["param"], case.get("message")):
            differences.append((case, error.type, param, error.message))
    assert differences == []


def test_sampling_params() -> None:
    """Values, presence and order of the keys; max_tokens is written even where vLLM leaves its default of
    16 out."""
    for case in recorded("sampling.jsonl"):
        answer = post(case["path"], case["request"], "plain")
        got = (answer[0] if isinstance(answer, list) else answer)["sampling_params"]
        want = case["sampling_params"]
        if "max_tokens" not in want:
            assert got.pop("max_tokens") == 16
        assert got == want, case["request"]
        assert list(got) == list(want), case["request"]


@pytest.mark.parametrize("tools", ["hermes", "llama3_json", "deepseek_v3", "deepseek_v31", "qwen3_coder"])
def test_structural_tags(tools: str) -> None:
    """Byte for byte: the tag travels as a string."""
    cases = [case for case in recorded("tags.jsonl") if case["tools"] == tools]
    assert len(cases) > 10
    for case in cases:
        reasoning = "qwen3" if tools in ("hermes", "qwen3_coder") else None
        options = RenderOptions(tool_strict_level=case["level"])
        api = Renderer(model(), build(reasoning, tools), options)
        answer: Json = json.loads(api.chat(json.dumps({**HELLO, **case["request"]}).encode(), None))
        params = answer["sampling_params"]
        assert params.get("skip_special_tokens", True) == case["skip_special_tokens"], case["request"]
        outputs = params.get("structured_outputs")
        assert (outputs and outputs["structural_tag"]) == case["structural_tag"], case["request"]
