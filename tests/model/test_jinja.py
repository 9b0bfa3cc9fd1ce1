"""The Jinja dialect of chat templates (contract C.4)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from renderd.model.jinja import compile_template
from renderd.wire.errors import ApiError


def render(template: str, **variables: Any) -> str:
    return compile_template(template).render(variables)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('{{ [1.0, "é</", none, {"b": 1, "a": 2}] | tojson }}', '[1.0, "é</", null, {"b": 1, "a": 2}]'),
        ('{{ {"b": [1]} | tojson(indent=2) }}', '{\n  "b": [\n    1\n  ]\n}'),
        ('{{ {"b": 1, "a": "é"} | tojson(sort_keys=true, ensure_ascii=true) }}', '{"a": "\\u00e9", "b": 1}'),
        ('{{ {"b": [1, 2]} | tojson(separators=(",", ":")) }}', '{"b":[1,2]}'),
        ("a  \n   {% if true %}   \n  b\n{% endif %}\n c", "a  \n   \n  b\n c"),
        ("abc\n", "abc"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% for i in [1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "2"),
        ("{% generation %}a{% endgeneration %}b", "ab"),
        ("{{ missing }}{{ missing | length }}", "0"),
        ("{{ '<b>' }}", "<b>"),
        ("{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}", "2"),
    ],
)
def test_dialect(template: str, expected: str) -> None:
    assert render(template) == expected


def test_time() -> None:
    assert re.fullmatch(r"\d{4}-\d\d", render("{{ strftime_now('%Y-%m') }}"))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ('{{ raise_exception("no way") }}', "no way"),
        ("{{ raise_exception(5) }}", "5"),
        ("{{ x.y }}", "'x' is undefined"),
        ("{{ d.zz.yy }}", "'dict object' has no attribute 'zz'"),
        ("{% for", "unexpected 'end of template'"),
        ("{{ a b }}", "expected token 'end of print statement', got 'b'"),
        ("{{ a | nofilter }}", "No filter named 'nofilter'."),
        ("{% do [] %}", "Encountered unknown tag 'do'."),
        ("{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe."),
        ("{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% include 'x' %}", "no loader for this environment specified"),
        (
            "{{ range(1000000) | list }}",
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).",
        ),
        ("{{ 10 ** 100000 }}", None),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", None),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", None),
    ],
)
def test_refusals(template: str, message: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        render(template, d={})
    assert (caught.value.status, caught.value.type, caught.value.param) == (400, "BadRequestError", None)
    assert message is None or caught.value.message == message


def test_sandbox_hides_the_interpreter() -> None:
    assert render("{{ ().__class__ }}") == ""


def test_compiled_once() -> None:
    assert compile_template("{{ a }}") is compile_template("{{ a }}")


def test_variables() -> None:
    assert compile_template("{% set x = 1 %}{{ x }}{{ y.z }}").variables == {"y"}
