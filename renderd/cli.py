"""The command line: `renderd COMMAND ...`. A command's module is imported only when it runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import renderd


@dataclass(frozen=True)
class Command:
    """`function` of `module` takes the arguments after the command's name and returns the exit status."""

    module: str
    function: str
    about: str


COMMANDS = {
    "serve": Command("renderd.server.main", "serve", "render and derender over HTTP"),
    "engine": Command(
        "renderd.engine.main", "main", "a scripted tokens-only engine, for tests and demonstrations"
    ),
    "demo": Command(
        "renderd.demo.main", "main", "one chat through render, generate and derender, step by step"
    ),
    "parsers": Command(
        "renderd.server.list_parsers",
        "main",
        "list the parsers of reasoning and tool calls, or find a model's",
    ),
    "fingerprint": Command(
        "renderd.conformance.fingerprint", "main", "compare what replicas must have in common"
    ),
    "conformance": Command("renderd.conformance.main", "main", "replay the golden cases against a URL"),
    "bench": Command(
        "renderd.conformance.bench.main", "main", "measure what a server costs and how fast it answers"
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns its exit status; 2 for an unknown command, and that of a program which SIGPIPE
    ended when nobody reads what it prints."""
    try:
        try:
            return _run(argv)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left has to go somewhere
        return 128 + signal.SIGPIPE


def _run(argv: Sequence[str] | None) -> int:
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(_usage())
        return 0
    if name == "--version":
        print(f"renderd {renderd.__version__}")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        print(f"renderd: error: unknown command {name!r}; choose from {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    if name == "serve":
        _end_at_signals()
    run: Callable[[Sequence[str]], int] = getattr(import_module(command.module), command.function)
    return run(rest)


def _end_at_signals() -> None:
    """A server ends in order from its first moment on. While it is imported, which takes a second, there is
    nothing to put in order, and code that is imported might keep an exception from here."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: os._exit(0))


def _usage() -> str:
    lines = [f"  {name:<12} {command.about}" for name, command in COMMANDS.items()]
    return "\n".join(["usage: renderd COMMAND ...", "", *lines, "", "renderd COMMAND --help says more."])
