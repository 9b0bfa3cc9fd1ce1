"""Templates that would never end or fill the memory are refused; their thread goes on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from renderd.model import sandbox
from renderd.model.jinja import compile_template
from renderd.wire.errors import ApiError

TOO_LONG = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(99999) if (range(99999)|list|length) == 1 %}{% endfor %}",
    "{% for a in range(99999) recursive %}{% if loop.depth < 4 %}{{ loop(range(99999)) }}{% endif %}"
    "{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
]
TOO_LARGE = [
    "{{ 'a' * 10**10 }}",
    "{{ [0] * 10**10 }}",
    "{{ 10**10 * 'a' }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 'a'|center(9999999999) }}",
    "{{ 'a'.ljust(9999999999) }}",
    "{{ '%9999999999s' % 'a' }}",
    "{{ '%*s' % (9999999999, 'a') }}",
    "{{ '{:9999999999}'.format('a') }}",
    "{{ '{:{}}'.format('a', 9999999999) }}",
    "{{ '%9999999999s'|format('a') }}",
    "{% set a = 'a' * 1000000 %}{{ a|replace('a', a) }}",
    "{% set a = 'a' * 1000000 %}{{ a.replace('a', a) }}",
    "{% set a = 'a' * 1000000 %}{{ a.join(range(9999)|list) }}",
    "{% set a = 'a' * 1000000 %}{{ range(9999)|join(a) }}",
    "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set y %}{{ n.x }}{{ n.x }}{% endset %}"
    "{% set n.x = y %}{% endfor %}",
    "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = n.l + ['a' * 9999999] %}"
    "{% endfor %}",
    "{{ range(99999)|map('center', 999999)|list|length }}",
    "{% for a in range(99999) %}{{ 'a' * 999999 }}{% endfor %}",
]


def refusal(source: str) -> str:
    with pytest.raises(ApiError) as caught:
        compile_template(source).render({})
    assert caught.value.status == 400
    return caught.value.message


@pytest.mark.parametrize("source", TOO_LONG)
def test_what_does_not_end(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT", "0.2")
    begun = time.thread_time()
    assert refusal(source) == "Rendering the chat template takes too long."
    assert time.thread_time() - begun < 5


def test_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "FREE_STEPS", 1000)
    assert refusal(TOO_LONG[0]) == "Rendering the chat template takes too long."
    assert compile_template("{% for i in range(99) %}{{ i }}{% endfor %}").render({})


def test_long_conversations_may_take_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "FREE_STEPS", 10)
    twice = "{% for m in messages %}{% for n in range(100) %}{% endfor %}{% endfor %}x"
    assert compile_template(twice).render({"messages": [{}] * 100}) == "x"
    monkeypatch.setattr(sandbox, "STEPS_PER_MESSAGE", 50)
    with pytest.raises(ApiError):
        compile_template(twice).render({"messages": [{}] * 100})


@pytest.mark.parametrize("source", TOO_LARGE)
def test_what_grows(source: str) -> None:
    begun = time.thread_time()
    assert refusal(source) == "The chat template makes values that are too large."
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ 1 ~ none ~ [2] ~ 'x' }}", "1None[2]x"),
        ("{{ 'ab' * 3 ~ 2 * 3 ~ 2 ** 5 ~ 7 % 4 }}", "ababab6323"),
        ("{{ '%05.1f|%s' % (2.5, 'ü') }}", "002.5|ü"),
        ("{{ 'a'.join(['x', 'y']) }}{{ 'abc'.replace('b', 'z') }}{{ 'abc'|replace('b', 'q') }}", "xayazcaqc"),
        ("{{ ['a', 1]|join('-') }}{{ 'a\nb'|indent(2) }}{{ 'x'|center(3) }}", "a-1a\n  b x "),
        (
            "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% else %}e{% endfor %}",
            "1False32False33True3",
        ),
        ("{% for x in [] %}{% else %}e{% endfor %}{{ none }}{{ undefined_name }}", "eNone"),
        ("{{ [1] + [2] }}{{ (1,) + (2,) }}{{ 'a' + 'b' }}{{ 1 + 2.5 }}", "[1, 2](1, 2)ab3.5"),
    ],
)
def test_what_is_right_stays_as_it_is(source: str, text: Any) -> None:
    assert compile_template(source).render({}) == text
