"""docs/migrating.md names every flag, route and environment variable, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from renderd.server.flags import _parser
from renderd.server.routes import GETS, POSTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
FLAG = re.compile(r"`(--[a-z][\w-]*)`")
INVERSES = ("--no-", "--enable-", "--disable-")


def section(title: str) -> str:
    """What stands under a heading, up to the next of any level."""
    return re.split(r"\n##+ ", PAGE.split(f"# {title}\n", 1)[1])[0]


def named(text: str) -> set[str]:
    """The flags that the first column of a table lists, and prose below it."""
    cells = (line.split("|")[1] if line.startswith("|") else line for line in text.splitlines())
    return {flag for cell in cells for flag in FLAG.findall(cell)}


def spelled(ignored: bool) -> set[str]:
    """The first long name of each flag of the command line."""
    actions = [action for action in _parser()._actions if action.option_strings and action.dest != "help"]
    return {
        next(name for name in action.option_strings if name.startswith("--"))
        for action in actions
        if (action.dest == "ignored") is ignored
    }


def test_every_flag_that_has_an_effect_is_explained() -> None:
    assert named(section("Flags")) == spelled(ignored=False)


def test_every_flag_without_effect_is_listed() -> None:
    assert named(section("Accepted without effect")) == spelled(ignored=True)


def test_every_route_is_listed() -> None:
    listed = set(re.findall(r"`(/[\w/.]*)`", section("Routes")))
    assert {route.path for route in (*POSTS, *GETS)} <= listed
    assert all("404" in line for line in section("Routes").splitlines() if "/invocations" in line)


def test_every_environment_variable_is_listed() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "renderd").rglob("*.py"))
    read = {name for text in sources for name in re.findall(r"[\"'](VLLM_[A-Z_]+)[\"']", text)}
    assert read == set(re.findall(r"`(VLLM_[A-Z_]+)`", section("Environment variables")))
