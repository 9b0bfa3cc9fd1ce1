"""The benchmarks against a fake server that lives in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import fake
import pytest

from renderd.conformance.bench import cpu, workload
from renderd.conformance.bench import main as bench
from renderd.conformance.client import Client


def test_the_clock_counts_a_process_and_its_children() -> None:
    work = "input(); sum(range(10**7)); input()"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    try:
        deadline = time.monotonic() + 10
        while len((clock := cpu.CpuClock([process.pid])).pids) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        before = clock.read()
        process.stdin.write("\n")
        process.stdin.flush()
        while clock.read() < before + 0.05 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert clock.read() > before + 0.05
    finally:
        process.stdin.close()
        process.wait(timeout=10)
    with pytest.raises(cpu.ProcessError, match="does not run"):
        clock.read()


def test_the_server_of_a_url_is_found() -> None:
    with fake.serving(fake.Fake()) as url:
        assert os.getpid() in cpu.serving_pids(url)
    with pytest.raises(cpu.ProcessError, match="listens on port 9"):
        cpu.serving_pids("http://127.0.0.1:9")


def test_machine() -> None:
    machine = cpu.machine()
    assert machine.cores >= 1
    assert machine.memory_gb > 0


def test_the_answer_has_the_wanted_length() -> None:
    with fake.serving(fake.Fake()) as url:
        tokens = workload.Tokens(Client(url), fake.MODEL)
        ids = workload.parsed_answer(tokens, 700)
        assert len(ids) == 700
        text = "".join(map(chr, ids))
        assert text.startswith("<think>\n")
        assert text.endswith('"}}\n</tool_call>')
        chats = workload.conversations(tokens, 2, 3, 9000)
        assert [len(chat["messages"]) for chat in chats] == [2, 2, 4, 4, 6, 6]
        assert chats[0]["messages"][0] == chats[1]["messages"][0] != chats[0]["messages"][1]


def test_bench_stream(capsys: pytest.CaptureFixture[str]) -> None:
    with fake.serving(fake.Fake()) as url, fake.serving(fake.Fake()) as other:
        urls = ["--url", f"one={url}", "--url", f"two={other}"]
        assert bench.main(["stream", *urls, "--tokens", "1200", "--chunk", "2", "--minimal", "two"]) == 0
        shown = capsys.readouterr()
        assert "| | one | two | two / one |" in shown.out.replace("|  |", "| |")
        assert "answer of 1,200 tokens, 2 a chunk: CPU, s" in shown.out
        assert "two: /version says 7.0" in shown.out
        assert "not parsed" in shown.err
        assert bench.main(["stream", "--url", url, "--tokens", "700", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        assert (row["tokens"], row["calls"], row["chunk"]) == (700, 700, 1)
        assert row["cpu"] > 0
        assert row["early"] > 0
        assert row["late"] > 0


def test_bench_render(capsys: pytest.CaptureFixture[str]) -> None:
    with fake.serving(fake.Fake()) as url:
        assert bench.main(["render", "--url", url, "--pid", str(os.getpid())]) == 0
        out = capsys.readouterr().out
        # The fake's window holds no longer prompts.
        assert "short chat" in out
        assert "1.5k tokens" in out
        assert "9k tokens" not in out


def test_what_cannot_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["render", "--url", "http://127.0.0.1:9"]) == 2
    with fake.serving(fake.Fake()) as url:
        assert bench.main(["render", "--url", url, "--url", url, "--pid", "1"]) == 2
        assert "2 --url but 1 --pid" in capsys.readouterr().err
        assert bench.main(["render", "--url", url, "--pid", "999999999"]) == 2
        assert "process 999999999 does not run" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--chunk", "--tokens"])
@pytest.mark.parametrize("value", ["0", "-1", "x", ""])
def test_counts_have_to_be_positive(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["stream", "--url", "http://127.0.0.1:1", f"{option}={value}"])
    assert "no number of tokens" in capsys.readouterr().err


def test_parsers_are_measured_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["parsers", "hermes", "--limit", "1000"]) == 0
    assert "| hermes | " in capsys.readouterr().out
    assert bench.main(["parsers", "hermes", "--limit", "0"]) == 1
    assert "over the limit, or without a call: hermes" in capsys.readouterr().err


def test_the_worst_inputs_of_parsers_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["parsers", "hermes", "--worst", "--bytes", "4000", "--limit", "1000", "--json"]) in (
        0,
        1,
    )
    row = json.loads(capsys.readouterr().out)[0]
    assert row["family"] == "hermes"
    assert row["ratio"] > 0
