"""`--against` and `--invariants`: a right server passes, each mistake is found by the check meant for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fake
import pytest

from renderd.conformance import invariants, main
from renderd.conformance.cases import Golden
from renderd.conformance.checks import Server
from renderd.conformance.client import Client

PAIRS = [fake.record("hello there"), fake.record("a(f12345)b(g)"), fake.record("cut(fhalf", "length")]
TOKENS = {"id": "toy/tokens", "server": fake.SERVER, "api": "http", "areas": ["http"]}
TOKENS["request"] = {"method": "POST", "path": "/tokenize", "json": {"prompt": "ab"}}
DERENDER = "/v1/chat/completions/derender"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "LONG", 200)
    monkeypatch.setattr(invariants, "RATIO", 50.0)  # a busy machine is no fault


def checks(report: Path, outcome: str = "fail") -> set[str]:
    """Names of the checks with an outcome in any case."""
    cases = json.loads(report.read_text())["cases"]
    return {check["name"] for case in cases for check in case["checks"] if check["outcome"] == outcome}


def against(folder: Path, server: fake.Fake, other: fake.Fake) -> tuple[int, Path]:
    golden = fake.write(folder / "golden", [*PAIRS, (TOKENS, {"id": "toy/tokens", "body": "not this"})])
    report = folder / "report.json"
    with fake.serving(server) as url, fake.serving(other) as url2:
        arguments = ["--url", url, "--against", url2, "--server", "toy", "--report", str(report)]
        return main.main([*arguments, "--cases", str(golden)]), report


def test_two_equal_servers(tmp_path: Path) -> None:
    status, report = against(tmp_path, fake.Fake(), fake.Fake())
    assert status == 0
    assert {"render", "batch", "coupled", "http"} <= checks(report, "pass")
    assert json.loads(report.read_text())["run"]["against"].startswith("http://127.0.0.1")


def test_two_that_have_no_such_route(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {"id": "toy/nothing", "server": fake.SERVER, "api": "http", "areas": ["http"]}
    case["request"] = {"method": "GET", "path": "/nothing"}
    folder = fake.write(tmp_path, [(case, {"id": "toy/nothing", "status": 404, "body": {}})])
    with fake.serving(fake.Fake()) as url, fake.serving(fake.Fake()) as url2:
        arguments = ["--url", url, "--against", url2, "--server", "toy", "--cases", str(folder)]
        assert main.main(arguments) == 0
    assert "toy: 1 cases: 1 pass" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("always_max_tokens", {"render"}),
        ("drops_last_character", {"batch"}),
        ("shouts", {"coupled"}),
    ],
)
def test_a_difference_between_two_servers(tmp_path: Path, fault: str, found: set[str]) -> None:
    for number, servers in enumerate([(fault,), ()]):
        folder = tmp_path / str(number)
        status, report = against(folder, fake.Fake(*servers), fake.Fake(*([] if servers else [fault])))
        assert status == 1
        assert found <= checks(report)


def test_two_servers_with_the_same_fault_are_equal(tmp_path: Path) -> None:
    status, _ = against(tmp_path, fake.Fake("always_max_tokens"), fake.Fake("always_max_tokens"))
    assert status == 0


def test_what_one_of_two_does_not_offer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = against(tmp_path, fake.Fake(), fake.Fake(lacks=[DERENDER]))
    assert checks(report, "absent") == {"batch"}
    assert status == 0  # /tokenize was compared
    assert "4 cases: 1 pass, 3 not offered" in capsys.readouterr().out


def hold(folder: Path, server: fake.Fake, replica: fake.Fake | None = None) -> tuple[int, Path]:
    golden = fake.write(folder / "golden", PAIRS)
    report = folder / "report.json"
    with fake.serving(server) as url, fake.serving(replica or fake.Fake()) as url2:
        arguments = ["--url", url, "--invariants", "--cases", str(golden), "--report", str(report)]
        return main.main([*arguments, *(["--replica", url2] if replica else [])]), report


def test_a_right_server_holds(tmp_path: Path) -> None:
    status, report = hold(tmp_path, fake.Fake(), fake.Fake())
    assert checks(report) == set()
    assert status == 0
    names = {"stream", "order", "repeat", "hop", "eager", "linear", "errors"}
    assert names <= checks(report, "pass")


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("drops_last_character", "stream"),
        ("loses_third_tokens", "stream"),
        ("role_again", "order"),
        ("unsteady", "repeat"),
        ("late", "eager"),
        ("slow", "linear"),
        ("plain_errors", "errors"),
    ],
)
def test_a_broken_invariant_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, found: str
) -> None:
    monkeypatch.setattr(invariants, "RATIO", 2.0)
    status, report = hold(tmp_path, fake.Fake(fault))
    assert status == 1
    assert found in checks(report)


@pytest.mark.parametrize("said", ["", "banana"])
@pytest.mark.parametrize("where", [(), ("whole",), ("streamed",)])
def test_a_server_that_says_something_else_than_its_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, where: tuple[str, ...]
) -> None:
    """Whole and streamed alike, or the one while the other fails."""
    right = fake.Fake._answer

    def answer(self: fake.Fake, path: str, body: fake.Json) -> tuple[int, Any]:
        how = "streamed" if body and body.get("stream") else "whole"
        if path == DERENDER and where and how not in where and body.get("model"):
            return 500, {}
        return right(self, path, body)

    monkeypatch.setattr(fake.Fake, "_answer", answer)
    monkeypatch.setattr(fake.Fake, "_parse", lambda self, ids: (said if ids else "", []))
    status, report = hold(tmp_path, fake.Fake())
    assert status == 1
    assert "text" in checks(report)
    told = [case for case in json.loads(report.read_text())["cases"] if case["family"] == "any"]
    failed = {case["id"] for case in told if case["outcome"] == "fail"}
    assert {"invariants/eager-prose", "invariants/linear-cost"} <= failed
    if not said and not where:
        assert "nothing is said of an output that begins" in report.read_text()


def test_a_marker_may_stand_in_front_of_prose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = fake.Fake._parse

    def parse(self: fake.Fake, ids: list[int]) -> tuple[str, list[fake.Json]]:
        content, calls = right(self, ids)
        return f"<think>{content}" if ids else "", calls

    monkeypatch.setattr(fake.Fake, "_parse", parse)
    status, report = hold(tmp_path, fake.Fake())
    assert (status, checks(report)) == (0, set())


def test_an_output_that_a_server_takes_for_text_is_streamed_once(tmp_path: Path) -> None:
    """Of the outputs of all families most are text to a server, and would be most of its calls."""
    golden = Golden(fake.write(tmp_path, [fake.record("hello there " * 9), fake.record("a(f12345)b(g)" * 9)]))
    asked = {}
    for case in invariants._texts(golden):
        server = fake.Fake()
        with fake.serving(server) as url:
            found = dict(invariants._check(Server(Client(url), fake.MODEL, fake.MODEL), None, case))
        assert {"stream", "order", "repeat"} <= found.keys()
        asked[case.about] = server.calls
    assert sorted(asked) == ["toy/a(f12345)b(g-stop", "toy/hello there -stop"]
    assert asked["toy/hello there -stop"] < 108 < 2 * 117 < asked["toy/a(f12345)b(g-stop"]


def test_a_replica_that_parses_otherwise(tmp_path: Path) -> None:
    status, report = hold(tmp_path, fake.Fake(), fake.Fake("late"))
    assert status == 1
    assert checks(report) == {"hop"}


def test_without_a_derender_route(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = hold(tmp_path, fake.Fake(lacks=[DERENDER]))
    assert checks(report, "absent") == {"stream", "errors"}
    assert checks(report) == set()
    assert status == 1
    assert f"has no {DERENDER}: nothing of it was checked" in capsys.readouterr().out


@pytest.mark.parametrize("answer", [(500, {}), (400, {"error": {"message": "no"}})])
def test_an_error_to_good_tokens_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, fake.Json]
) -> None:
    """The whole answer and the streams are the same error, which makes them no better."""
    right = fake.Fake._answer
    monkeypatch.setattr(
        fake.Fake,
        "_answer",
        lambda self, path, body: answer if path == DERENDER else right(self, path, body),
    )
    status, report = hold(tmp_path, fake.Fake())
    assert status == 1
    (error,) = {
        case["outcome"] for case in json.loads(report.read_text())["cases"] if case["family"] != "any"
    }
    assert error == "fail"


def test_modes_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--against", "x", "--invariants"], ["--replica", "x"], []):
        with pytest.raises(SystemExit):
            main.main([*(["--url", "x"] if arguments else []), *arguments])
    assert "--url is needed, or --model-dir" in capsys.readouterr().err
