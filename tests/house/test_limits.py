"""docs/limits.md says what the code does: flags and variables with their defaults, the parts of the
fingerprint, errors word for word, and of those of some kinds every one that the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
TABLES = [LIMITS, rows(PAGE, "## Errors of a server"), rows(PAGE, "## Errors of states")]
DOCUMENTED = {said for table in TABLES for row in table for said in re.findall(r"`([^`]+)`", row[-1])}
"""What the tables quote of errors."""

STATUSES = {408, 413, 431, 502, 503, 504}
"""Those of which every error is documented, and those of states."""
OF_STATUSES = {"overloaded", "too_late"}
"""Functions whose errors have one of them, and whose first argument is the message."""
SCRIPTED = ROOT / "renderd" / "engine" / "faults.py"
"""Errors of the engine that tests ask."""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """The sources."""
    for path in (ROOT / "renderd").rglob("*.py"):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def text(node: ast.AST) -> str | None:
    """A text, with N for what is put in; None for whatever is none."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "N" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts() -> list[str]:
    """Every text of the sources."""
    found = (text(node) for _, tree in trees() for node in ast.walk(tree))
    return [said for said in found if said is not None]


def said_by(node: ast.expr, function: ast.AST) -> list[str]:
    """The texts that an argument may be: itself, or what its function sets a variable to."""
    nodes = [node]
    if isinstance(node, ast.Name):
        nodes = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == node.id for target in one.targets)
        ]
    parts = [
        part for one in nodes for part in ((one.body, one.orelse) if isinstance(one, ast.IfExp) else (one,))
    ]
    return [said for part in parts if (said := text(part)) is not None]


def errors_of_statuses() -> set[str]:
    """Messages of calls that have a status of STATUSES as their first argument, then a type or none, then the
    message; and of OF_STATUSES."""
    found = set()
    for path, tree in trees():
        if path == SCRIPTED:
            continue
        functions = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for function in functions:
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                name = call.func.id if isinstance(call.func, ast.Name) else ""
                first = call.args[0] if call.args else None
                if name in OF_STATUSES and call.args:
                    found.update(said_by(call.args[0], function))
                elif isinstance(first, ast.Constant) and first.value in STATUSES and len(call.args) > 1:
                    found.update(said_by(call.args[min(2, len(call.args) - 1)], function))
    return found


def errors_of_states() -> set[str]:
    """Messages of what derender and the wire say of states: ValueErrors, which `invalid stream_state` stands
    before, and refusals that name one."""
    found = set()
    for path, tree in trees():
        if path.parent.name != "derender" and path.parts[-2:] != ("wire", "state.py"):
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args):
            said, name = text(call.args[0]), getattr(call.func, "id", "")
            if said is not None and (name == "ValueError" or (name == "bad_request" and "_state" in said)):
                found.add(said)
            elif name == "guarded":  # what any other exception is said to be
                found |= {one for argument in call.args if (one := text(argument)) is not None}
    return found - {"arguments of no call"}  # a defect, which no state leads to


def test_errors() -> None:
    known = "\n".join(texts())
    assert {said for said in DOCUMENTED if not said.startswith("--") and said not in known} == set()


def test_every_error_of_some_statuses_is_documented() -> None:
    found = errors_of_statuses()
    assert {"The model is being loaded.", "No engine is healthy.", "The engine fell silent."} <= found
    assert undocumented(found) == set()


def test_every_error_of_states_is_documented() -> None:
    found = errors_of_states()
    assert {"parser_state is malformed or truncated", "derender failed"} <= found
    assert undocumented(found - {"invalid stream_state: N"}) == set()


def undocumented(messages: set[str]) -> set[str]:
    return {message for message in messages if not any(said in message for said in DOCUMENTED)}


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
