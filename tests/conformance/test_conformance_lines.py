"""What is printed has escapes for what a terminal obeys or does not show, wherever a server wrote it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fake
import pytest
from test_conformance_references import PAIRS

from renderd.conformance import main
from renderd.conformance.lines import printable

NASTY = "\x1b]0;x\x07\x1b[2K\r\x9b31m\x7f\u202e\u2028\nFAIL  forged\n"


def test_printable() -> None:
    assert printable("früh, 早上好 \U0001f642") == "früh, 早上好 \U0001f642"
    assert printable("\x1b[2K\r\n\t") == "\\x1b[2K\\r\\n\\t"
    assert printable("\x7f\x9b\u200b\u202e\u2028\ud800") == "\\x7f\\x9b\\u200b\\u202e\\u2028\\ud800"


class Writing(fake.Fake):
    """Writes it somewhere."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def _answer(self, path: str, body: fake.Json) -> tuple[int, Any]:
        status, answer = super()._answer(path, body)
        if self._where == "models" and path == "/v1/models":
            answer["data"][0]["id"] = NASTY
        elif not body or not path.startswith("/v1/chat"):
            return status, answer
        if self._where == "error":
            return 400, fake._error("x", NASTY, NASTY)
        if self._where == "body":
            return 200, NASTY.encode()
        part = answer.get("chunk") if isinstance(answer, dict) else None
        for place in (answer, part):
            if isinstance(place, dict) and self._where in ("key", "value"):
                place |= {NASTY: 1} if self._where == "key" else {"model": NASTY}
        return status, answer


@pytest.mark.parametrize("where", ["models", "error", "body", "key", "value"])
@pytest.mark.parametrize(
    "command", [["-v"], [], ["--invariants"], ["record", "--name", "mine"], ["--against"]]
)
def test_nothing_is_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, command: list[str]
) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    report = tmp_path / "report.json"
    with fake.serving(Writing(where)) as url, fake.serving(fake.Fake()) as other:
        arguments = [*command, *([other] if command == ["--against"] else []), "--url", url]
        arguments += [] if "--invariants" in command else ["--server", "toy"]
        arguments += ["--into", str(tmp_path)] if "record" in command else ["--report", str(report)]
        main.main([*arguments, "--cases", str(golden)])
    said = capsys.readouterr()
    assert {one for one in said.out + said.err if not one.isprintable()} <= {"\n"}
    assert not [line for line in (said.out + said.err).splitlines() if line.startswith("FAIL  forged")]
    if where == "value" and command == []:
        assert json.dumps(NASTY)[1:-1].split("\\u009b")[0] in report.read_text()  # the true text


def test_nor_is_what_a_reference_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    other = golden / "recorded" / "other"
    other.mkdir()
    recording = PAIRS[0][1]
    changed = recording | {"render": recording["render"] | {NASTY: 1}}
    (other / "toy.jsonl").write_text(json.dumps(changed) + "\n")
    for more in ([], ["--markdown"]):
        assert main.main(["diff", "vllm-0.33.0", "other", "--cases", str(golden), *more]) == 1
        said = capsys.readouterr().out
        assert "FAIL  forged\\n" in said
        assert {one for one in said if not one.isprintable()} == {"\n"}
        assert "\nFAIL" not in said


def test_whoever_reads_may_have_had_enough(tmp_path: Path) -> None:
    """As `| head`: the rest is printed for nobody, reports are written, and the status is what it was."""
    golden = fake.write(tmp_path / "golden", PAIRS)
    arguments = ["diff", "vllm-0.33.0", "vllm-0.33.0", "--cases", str(golden)]
    reader, writer = os.pipe()
    os.close(reader)
    command = [
        sys.executable,
        "-m",
        "renderd",
        "conformance",
        *arguments,
        "--report",
        str(tmp_path / "r.json"),
    ]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads((tmp_path / "r.json").read_text())["counts"]["pass"] == len(PAIRS)
