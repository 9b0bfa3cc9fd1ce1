"""The benchmarks: against a fake server that lives in this process, and against the carried model's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake
import pytest

from golden.processes import renderd_serve
from renderd.conformance.bench import cpu, generator, load, workload
from renderd.conformance.bench import main as bench
from renderd.conformance.bench.target import Target
from renderd.conformance.client import Client

CARRIED = Path(__file__).parents[2] / "renderd" / "demo" / "model"
FLAGS = ("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`renderd serve` on the carried model; its URL."""
    with renderd_serve(CARRIED, FLAGS, tmp_path_factory.mktemp("bench") / "log") as url:
        yield url


def measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """The rows of a run that nothing went wrong in, which can be printed as a table too."""
    assert bench.main([*arguments, "--json"]) == 0
    shown = capsys.readouterr()
    assert not shown.err
    rows: list[dict[str, Any]] = json.loads(shown.out)["rows"]
    return rows


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


def test_streams_of_a_real_server_are_parsed(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = measured(capsys, "stream", "--url", f"one={served}", "--tokens", "200", "--minimal", "one")
    assert (row["tokens"], row["minimal"], row["parsed"]) == (200, True, True)


def test_ids_of_a_long_prompt(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = measured(capsys, "prompt-ids", "--url", served, "--tokens", "3000", "--calls", "3")
    assert row["prompt_tokens"] == 3000
    assert row["with_ids"] > 0 < row["without"]


def test_batch_answers(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = measured(capsys, "batch", "--url", served, "--tokens", "400", "--calls", "2")
    assert (row["tokens"], row["requests"], row["parsed"]) == (400, 2, True)


def test_concurrent_streams(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--streams", "5", "--rate", "100", "--chunk", "10", "--seconds", "1")
    (row,) = measured(capsys, "concurrent", "--url", served, *options)
    assert (row["streams"], row["load"]["failed"]) == (5, 0)
    assert 40 <= row["load"]["calls"] <= 55
    assert row["load"]["cpu"] > 0 < row["load"]["own_cpu"]
    assert bench.main(["concurrent", "--url", served, *options]) == 0
    assert "5 streams of 100 tokens a second, 10 a call: p99 of a call, ms | " in capsys.readouterr().out


def test_interference(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = measured(capsys, "interference", "--url", served, "--tokens", "2000", "--seconds", "1")
    assert row["capacity"] > 0
    assert [row[part]["failed"] for part in ("idle", "busy", "renders")] == [0, 0, 0]
    assert all(row[part]["calls"] for part in ("idle", "busy", "renders"))


def test_workers(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    urls = ("--url", f"one={served}", "--url", f"two={served}")
    rows = measured(capsys, "workers", *urls, "--seconds", "0.2", "--rounds", "1")
    assert len({(row["target"], row["calls"]) for row in rows}) == 4
    assert all(row["load"]["calls"] and not row["load"]["failed"] for row in rows)


def test_memory(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = measured(capsys, "memory", "--url", served)
    assert all(process["rss"] >= process["pss"] > 1 for process in row["processes"])


def test_start(capsys: pytest.CaptureFixture[str]) -> None:
    command = f"{sys.executable} -m renderd serve {CARRIED}"
    (row,) = measured(capsys, "start", "--server", f"one={command}", "--runs", "1")
    assert row["wall"] > 0 < row["cpu"]
    assert row["processes"]
    assert bench.main(["start", "--server", f"one={sys.executable} -c pass"]) == 2
    assert "did not become ready" in capsys.readouterr().err
    assert bench.main(["start", "--server", "true"]) == 2
    assert "'true' is not NAME=COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path, failure", [("/nothing", "404 Not Found"), ("/v1/chat/completions/render", "no stream_state")]
)
def test_failed_calls_are_counted(served: str, path: str, failure: str) -> None:
    target = Target("one", served, [])
    chat = {"model": target.model, "messages": [{"role": "user", "content": "Hello."}]}
    told = json.dumps(chat)[1:-1]
    calls = generator.Streams(path, target.model, ['"choices":[]}'] * 2, told)
    done = load.run(load.work(target, calls, lines=2, seconds=0.2))
    assert done.failed
    assert failure in done.failure


def test_prompts_of_the_generator_share_no_text() -> None:
    bodies = generator.prompts(generator.Prompts("/", "m", 2000, 3, 1))
    assert len(bodies) == 3
    pieces = [{body[at : at + 100] for at in range(40, len(body) - 100)} for body in bodies]
    assert not pieces[0] & pieces[1]
