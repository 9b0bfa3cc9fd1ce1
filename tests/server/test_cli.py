"""`renderd COMMAND`: what is there and how it is found."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import renderd
from renderd.cli import COMMANDS, main


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_function(name: str) -> None:
    command = COMMANDS[name]
    assert callable(getattr(import_module(command.module), command.function))


@pytest.mark.parametrize("argv", [["--help"], ["-h"], []])
def test_help_names_every_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: renderd COMMAND")
    assert all(f"  {name} " in text for name in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"renderd {renderd.__version__}\n"


@pytest.mark.parametrize("argv", [["parsers"], ["parsers", "--help"], ["--help"]])
def test_a_reader_that_stops_reading(argv: list[str]) -> None:
    command = [sys.executable, "-m", "renderd", *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() in (141, 0)  # argparse takes no notice of it, where output is not buffered


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nope"]) == 2
    assert capsys.readouterr().err.startswith("renderd: error: unknown command 'nope'; choose from serve,")


def test_asking_for_help_loads_no_command() -> None:
    code = "import sys; from renderd.cli import main; main(['--help']); print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fastapi" not in run.stdout
