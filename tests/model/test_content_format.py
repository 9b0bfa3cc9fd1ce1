"""Which templates want content as parts (contract C.1)."""

from __future__ import annotations

import pytest

from golden.models import model_path
from renderd.model import ModelConfig, load_model
from renderd.model.jinja import compile_template

LOOP = "{%% for m in %s %%}%s{%% endfor %%}"
PARTS = "{% for c in m.content %}{{ c.text }}{% endfor %}"


@pytest.mark.parametrize(
    "template",
    [
        LOOP % ("messages", PARTS),
        LOOP % ("messages", PARTS.replace("m.content", "m['content']")),
        LOOP % ("messages", PARTS.replace("m.content", "m.content | list")),
        LOOP % ("messages[1:]", PARTS),
        "{% set rest = messages[1:] %}" + LOOP % ("rest", PARTS),
        "{% set a = messages %}{% set b = a | list %}" + LOOP % ("b", PARTS),
        "{% set ns = namespace(rest=messages) %}" + LOOP % ("ns.rest", PARTS),
        "{% set ns = namespace() %}{% set ns.rest = messages[1:] %}" + LOOP % ("ns.rest", PARTS),
        LOOP % ("messages", "{% set content = m.content %}{% for c in content %}{% endfor %}"),
        "{% macro show(x) %}{% for c in x %}{% endfor %}{% endmacro %}"
        + LOOP % ("messages", "{{ show(m.content) }}"),
        "{% macro show(a, x) %}{% for c in x %}{% endfor %}{% endmacro %}"
        + LOOP % ("messages", "{{ show(1, x=m['content']) }}"),
    ],
)
def test_loops_over_content(template: str) -> None:
    assert compile_template(template).content_format == "openai"


@pytest.mark.parametrize(
    "template",
    [
        LOOP % ("messages", "{{ m.content }}"),
        LOOP % ("messages", "{{ m.content[0].text }}"),
        LOOP % ("messages", "{% set body = m.content %}{% for c in body %}{% endfor %}"),
        "{% for c in messages[0].content %}{% endfor %}",
        LOOP % ("others", PARTS),
        "{% macro show(content) %}{% for c in content %}{% endfor %}{% endmacro %}{{ show('x') }}",
        "{% set ns = namespace(c=none) %}"
        + LOOP % ("messages", "{% set ns.c = m.content %}{% for c in ns.c %}{% endfor %}"),
    ],
)
def test_content_as_text(template: str) -> None:
    assert compile_template(template).content_format == "string"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("qwen3", "string"), ("llama3_1", "string"), ("deepseek_v3", "string"), ("gemma3", "openai")],
)
def test_real_templates(name: str, expected: str) -> None:
    model = load_model(ModelConfig(str(model_path(name))))
    assert compile_template(model.templates.choose(None, False)).content_format == expected
