"""Which of three servers answers how much as vLLM did: asks them all, and writes the results into the docs.

    python -m golden.results [--of NAME ...] [--server NAME ...]
    python -m golden.results --no-asking      writes what was asked before, after explanations changed

Each server is started with each configuration and asked its cases over HTTP, as `renderd conformance` does.
What came of it stays in .cache/results, a file a configuration. All of it goes into docs/conformance.md,
between two markers, and renderd's declared divergences into docs/divergences.md. golden/explanations.toml
says what the differences mean. Where one has no explanation, or of a server nothing is kept, no page is
written and the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from golden import models, oracle, results_page
from golden.asked import KEPT, Asked, count, kept
from golden.cases import Server, load_servers
from golden.processes import LOGS, REPOSITORY, relative, renderd_serve, server
from renderd.conformance.cases import Golden
from renderd.conformance.client import Client
from renderd.conformance.divergences import Divergences
from renderd.conformance.runner import ServerError, replay

GOLDEN = Path(__file__).resolve().parent
SECONDS = 300
"""How long one call may take: a shared machine may stand still for a while."""

Started = contextlib.AbstractContextManager[str]


class Renderer:
    """One of the servers: how it is started, and with which of a configuration's flags."""

    def __init__(self, name: str, version: str, start: Callable[[Server, Sequence[str]], Started]) -> None:
        self.name = name
        self.version = version
        self.start = start

    def flags(self, configuration: Server) -> tuple[list[str], list[str]]:
        """Those that it is started with, and those that it does not know."""
        return list(configuration.flags), []


class Rust(Renderer):
    """vLLM's renderer in Rust: it knows some of the flags, and without a parser's name it looks for one."""

    def flags(self, configuration: Server) -> tuple[list[str], list[str]]:
        known = set(re.findall(r"--[a-z][a-z-]+", _printed([*_rust(), "render", "--help"])))
        kept: list[str] = []
        left_out: list[str] = []
        words: list[list[str]] = []
        for word in configuration.flags:
            if word.startswith("--"):
                words.append([word])
            else:
                words[-1].append(word)
        for flag in words:
            if flag[0] in known:
                kept += [_VALUES.get(word, word) for word in flag]
            elif flag[0] != "--enable-auto-tool-choice":  # its parser says as much
                left_out.append(shlex.join(flag))
        for parser in ("--tool-call-parser", "--reasoning-parser"):
            if configuration.model == "gptoss":  # it has parsers of its own for that, and takes no other
                if parser in kept:
                    del kept[kept.index(parser) : kept.index(parser) + 2]
            elif parser not in kept:
                kept += [parser, "none"]
        return kept, left_out


_VALUES = {"2k": "2000"}
"""What a value is called that it does not read."""


def _rust() -> list[str]:
    return [str(oracle.build().path / oracle.RUST)]


def _printed(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _log(name: str, configuration: Server) -> Path:
    return LOGS / f"results-{name}-{configuration.name}.log"


def _start_renderd(configuration: Server, flags: Sequence[str]) -> Started:
    model = models.fetch(configuration.model)
    return renderd_serve(model, flags, _log("renderd", configuration), configuration.env)


def _start_vllm(configuration: Server, flags: Sequence[str]) -> Started:
    model = models.fetch(configuration.model)
    return oracle.build().render(model, flags, _log("vllm", configuration), configuration.env)


def _start_rust(configuration: Server, flags: Sequence[str]) -> Started:
    command = [*_rust(), "render", relative(models.fetch(configuration.model)), *flags]
    return server(command, _log("vllm-rs", configuration), configuration.env)


RENDERERS = {
    one.name: one
    for one in (
        Renderer("renderd", version("renderd"), _start_renderd),
        Rust("vllm-rs", oracle.VERSION, _start_rust),
        Renderer("vllm", oracle.VERSION, _start_vllm),
    )
}


def ask(renderer: Renderer, configuration: Server) -> Asked:
    """Start a server as a configuration and ask it all of its cases."""
    golden = Golden(GOLDEN)
    flags, left_out = renderer.flags(configuration)
    asked = Asked(
        at=datetime.now(UTC).date().isoformat(),
        version=renderer.version,
        family=golden.family(configuration.name),
        cases=len(golden.cases(configuration.name)),
        left_out=left_out,
    )
    divergences = Divergences.load(GOLDEN / "divergences.toml")
    try:
        with renderer.start(configuration, flags) as url:
            results = replay(Client(url, SECONDS), golden, divergences, configuration.name)
    except RuntimeError as error:
        asked.not_started = _reason(error, _log(renderer.name, configuration))
        return asked
    except (OSError, ServerError) as error:
        asked.not_started = f"broke off: {error}"
        return asked
    count(asked, results, golden.recordings(configuration.name))
    return asked


def _reason(error: RuntimeError, log: Path) -> str:
    """What a server's log says why it ended; where it says nothing, what was seen of it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in lines]
    said = [line for line in plain if re.match(r"(\w+Error|Error|error)\b", line)]
    if "Caused by:" in plain[:-1]:
        said = [plain[plain.index("Caused by:") + 1]]
    return (said[-1] if said else str(error)).partition(" (choose from")[0][:300]


def main(argv: Sequence[str] | None = None, folder: Path = KEPT, docs: Path = REPOSITORY / "docs") -> int:
    """The command. `folder` is where answers are kept, `docs` where the pages are."""
    arguments = _parser().parse_args(argv)
    configurations = {name: one for name, one in load_servers().items() if one.kind == "render"}
    for name in arguments.of if arguments.asking else ():
        for configuration in arguments.server or configurations:
            asked = ask(RENDERERS[name], configurations[configuration])
            path = folder / name / f"{configuration}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(asked), indent=1))
            print(f"{name} {configuration}: {asked.not_started or asked.counts['all cases']}", flush=True)
    explanations = results_page.explanations(GOLDEN / "explanations.toml")
    everything = kept(folder, RENDERERS)
    missing = [
        f"nothing is kept of {name}: ask it as well" for name, found in everything.items() if not found
    ]
    missing += results_page.unexplained(everything, explanations)
    for sentence in missing:
        print(sentence, file=sys.stderr)
    if missing:
        return 1
    divergences = Divergences.load(GOLDEN / "divergences.toml")
    results_page.write(docs, everything, len(configurations), explanations, divergences)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m golden.results", description=__doc__.split("\n")[0])
    parser.add_argument("--of", action="append", choices=RENDERERS, help="ask this server; default: all")
    parser.add_argument(
        "--server", action="append", metavar="NAME", choices=load_servers(), help="this configuration"
    )
    parser.add_argument("--no-asking", dest="asking", action="store_false", help="write the pages alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
