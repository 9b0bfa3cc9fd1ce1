"""`renderd fingerprint`: replicas that agree, differ, are of another kind, or are not there."""

from __future__ import annotations

from typing import Any

import pytest
from fake import Fake, serving

from renderd.conformance.fingerprint import main


class Replica(Fake):
    """Says what it is given as its version."""

    def __init__(self, version: Any) -> None:
        super().__init__()
        self.version = version

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return 200, self.version


def version(whole: str, **parts: str) -> dict[str, Any]:
    return {"version": "1", "renderd": "2.0", "fingerprint": whole, "fingerprint_parts": parts}


def test_replicas_that_agree(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Replica(version("aa", x="1"))) as one, serving(Replica(version("aa", x="1"))) as two:
        assert main([one, two]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["fingerprint", "x", "renderd", "URL"]
    assert [row.split() for row in rows] == [["aa", "1", "2.0", one], ["aa", "1", "2.0", two]]


def test_what_differs_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        serving(Replica(version("aa", x="1", y="2"))) as one,
        serving(Replica(version("ab", x="1", y="3"))) as two,
    ):
        assert main([one, two]) == 1
    assert capsys.readouterr().err == "they differ in: y\n"


def test_what_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Replica(version("aa"))) as one, serving(Replica({"version": "0.33.0"})) as two:
        gone = "http://127.0.0.1:9"
        assert main([one, two, gone, "nonsense"]) == 1
    answer = capsys.readouterr()
    assert "no renderd" in answer.out and f"{gone}: cannot be asked: " in answer.out
    assert answer.err == "3 of 4 did not say\n"


def test_what_a_terminal_obeys_is_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Replica(version("a\x1b[2K\r", x="\u202e"))) as one:
        assert main([one]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["a\\x1b[2K\\r", "\\u202e", "2.0", one]
