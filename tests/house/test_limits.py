"""docs/limits.md says what the code does: flags and variables with their defaults, errors word for word, and
the parts of the fingerprint."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from renderd.server.config import ServerConfig
from renderd.server.flags import _parser
from renderd.server.startup import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def rows(text: str, before: str) -> list[list[str]]:
    """The cells of the table that comes behind some words, without its head."""
    lines = text.split(before, 1)[1].split("\n|", 1)[1].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


LIMITS = rows(PAGE, "# Limits")


def texts() -> list[str]:
    """Every text of the sources, with N for what is put in and for numbers."""
    found = []
    for path in [*(ROOT / "renderd").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "N" for part in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_errors() -> None:
    known = "\n".join(texts())
    for what, _, _, error in LIMITS:
        for said in re.findall(r"`([^`]+)`", error):
            assert said in known, what


def test_what_sets_them() -> None:
    helped = {
        action.option_strings[0]: action.help or "" for action in _parser()._actions if action.option_strings
    }
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "renderd").rglob("*.py")}
    for what, by, default, _ in LIMITS:
        name = by.strip("`")
        number = default.replace("64K", "65536")
        if name.startswith("--"):
            assert name in helped, what
            if number[0].isdigit() and " " not in number:
                assert f"({number})" in helped[name], what
        elif name.startswith("VLLM_"):
            lines = [line for text in sources.values() for line in text.splitlines() if name in line]
            if name != "VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT":
                assert any(re.search(rf"\b{default}\b", line) for line in lines), what


def test_every_limit_that_is_a_flag_is_listed() -> None:
    listed = {by.strip("`") for _, by, _, _ in LIMITS}
    flags = set(re.findall(r"^\| `(--max-[a-z-]+)", OPERATING, re.MULTILINE))
    assert flags <= listed


def test_parts_of_the_fingerprint() -> None:
    services, _ = load(ServerConfig())
    parts = rows(PAGE, "how a stream's state is read.")
    assert [name.strip("`") for name, _ in parts] == list(services.fingerprint_parts)
