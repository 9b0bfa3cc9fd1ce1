"""renderd and vLLM's render servers side by side, in one run: the README's table.

    python -m golden.bench [NAME ...]

Starts `renderd serve`, `vllm launch render` and `vllm-rs render` on the Qwen3 tokenizer with the parsers
qwen3 and hermes, then runs the measurements of `renderd bench`, each printed as one table. The oracle is
built when it is missing. vllm-rs renders only, and what takes minutes without a peer runs on renderd alone.
NAMEs are measurements of `renderd bench`; all of them take about ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from golden import models, oracle
from golden.processes import LOGS, relative, renderd_serve, server
from renderd.conformance.bench.main import main as bench

FLAGS = (
    *("--served-model-name", "qwen3", "--reasoning-parser", "qwen3"),
    *("--tool-call-parser", "hermes"),
)
PYTHON_FLAGS = (*FLAGS, "--enable-auto-tool-choice")


def beside_vllm(model: Path, names: list[str]) -> int:
    """What vLLM's servers are asked as well."""
    reference = oracle.build()
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(renderd_serve(model, PYTHON_FLAGS, LOGS / "bench-renderd.log"))
        python = stack.enter_context(reference.render(model, PYTHON_FLAGS, LOGS / "bench-vllm.log"))
        targets = [f"--url=renderd={ours}", f"--url=vLLM={python}"]
        status = 0
        if "render" in names:
            with reference.rust_render(model, FLAGS, LOGS / "bench-vllm-rs.log") as rust:
                status |= bench(["render", *targets, f"--url=vllm-rs={rust}"])
        if "stream" in names:
            status |= bench(["stream", *targets, "--tokens", "4000", "--minimal", "renderd"])
        if "batch" in names:
            status |= bench(["batch", *targets])
    return status


def alone(model: Path, names: list[str]) -> int:
    """What vLLM cannot be asked, or would take minutes for."""
    status = 0
    with renderd_serve(model, PYTHON_FLAGS, LOGS / "bench-renderd.log") as url:
        for name in PARTS[alone]:
            if name in names:
                status |= bench([name, f"--url=renderd={url}"])
    return status


def workers(model: Path, names: list[str]) -> int:
    """One worker and two. An idle server takes nothing from the other."""
    two = (*PYTHON_FLAGS, "--workers", "2")
    with (
        renderd_serve(model, PYTHON_FLAGS, LOGS / "bench-renderd.log") as one_url,
        renderd_serve(model, two, LOGS / "bench-renderd-2.log") as two_url,
    ):
        return bench(["workers", f"--url=one={one_url}", f"--url=two={two_url}"])


def gateway(model: Path, names: list[str]) -> int:
    """renderd before a scripted engine."""
    command = [sys.executable, "-m", "renderd", "engine", relative(model), "--served-model-name", "qwen3"]
    with server(command, LOGS / "bench-engine.log") as engine:
        flags = (*PYTHON_FLAGS, "--engine-url", engine)
        with renderd_serve(model, flags, LOGS / "bench-renderd.log") as url:
            return bench(["gateway", f"--url=renderd={url}", f"--engine-url={engine}"])


def start(model: Path, names: list[str]) -> int:
    """renderd with one worker and with two, and vLLM's program in Rust."""
    rust = [str(oracle.build().path / oracle.RUST), "render", relative(model), *FLAGS]
    ours = [sys.executable, "-m", "renderd", "serve", relative(model), *PYTHON_FLAGS]
    commands = {"one-worker": ours, "two-workers": [*ours, "--workers", "2"], "vllm-rs": rust}
    return bench(["start", *(f"--server={name}={shlex.join(line)}" for name, line in commands.items())])


PARTS: dict[Callable[[Path, list[str]], int], tuple[str, ...]] = {
    beside_vllm: ("render", "stream", "batch"),
    alone: ("prompt-ids", "concurrent", "interference", "memory"),
    workers: ("workers",),
    gateway: ("gateway",),
    start: ("start",),
}
"""What is measured, by what starts the servers for it."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m golden.bench", description=(__doc__ or "").split("\n")[0]
    )
    every = [name for part in PARTS.values() for name in part]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(every)} (default: all)")
    names = parser.parse_args().names or every
    if unknown := set(names) - set(every):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    model = models.fetch("qwen3")
    status = 0
    for run, own in PARTS.items():
        if set(own) & set(names):
            status |= run(model, names)
    sys.exit(status)


if __name__ == "__main__":
    main()
