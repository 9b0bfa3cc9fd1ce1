"""`renderd parsers`: what `--reasoning-parser` and `--tool-call-parser` take, and what `auto` takes for a
model."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from parsers import ReasoningGrammar, ToolGrammar
from parsers.grammar import ForModel
from parsers.registry import reasoning_grammars, tool_grammars
from renderd.model import Model, ModelConfig, load_model
from renderd.server.arguments import Parser
from renderd.server.config import ServerConfig, StartupError
from renderd.server.parsing import choose_for, load_plugins

_WIDTHS = (28, 34)


def main(argv: Sequence[str]) -> int:
    """Run the command. Returns its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        load_plugins(ServerConfig(tool_parser_plugin=arguments.tool_parser_plugin))
        model = None if arguments.model is None else load_model(ModelConfig(arguments.model))
    except (StartupError, OSError, ValueError) as error:
        print(f"renderd parsers: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    listed = {"reasoning": _rows(reasoning_grammars()), "tools": _rows(tool_grammars())}
    if model is not None:
        return _show_picks(model, arguments.json)
    if arguments.json:
        print(json.dumps(listed, ensure_ascii=False, indent=1))
        return 0
    for flag, rows in zip(("--reasoning-parser", "--tool-call-parser"), listed.values(), strict=True):
        print(f"{flag}\n")
        _print_row("NAME, ALIASES", "MODELS", "FORMAT")
        for row in rows:
            _print_row(", ".join([row["name"], *row["aliases"]]), row["models"], row["format"])
        print()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="renderd parsers", description="List the parsers of reasoning and tool calls.")
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="show what `auto` is for this model instead"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--tool-parser-plugin", metavar="FILE", help="list what this file registers too")
    return parser


def _rows(grammars: Iterable[ReasoningGrammar | ToolGrammar | ForModel]) -> list[dict[str, Any]]:
    rows = [
        {"name": each.names[0], "aliases": list(each.names[1:]), "models": each.models, "format": each.format}
        for each in grammars
    ]
    return sorted(rows, key=lambda row: str(row["name"]))


def _print_row(*cells: str) -> None:
    """One row; cells that are too long go on below themselves."""
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, _WIDTHS, strict=False)]
    for line in range(max(map(len, wrapped))):
        columns = [
            (part[line] if line < len(part) else "").ljust(width + 2)
            for part, width in zip(wrapped, _WIDTHS, strict=True)
        ]
        last = cells[-1] if line == 0 else ""
        print(f"  {''.join(columns)}{last}".rstrip())


def _show_picks(model: Model, as_json: bool) -> int:
    picks = dict(zip(("--reasoning-parser", "--tool-call-parser"), choose_for(model), strict=True))
    if as_json:
        print(json.dumps({flag: {"name": pick.name, "reason": pick.reason} for flag, pick in picks.items()}))
        return 0
    for flag, pick in picks.items():
        print(f"{flag} {pick.name or 'none'}: {pick.reason}")
    return 0
