"""The carried model and the demonstration on it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from renderd.demo import main, model_dir, train

DEMO = [sys.executable, "-m", "renderd", "demo"]


def test_demo() -> None:
    run = subprocess.run(DEMO, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    for shown in ("BATCH", "1. render", "2. generate", "3. derender", "get_weather", "STREAMING", "equals"):
        assert shown in run.stdout


def test_a_server_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "ENGINE", ("engine", "no/such/model"))
    assert main.main([]) == 1
    assert "renderd engine did not start" in capsys.readouterr().err


def test_a_stream_that_differs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(main, "outline", lambda batch: {})
    assert main.main([]) == 1
    assert "the streamed answer is another one" in capsys.readouterr().err


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the children in /proc")
def test_a_demo_that_is_ended_leaves_no_server() -> None:
    demo = subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    assert demo.stdout.readline().startswith("renderd serve")
    servers = children(demo.pid)
    assert servers
    demo.send_signal(signal.SIGTERM)
    assert demo.wait(20) == 143
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in servers):
        assert time.monotonic() < deadline, "a server outlived the demo"
        time.sleep(0.05)


def test_the_carried_tokenizer() -> None:
    path = model_dir() / "tokenizer.json"
    assert path.stat().st_size < 500_000
    tokenizer = Tokenizer.from_file(str(path))
    for text in (*train.SPECIAL, *train.PLAIN):
        assert len(tokenizer.encode(text).ids) == 1
    text = "<|im_start|>user\nÞað rignir, 雨, \N{UMBRELLA WITH RAIN DROPS}\n\n\t<think>"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text
    config = json.loads((model_dir() / "config.json").read_text())
    assert config["vocab_size"] >= tokenizer.get_vocab_size()
    assert tokenizer.id_to_token(config["eos_token_id"]) == train.STOP


def test_training_is_deterministic(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        directory = tmp_path / name
        directory.mkdir()
        train.write(directory, train.train())
        files.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert files[0] == files[1]
    assert set(files[0]) == {path.name for path in model_dir().iterdir()} - {"chat_template.jinja"}
