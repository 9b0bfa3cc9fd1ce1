"""What each tool parser makes of a tool choice, as vLLM 0.33.0 was recorded (contract B.4.3, B.4.4)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from parsers import ModelFacts, build, reasoning_parser_names, tool_parser_names
from parsers.tags import StrictLevel
from renderd.render import Renderer, RenderOptions
from renderd.wire.errors import ApiError
from tests.render.support import HELLO, Json, model, recorded

RECORDED: Json = json.loads((Path(__file__).parent / "data" / "choices.json").read_text(encoding="utf-8"))


FACTS = ModelFacts(
    is_token=lambda text: True,
    tokenizer_config={
        "response_template": {
            "start_anchor": "<|im_start|>assistant\n",
            "fields": {
                "thinking": {"open": "<think>", "close": "</think>"},
                "content": {},
                "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "content": "json"},
            },
        }
    },
)


@cache
def renderer(reasoning: str | None, tools: str, level: StrictLevel | None) -> Renderer:
    return Renderer(model(), build(reasoning, tools), RenderOptions(tool_strict_level=level))


_BESIDE = {"kimi_k3": "kimi_k3", "openai": "openai_gptoss"}
"""The reasoning parser that a framing demands."""


def rendered(case: str, tools: str) -> Json:
    """sampling_params. With tool choice "none" a tool parser is asked only beside a reasoning parser."""
    name, _, level = case.partition(" at ")
    assert level in ("", *get_args(StrictLevel))
    reasoning = _BESIDE.get(tools, "deepseek_r1") if name == "none" else None
    api = renderer(reasoning, tools, cast(StrictLevel, level) if level else None)
    answer = json.loads(api.chat(json.dumps({**HELLO, **RECORDED["requests"][name]}).encode(), None))
    return dict(answer["sampling_params"])


def expected(case: str, answer: int | None) -> Json | None:
    """The constraint that is set; the user's own where the parser left it alone."""
    if answer is not None:
        return dict(RECORDED["answers"][answer])
    form = RECORDED["requests"][case.partition(" at ")[0]].get("response_format")
    return {"json": form["json_schema"]["schema"]} if form else None


def constraint(params: Json) -> Json | None:
    outputs: dict[str, Any] | None = params.get("structured_outputs")
    if outputs is None:
        return None
    given = {key: value for key, value in outputs.items() if value not in (None, False)}
    if "structural_tag" in given:
        given["structural_tag"] = json.loads(given["structural_tag"])
    return given


@pytest.mark.parametrize("tools", sorted(set(RECORDED["parsers"]) & set(tool_parser_names())))
def test_choices(tools: str) -> None:
    want = RECORDED["parsers"][tools]
    for case, answer in want["answers"].items():
        params = rendered(case, tools)
        got, recorded = constraint(params), expected(case, answer)
        assert json.dumps(got) == json.dumps(recorded), f"{tools}: {case}"
        keeps = want["keeps_special_tokens"]
        kept = keeps == "always" or (keeps == "with tools" and case != "none")
        assert params.get("skip_special_tokens", True) is not kept, f"{tools}: {case}"
        spaces = params.get("spaces_between_special_tokens", True)
        assert spaces is want["spaces_between_special_tokens"], f"{tools}: {case}"


CONSTRAINTS = list(recorded("constraints.jsonl"))
PAIRS = sorted({(case["reasoning"] or "", case["tools"] or "") for case in CONSTRAINTS})
KNOWN = ({"", *reasoning_parser_names()}, {"", *tool_parser_names()})


@pytest.mark.parametrize(
    ("reasoning", "tools"), [pair for pair in PAIRS if pair[0] in KNOWN[0] and pair[1] in KNOWN[1]]
)
def test_constraints(reasoning: str, tools: str) -> None:
    """Schemas of every kind, what users ask for beside tools, and what is refused."""
    for case in CONSTRAINTS:
        if (case["reasoning"] or "", case["tools"] or "") != (reasoning, tools):
            continue
        family = build(case["reasoning"], case["tools"], FACTS, case.get("enforced", True))
        api = Renderer(model(), family, RenderOptions())
        body = json.dumps({**HELLO, **case["request"]}).encode()
        try:
            params = json.loads(api.chat(body, None))["sampling_params"]
        except ApiError as error:
            got: Json = {"message": error.message, "type": error.type, "param": error.param}
            assert got == case.get("error"), case["request"]
            continue
        assert json.dumps(constraint(params)) == json.dumps(case.get("constraint")), case["request"]
        for flag in ("skip_special_tokens", "spaces_between_special_tokens"):
            assert params.get(flag, True) is case[flag], case["request"]


SPECIAL: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "data" / "special_tokens.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", sorted(SPECIAL["tools"].keys() & tool_parser_names()))
def test_special_tokens_of_tool_parsers(name: str) -> None:
    keeps, family = SPECIAL["tools"][name], build(tools=name, model=FACTS)
    assert family.tools is not None
    assert family.tools.needs_special_tokens == keeps
    assert family.skip_special_tokens(True, "auto") is (None if keeps == "never" else False)
    assert family.skip_special_tokens(True, "none") is None


@pytest.mark.parametrize("name", sorted(SPECIAL["reasoning"].keys() & reasoning_parser_names()))
def test_special_tokens_of_reasoning_parsers(name: str) -> None:
    keeps = SPECIAL["reasoning"][name] == "always"
    assert build(reasoning=name, model=FACTS).skip_special_tokens(False, None) is (False if keeps else None)
