"""What README.md and CONTRIBUTING.md name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import parsers

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def column(name: str) -> set[str]:
    """The names in backticks in one column of the table of parsers."""
    rows = README.split("## Parsers", 1)[1].split("\n\n")[1].splitlines()
    index = next(i for i, cell in enumerate(rows[0].split("|")) if name in cell)
    return {found for row in rows[2:] for found in re.findall(r"`([\w-]+)`", row.split("|")[index])}


def test_parsers() -> None:
    assert column("--reasoning-parser") == set(parsers.reasoning_parser_names())
    assert column("--tool-call-parser") == set(parsers.tool_parser_names())


def test_flags() -> None:
    commands = [["serve"], ["engine"], ["conformance"], ["parsers"]]
    helped = "".join(
        subprocess.run(
            [sys.executable, "-m", "renderd", *command, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for command in commands
    )
    others = {
        "--json",
        "--tokens-only",
        "--enable-scale-out",
        "--slurpfile",
        "--argjson",
        "--flags",
    }  # of curl, vLLM, jq; a placeholder
    named = {flag.rstrip("-") for flag in re.findall(r"--[a-z][a-z-]*", README)} - others
    assert {flag for flag in named if flag not in helped} == set()


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_files(text: str) -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    quoted = re.findall(r"`((?:renderd|parsers|golden|tests)/[\w./]*)`", text)
    missing = [path for path in {*linked, *quoted} if "NAME" not in path and not (ROOT / path).exists()]
    assert not missing


def test_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", README + CONTRIBUTING):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
