"""SECURITY.md and the pages of deployment: what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from renderd.server.flags import _parser

ROOT = Path(__file__).parents[2]
PAGES = ["SECURITY.md", "deploy/README.md", "docs/orchestrators.md"]
OTHERS = {"--tokens-only", "--block-size", "--read-only", "--tmpfs", "--build-arg", "--from-literal"}
"""Flags of vLLM's engine, Docker and kubectl."""

pages = pytest.mark.parametrize("page", PAGES)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pages
def test_flags(page: str) -> None:
    known = {name for action in _parser()._actions for name in action.option_strings}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text(page))) - OTHERS
    assert named - {"--upgrade"} <= known


@pages
def test_links(page: str) -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", text(page))
    assert linked
    assert [path for path in linked if not ((ROOT / page).parent / path).exists()] == []


@pages
def test_environment_variables(page: str) -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "renderd").rglob("*.py"))
    read = {name for source in sources for name in re.findall(r"VLLM_[A-Z_]+", source)}
    assert set(re.findall(r"VLLM_[A-Z_]+", text(page))) <= read


@pages
def test_defaults(page: str) -> None:
    """A default in brackets behind a flag is the one that its help has."""
    helped = " ".join(_parser().format_help().split())
    for flag, default in re.findall(r"`(--max-[a-z-]+)` \((\w+)\)", text(page)):
        said = re.search(rf"{flag} [NS] [^()]*\((\w+)\)", helped)
        assert said, flag
        assert said[1] in (default, {"64K": "65536"}.get(default)), flag
