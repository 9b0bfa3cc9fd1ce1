"""docs/vllm-0.32-to-0.33.md says what the recordings say, and has a sentence for every kind of change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from renderd.conformance.cases import Golden, carried
from renderd.conformance.diff import Comparison

PAGE = (Path(__file__).parents[2] / "docs/vllm-0.32-to-0.33.md").read_text(encoding="utf-8")
TABLE = PAGE.index("| Where |")


@pytest.fixture(scope="module")
def compared() -> Comparison:
    before, after = (Golden(carried(), name) for name in ("vllm-0.32.0", "vllm-0.33.0"))
    return Comparison(before, after, list(before.servers))


def test_the_table_is_what_the_recordings_say(compared: Comparison) -> None:
    command = "renderd conformance diff vllm-0.32.0 vllm-0.33.0 --markdown"
    assert f"    {command}\n" in PAGE
    assert PAGE[TABLE:].strip() == compared.markdown(), f"docs/vllm-0.32-to-0.33.md: run {command}"


def test_every_place_that_changed_is_explained(compared: Comparison) -> None:
    prefixes = re.compile(r"^(chunk|\[\]|\.)+")
    places = {prefixes.sub("", count.kind.place) for count in compared.counts}
    assert sorted(place for place in places if f"`{place}`" not in PAGE[:TABLE]) == []
