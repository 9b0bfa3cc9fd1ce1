"""How many findings are kept of a check, and how much of their values: both are a server's affair."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fake
import pytest

from renderd.conformance import compare, main
from renderd.conformance.bounds import CHARACTERS
from renderd.conformance.checks import Finding
from renderd.conformance.paths import ABSENT
from renderd.conformance.reading import FAILURES, MORE, SIZE, gathered

LONG = "a" * (CHARACTERS + 1)
TOLD = f"{'a' * CHARACTERS} ... ({CHARACTERS + 1} characters)"


def test_long_values_are_cut() -> None:
    finding = Finding(LONG, values=([LONG], LONG), path=("choices", 0, LONG))
    assert finding.what == TOLD
    assert finding.values is not None
    assert finding.values[0].startswith('["aaa')
    assert finding.values[0].endswith(f"aaa ... ({CHARACTERS + 5} characters)")
    assert finding.values[1] == TOLD
    assert finding.path == ("choices", 0, TOLD)


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "text", LONG[1:], {"a": [1, None]}, [], ABSENT])
def test_others_are_not(value: Any) -> None:
    assert Finding("x", values=(value, ABSENT)).values == (value, ABSENT)


def failures() -> Iterator[Finding]:
    """As many as anybody wants."""
    return (Finding(f"failure {number}") for number in count())


def test_the_first_failures_are_kept_and_no_more_are_made() -> None:
    kept = gathered(failures())
    assert [one.what for one in kept[:-1]] == [f"failure {number}" for number in range(FAILURES)]
    assert kept[-1] == MORE
    assert gathered(failures(), kept) == kept


def test_big_ones_are_fewer() -> None:
    big = [Finding("big", values=("", "a" * (SIZE // 3))) for _ in range(9)]
    assert gathered(big) == [*big[:3], MORE]


def test_what_fails_not_is_never_too_much() -> None:
    """It is dropped, makes no failure of a case that passes, and takes none its place."""
    declared = [Finding("x" * 1000, declared="why") for _ in range(1000)]
    kept = gathered(declared)
    assert 0 < len(kept) < len(declared)
    assert all(one.declared for one in kept)
    assert gathered([*declared, Finding("a failure")], kept)[-1] == Finding("a failure")


def test_rules_are_not_remembered_without_end() -> None:
    rules = compare.Rules({"a": compare.anything}, absent_is_null=True)
    want = {"a": 1, **{f"key{number}": number for number in range(compare.KINDS + 10)}}
    assert list(compare.differences(want, want | {"a": 2}, rules)) == []
    assert len(rules._found) <= compare.KINDS


class Lavish(fake.Fake):
    """Has keys of its own in whole answers."""

    def __init__(self, keys: int, value: Any = 1) -> None:
        super().__init__()
        self._more = {f"key{number}": value for number in range(keys)}

    def batch(self, body: fake.Json) -> tuple[int, fake.Json]:
        status, answer = super().batch(body)
        return status, answer | self._more


@pytest.mark.parametrize("mode", ["recorded", "--against"])
def test_an_answer_of_many_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    golden = fake.write(tmp_path / "golden", [fake.record("hello there")])
    report = tmp_path / "report.json"
    with fake.serving(Lavish(20_000)) as url, fake.serving(fake.Fake()) as other:
        arguments = ["--url", url, "--server", "toy", "--cases", str(golden), "--report", str(report)]
        arguments += [mode, other] if mode == "--against" else []
        assert main.main(arguments) == 1
    checks = json.loads(report.read_text())["cases"][0]["checks"]
    found = [len(check["findings"]) for check in checks]
    assert max(found) == FAILURES + 1
    assert f": {MORE.what}" in capsys.readouterr().out


def test_a_big_answer_makes_a_small_report(tmp_path: Path) -> None:
    golden = fake.write(tmp_path / "golden", [fake.record("hello there")])
    reports = [tmp_path / f"report.{kind}" for kind in ("html", "json", "xml")]
    arguments = [part for path in reports for part in ("--report", str(path))]
    with fake.serving(Lavish(1, "a" * 3_000_000)) as url:
        assert main.main(["--url", url, "--server", "toy", "--cases", str(golden), *arguments]) == 1
    assert max(path.stat().st_size for path in reports) < 500_000
