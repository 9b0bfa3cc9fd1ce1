"""What stops where everything else waits for it."""

from __future__ import annotations

import pytest

from renderd.model.foreign import foreign_template
from renderd.model.hurry import TakesLongError, hurried
from renderd.model.jinja import compile_template
from renderd.model.segments import Encoder

LOOP = "{% for i in range(n) %}{{ i }}{% endfor %}"


def test_a_template_that_runs_long() -> None:
    template = compile_template(LOOP)
    with hurried:
        assert template.render({"n": 10}) == "0123456789"
        with pytest.raises(TakesLongError):
            template.render({"n": 10_000})
    assert template.render({"n": 10_000}).endswith("9999")


def test_a_template_in_a_process_of_its_own() -> None:
    with hurried, pytest.raises(TakesLongError):
        foreign_template("{{ 1 }}").render({})


def test_much_text_that_is_new() -> None:
    encoder = Encoder(lambda text: [len(text)], ["<|>"], least=0)
    encoder.brief_chars = 10
    long, new = "a" * 9 + "<|>" + "b" * 20, "d" * 3 + "<|>" + "e" * 6
    assert list(encoder.encode(long + "<|>")) == [12, 23]
    with hurried:
        assert list(encoder.encode(long + "<|>")) == [12, 23], "it is remembered"
        assert list(encoder.encode("c" * 10)) == [10]
        with pytest.raises(TakesLongError):
            encoder.encode(new)
    assert list(encoder.encode(new)) == [6, 6]
