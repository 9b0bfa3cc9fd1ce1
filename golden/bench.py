"""renderd and vLLM's render server side by side, in one run: the README's table.

    python -m golden.bench

Starts `renderd serve`, `vllm launch render` and `vllm-rs render` on the Qwen3 tokenizer with the parsers
qwen3 and hermes, then runs `renderd bench`. The oracle is built when it is missing. vLLM is asked an answer
of 1,000 tokens, renderd one of 4,000 too; vllm-rs renders only.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from golden import models, oracle
from golden.processes import LOGS, renderd_serve
from renderd.conformance import bench

FLAGS = (
    *("--served-model-name", "qwen3", "--reasoning-parser", "qwen3"),
    *("--tool-call-parser", "hermes"),
)
PYTHON_FLAGS = (*FLAGS, "--enable-auto-tool-choice")


def main() -> None:
    argparse.ArgumentParser(prog="python -m golden.bench", description=__doc__.split("\n")[0]).parse_args()
    reference = oracle.build()
    model = models.fetch("qwen3")
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(renderd_serve(model, PYTHON_FLAGS, LOGS / "bench-renderd.log"))
        python = stack.enter_context(reference.render(model, PYTHON_FLAGS, LOGS / "bench-vllm.log"))
        rust = stack.enter_context(reference.rust_render(model, FLAGS, LOGS / "bench-vllm-rs.log"))
        targets = [f"--url=renderd={ours}", f"--url=vLLM={python}"]
        status = bench.main(["render", *targets, f"--url=vllm-rs={rust}"])
        status = status or bench.main(["stream", *targets, "--tokens", "4000"])
    sys.exit(status)


if __name__ == "__main__":
    main()
