"""Families that are not of this package: installed ones, and files named on a command line."""

from __future__ import annotations

import ast
import importlib.util
from importlib.metadata import entry_points
from pathlib import Path

from parsers.registry import NameTakenError, reasoning_grammars, register, tool_grammars

ENTRY_POINTS = "renderd.parsers"
"""Group of the entry points whose objects are grammars, or tuples of them."""

HOW_TO = "docs/adding-a-parser.md"


class PluginError(Exception):
    """A plugin that cannot be used; the message is a sentence that says why."""


def load_installed() -> list[str]:
    """Register what installed packages offer. Returns a sentence for each that failed: a package that a
    server does not need must not keep it from starting."""
    failures = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found = entry.load()
            register(*(found if isinstance(found, tuple | list) else (found,)))
        except NameTakenError as error:
            failures.append(f"the parsers of the entry point {entry.value} cannot be used: {error}")
        except Exception as error:
            failures.append(f"the parsers of the entry point {entry.value} cannot be used: {error!r}")
    return failures


def load_file(path: str) -> None:
    """Run a Python file that registers grammars. Raises PluginError."""
    try:
        source = Path(path).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"the parser plugin {path} cannot be read: {error}") from error
    except (SyntaxError, ValueError) as error:
        raise PluginError(f"the parser plugin {path} is not Python: {error}") from error
    if _imports(tree, "vllm"):
        raise PluginError(
            f"the parser plugin {path} is written for vLLM's parser classes, which get the whole answer "
            "again for every chunk and cannot work here, where a parser is a grammar that one incremental "
            f"machine reads; {HOW_TO} shows how to write one"
        )
    before = (*reasoning_grammars(), *tool_grammars())
    spec = importlib.util.spec_from_file_location(f"renderd_plugin_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"the parser plugin {path} is not a Python file: its name must end in .py")
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except NameTakenError as error:
        raise PluginError(
            f"the parser plugin {path} cannot be used: {error}; parsers of an installed package are there "
            "without a flag"
        ) from error
    except Exception as error:
        raise PluginError(f"the parser plugin {path} failed: {error!r}") from error
    if (*reasoning_grammars(), *tool_grammars()) == before:
        raise PluginError(f"the parser plugin {path} registers no new parser; {HOW_TO} shows how to do that")


def _imports(tree: ast.AST, package: str) -> bool:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return any(name.partition(".")[0] == package for name in names)
