"""Imports between the rooms of the house run one way only (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ROOMS: dict[str, set[str]] = {
    "parsers": set(),
    "renderd.wire": set(),
    "renderd.model": {"renderd.wire"},
    "renderd.render": {"renderd.model", "renderd.wire", "parsers"},
    "renderd.derender": {"renderd.model", "renderd.wire", "parsers"},
    "renderd.engine": {"renderd.model", "renderd.wire"},
    "renderd.gateway": {
        "renderd.engine",
        "renderd.render",
        "renderd.derender",
        "renderd.model",
        "renderd.wire",
        "parsers",
    },
    "renderd.client": {"renderd.engine"},
    "renderd.conformance": {"renderd.wire", "parsers"},
    "renderd.demo": {"renderd.engine", "renderd.conformance", "renderd.wire"},
    "renderd.server": {
        "renderd.gateway",
        "renderd.engine",
        "renderd.render",
        "renderd.derender",
        "renderd.model",
        "renderd.wire",
        "renderd.demo",
        "parsers",
    },
}
"""What each room may import beside itself."""


def rooms() -> set[str]:
    inner = {f"renderd.{path.parent.name}" for path in (ROOT / "renderd").glob("*/__init__.py")}
    return {"parsers"} | inner


def imported(path: Path, package: str) -> Iterator[str]:
    """Absolute names of what a file imports. `from a import b` gives a.b: b may be a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    """The room that a module lives in; None for the outside world and for `renderd` itself."""
    parts = module.split(".")
    if parts[0] == "parsers":
        return "parsers"
    if parts[0] not in ("renderd", "golden", "tests") or module in ("renderd", "renderd.__version__"):
        return None
    if parts[1] == "telemetry":  # every room notes what it does; a test below says that it needs none of them
        return None
    return ".".join(parts[:2])


def test_every_room_is_listed() -> None:
    assert rooms() == set(ROOMS)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_imports(room: str) -> None:
    wrong = []
    for path in sorted((ROOT / room.replace(".", "/")).rglob("*.py")):
        package = ".".join(path.relative_to(ROOT).parent.parts)
        for module in imported(path, package):
            target = room_of(module)
            if target not in {None, room, *ROOMS[room]}:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_telemetry_needs_no_room() -> None:
    modules = imported(ROOT / "renderd" / "telemetry.py", "renderd")
    assert not [module for module in modules if module.split(".")[0] in ("renderd", "parsers")]


def test_no_circle() -> None:
    left = {room: set(targets) for room, targets in ROOMS.items()}
    while left:
        free = [room for room, targets in left.items() if not targets & set(left)]
        assert free, f"a circle among {sorted(left)}"
        for room in free:
            del left[room]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import renderd.wire.errors", ["renderd.wire.errors"]),
        ("from renderd.wire import errors", ["renderd.wire.errors"]),
        ("from .. import model", ["renderd.model"]),
        ("from .script import x", ["renderd.engine.script.x"]),
        ("def f():\n    import parsers", ["parsers"]),
    ],
)
def test_imports_are_seen(tmp_path: Path, source: str, found: list[str]) -> None:
    file = tmp_path / "module.py"
    file.write_text(source)
    assert list(imported(file, "renderd.engine")) == found
