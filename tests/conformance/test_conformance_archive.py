"""What is said of an archive of cases that is damaged: a sentence, where somebody reads it."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import fake
import pytest
from test_conformance_references import PAIRS

from hatch_build import pack
from renderd.conformance import cases, main

URL = ["--url", "http://127.0.0.1:9"]
COMMANDS = {
    "replay": URL,
    "record": ["record", *URL, "--name", "mine"],
    "diff": ["diff", cases.REFERENCE, cases.REFERENCE],
}


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good one, where the package has its own."""
    pack(fake.write(tmp_path / "golden", PAIRS), tmp_path / "golden.zip")
    monkeypatch.setattr(cases, "__file__", str(tmp_path / "cases.py"))
    return tmp_path / "golden.zip"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(main, "GOLDEN", cases.carried())
    return main.main(arguments)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_no_archive(
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    content: bytes | None,
) -> None:
    archive.write_bytes(archive.read_bytes()[:300] if content is None else content)
    assert run(monkeypatch, *COMMANDS[command]) == 2
    said = capsys.readouterr().err
    assert f"no cases in {archive}, which is no archive of them" in said
    assert len(said.splitlines()) == 1
    with pytest.raises(SystemExit) as left:
        run(monkeypatch, *COMMANDS[command], "--help")
    assert left.value.code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_member(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Only the list at the archive's end is whole."""
    content = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        begin, end = (opened.getinfo("servers.toml").header_offset + 50, opened.start_dir)
    content[begin:end] = bytes(end - begin)
    archive.write_bytes(content)
    assert run(monkeypatch, *COMMANDS[command]) == 2
    said = capsys.readouterr().err
    assert f"{archive}/servers.toml: damaged: " in said
    assert len(said.splitlines()) == 1


def test_damage_anywhere(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, wherever it is: an archive has sizes, names, methods and flags too."""
    good, rng = archive.read_bytes(), random.Random(0)
    for _ in range(300):
        content = bytearray(good)
        for _ in range(rng.choice((1, 5))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        archive.write_bytes(content)
        assert run(monkeypatch, *COMMANDS["diff"]) in (0, 2)
    assert "damaged: " in capsys.readouterr().err
