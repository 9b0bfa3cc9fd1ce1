"""Serving a model that has a tokenizer.json imports no transformers, torch or numpy, even where they are.
Without --engine-url, nor what speaks to engines."""

from __future__ import annotations

from pathlib import Path

from tests.server.running import running

WATCH = """
import sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("transformers", "torch", "numpy", "vllm", "aiohttp"):
            with open({log!r}, "a") as log:
                print(name, file=log)

sys.meta_path.insert(0, Watch())
"""
"""A sitecustomize module: it notes who is asked for, there or not."""


def test_serving_imports_nothing_heavy(tmp_path: Path) -> None:
    log = tmp_path / "asked"
    log.touch()
    (tmp_path / "sitecustomize.py").write_text(WATCH.format(log=str(log)))
    parsers = ("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice")
    with running(*parsers, env={"PYTHONPATH": str(tmp_path)}) as server:
        chat = {"messages": [{"role": "user", "content": "Hello"}]}
        prompt_ids = server.post("/v1/chat/completions/render", chat).json()["token_ids"]
        output_ids = server.post("/tokenize", {"prompt": "<think>a</think>b"}).json()["tokens"]
        said = {"request_id": "r", "choices": [{"index": 0, "token_ids": output_ids}]}
        for part in ({"generate_response": said}, {"generate_chunk": said, "stream": True}):
            body = {"chat_request": chat, "prompt_token_ids": prompt_ids, **part}
            answer = server.post("/v1/chat/completions/derender", body)
            assert answer.status_code == 200, answer.text
        assert server.get("/openapi.json").status_code == 200
    assert log.read_text() == ""
