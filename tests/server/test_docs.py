"""Every command in docs/ runs, and answers what its page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden.processes import LOGS, server

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md") if "curl -s localhost:8000" in page.read_text("utf-8"))
LEFT_OUT = "..."


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A page, and the URL of the server that it tells to start."""
    text = (DOCS / request.param).read_text("utf-8")
    started = re.search(r"`renderd serve(.*?)`", text)
    assert started, f"{request.param} does not say which server it talks to"
    command = [sys.executable, "-m", "renderd", "serve", *started.group(1).split()]
    with server(command, LOGS / f"docs-{request.param}.log") as url:
        yield text, url


def test_commands(page: tuple[str, str]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    text, url = page
    blocks = re.findall(r"```sh\n(.*?)```\n(?:\n```json\n(.*?)```)?", text, re.DOTALL)
    assert blocks
    for command, shown in blocks:
        assert "localhost:8000" in command
        ran = subprocess.run(
            ["sh", "-c", command.replace("http://", "").replace("localhost:8000", url)],
            capture_output=True,
            text=True,
            check=True,
        )
        answer = json.loads(ran.stdout)
        assert "error" not in answer, ran.stdout
        if shown:
            assert not list(differing(json.loads(shown), answer, "")), ran.stdout


def differing(shown: Any, got: Any, place: str) -> Iterator[str]:
    """The places at which an answer is not what a page shows."""
    if shown == LEFT_OUT:
        return
    if isinstance(shown, dict) and isinstance(got, dict):
        keys = shown.keys() - {LEFT_OUT} if LEFT_OUT in shown or place == "" else shown.keys() | got.keys()
        for key in keys:
            if key not in got or key not in shown:
                yield f"{place}.{key}"
            else:
                yield from differing(shown[key], got[key], f"{place}.{key}")
    elif isinstance(shown, list) and isinstance(got, list) and len(shown) == len(got):
        for at, (one, other) in enumerate(zip(shown, got, strict=True)):
            yield from differing(one, other, f"{place}[{at}]")
    elif shown != got:
        yield place
