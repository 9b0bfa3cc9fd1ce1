"""Every command in docs/ runs, and answers what its page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from golden.processes import LOGS, server
from renderd.demo import model_dir

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md") if "curl -s" in page.read_text("utf-8"))
LEFT_OUT = "..."
SERVE = re.compile(r"renderd serve(?! \w)((?: --[\w-]+(?: [\w.:/]+)?)*)")
ENGINE = ("engine", str(model_dir()), "--served-model-name", "demo")
STARTS = ("renderd ", "carried=")
"""Lines of a page that start the servers, which are started already."""


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or no jq")
@pytest.mark.parametrize("page", PAGES)
def test_commands(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text("utf-8")
    started = SERVE.search(text)
    assert started, f"{page} does not say which server it talks to"
    blocks = re.findall(r"```sh\n(.*?)```\n(?:\n```json\n(.*?)```)?", text, re.DOTALL)
    flags = started.group(1).replace(" --port 8000", "").split()
    with ExitStack() as stack:
        urls = {}
        if "localhost:8001" in text:
            urls["localhost:8001"] = _start(stack, f"docs-{page}-engine", *ENGINE)
            flags = [flag.replace("http://localhost:8001", urls["localhost:8001"]) for flag in flags]
        urls["localhost:8000"] = _start(stack, f"docs-{page}", "serve", *flags)
        script = "printf '\\0'\n".join(_commands(block) for block, _ in blocks)
        for address, url in urls.items():
            script = script.replace(address, url)
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
    answers = ran.stdout.split("\0")
    assert len(answers) == len(blocks)
    assert any(answers)
    for answer, (_, shown) in zip(answers, blocks, strict=True):
        assert '"error":{"message"' not in answer.replace(" ", "")
        if shown:
            assert not list(differing(json.loads(shown), json.loads(answer), "")), answer


def _start(stack: ExitStack, name: str, *arguments: str) -> str:
    return stack.enter_context(server([sys.executable, "-m", "renderd", *arguments], LOGS / f"{name}.log"))


def _commands(block: str) -> str:
    return "".join(line for line in block.splitlines(keepends=True) if not line.startswith(STARTS))


def differing(shown: Any, got: Any, place: str) -> Iterator[str]:
    """The places at which an answer is not what a page shows."""
    if shown == LEFT_OUT:
        return
    if isinstance(shown, dict) and isinstance(got, dict):
        keys = shown.keys() if LEFT_OUT in shown else shown.keys() | got.keys()
        for key in keys - {LEFT_OUT}:
            if key not in got or key not in shown:
                yield f"{place}.{key}"
            else:
                yield from differing(shown[key], got[key], f"{place}.{key}")
    elif isinstance(shown, list) and isinstance(got, list) and len(shown) == len(got):
        for at, (one, other) in enumerate(zip(shown, got, strict=True)):
            yield from differing(one, other, f"{place}[{at}]")
    elif shown != got:
        yield place
