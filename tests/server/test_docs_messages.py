"""The commands of docs/messages.md run in a row, between a server and a scripted engine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from golden.processes import LOGS, server
from renderd.demo import model_dir

PAGE = (Path(__file__).parents[2] / "docs" / "messages.md").read_text("utf-8")
SERVE = re.search(r"renderd serve --port 8000 (.*?) &", PAGE)
ENGINE = ["engine", str(model_dir()), "--served-model-name", "demo"]


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or no jq")
def test_the_page_runs(tmp_path: Path) -> None:
    assert SERVE is not None
    blocks = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    lines = [line for line in blocks.splitlines() if not line.startswith(("renderd ", "carried="))]
    renderd = [sys.executable, "-m", "renderd"]
    with (
        server([*renderd, "serve", *SERVE.group(1).split()], LOGS / "docs-messages.log") as url,
        server([*renderd, *ENGINE], LOGS / "docs-messages-engine.log") as engine,
    ):
        script = "\n".join(lines).replace("localhost:8000", url).replace("localhost:8001", engine)
        ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    whole, _, streamed = ran.stdout.partition("event: message_start")
    message = json.loads(whole)
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    events = re.findall(r"^event: (\w+)$", streamed, re.MULTILINE)
    assert events.count("content_block_start") == 3
    assert events[-2:] == ["message_delta", "message_stop"]
