"""`/v1/messages` requests as chat requests. What vLLM makes of them is recorded in golden/."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from golden.models import model_path
from renderd.model import ModelConfig, load_model
from renderd.render import Renderer, RenderOptions
from renderd.wire.errors import ApiError

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "Hi"}
BASE: Json = {"model": "m", "max_tokens": 20, "messages": [USER]}
PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
LEADING = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('no') }}"
    "{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}"
)


def renderer(template: str, effort: str = "auto", **config: Any) -> Renderer:
    model = load_model(
        ModelConfig(
            str(model_path("qwen3")),
            max_model_len=4096,
            served_model_name=["m"],
            chat_template=template,
            **config,
        )
    )
    return Renderer(model, None, RenderOptions(anthropic_disabled_thinking_effort=effort))


def rendered(template: str, effort: str = "auto", /, **fields: Any) -> Json:
    answer: Json = json.loads(renderer(template, effort).messages(json.dumps(BASE | fields).encode(), None))
    return answer


def text(template: str, **fields: Any) -> str:
    """The prompt."""
    api = renderer(template)
    ids = json.loads(api.messages(json.dumps(BASE | fields).encode(), None))["token_ids"]
    return str(json.loads(api.detokenize(json.dumps({"tokens": ids}).encode()))["prompt"])


SYSTEM: Json = {"role": "system", "content": "Be brief."}


def test_system_messages_stay_where_they_are_unless_the_template_refuses() -> None:
    asked = {"system": "Top.", "messages": [USER, SYSTEM, USER]}
    assert text(PLAIN, **asked) == "[system]Top.[user]Hi[system]Be brief.[user]Hi"
    assert text(LEADING, **asked) == "[system]Top.Be brief.[user]Hi[user]Hi"
    assert text(LEADING, messages=[USER, SYSTEM]) == "[system]Be brief.[user]Hi"


@pytest.mark.parametrize(
    ("needed", "printed"),
    [
        ("{{ eos_token + '' }}", "<|im_end|>"),
        ("{% generation %}x{% endgeneration %}", "x"),
        ("{{ strftime_now('x') }}", "x"),
        ("{{ [1] | tojson(ensure_ascii=False) }}", "[1]"),
    ],
)
def test_a_template_that_needs_more_than_jinja_counts_as_one_that_refuses(needed: str, printed: str) -> None:
    assert text(needed + PLAIN, messages=[USER, SYSTEM]) == printed + "[system]Be brief.[user]Hi"


@pytest.mark.parametrize(
    ("template", "effort"),
    [
        ("{{ reasoning_effort }}" + PLAIN, "none"),
        ("{{ enable_thinking }}" + PLAIN, "none"),
        (PLAIN, "low"),
        ("{% if reasoning_effort == 'none' %}{{ raise_exception('no') }}{% endif %}" + PLAIN, "low"),
        ("{{ 'x' if reasoning_effort in ('none', 'max') else 'y' }}" + PLAIN, "low"),
    ],
)
def test_how_thinking_is_disabled_is_found_out(template: str, effort: str) -> None:
    answer = rendered(template, thinking={"type": "disabled"})
    assert answer["parse_context"]["chat_template_kwargs"]["reasoning_effort"] == effort


def test_how_thinking_is_disabled_may_be_told() -> None:
    asked = {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}}
    answer = rendered(PLAIN, "xhigh", **asked)
    assert answer["parse_context"]["chat_template_kwargs"]["reasoning_effort"] == "xhigh"


def test_a_call_without_an_id_gets_one_of_the_time() -> None:
    ids = "{% for m in messages %}{% for call in m.tool_calls or [] %}{{ call.id }}{% endfor %}{% endfor %}"
    use = {"type": "tool_use", "name": "ping", "input": {}}
    before = int(time.time())
    prompt = text(ids, messages=[USER, {"role": "assistant", "content": [use]}])
    assert before <= int(prompt.removeprefix("call_")) <= time.time()


def test_results_come_before_what_the_user_says() -> None:
    content = [
        {"type": "text", "text": "So?"},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "Sun"}]},
    ]
    assert text(PLAIN, messages=[USER, {"role": "user", "content": content}]) == "[user]Hi[tool]Sun[user]So?"


def test_a_result_refers_to_tools_that_have_a_name() -> None:
    def prompt(*references: Json) -> str:
        parts = [{"type": "tool_reference", **one} for one in references]
        result = {"type": "tool_result", "tool_use_id": "t", "content": parts}
        return text(PLAIN, messages=[{"role": "user", "content": [result]}])

    assert prompt({}, {"tool_name": ""}, {"tool_name": None}) == "[tool]"
    assert prompt({"name": "n"}) == prompt({"tool_name": "n", "name": "m"}) == "[tool][tool]n"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "text", "text": 5}, "sequence item 0: expected str instance, int found"),
        ({"type": "image", "source": 5}, "The source of an image should be an object."),
    ],
)
def test_a_result_that_holds_no_text_is_refused(part: Json, message: str) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [part]}
    with pytest.raises(ApiError) as raised:
        rendered(PLAIN, messages=[{"role": "user", "content": [result]}])
    assert (raised.value.type, raised.value.message) == ("BadRequestError", message)


def test_refusals_name_the_place() -> None:
    for fields, place in (
        ({"max_tokens": 0}, "body.max_tokens"),
        ({"messages": [{"role": "tool", "content": ""}]}, "body.messages.0.role"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "body.thinking.enabled.budget_tokens"),
        ({"tool_choice": {"type": "tool"}}, "body.tool_choice"),
        ({"system": [{"type": "tool_removal"}]}, "body.system.0"),
    ):
        with pytest.raises(ApiError) as raised:
            rendered(PLAIN, **fields)
        assert (raised.value.status, raised.value.type, raised.value.param) == (400, "Bad Request", place)
