"""An answer that cannot be read, or does not come, fails its case; the others are asked, reports written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from email.message import Message
from pathlib import Path

import fake
import pytest

from renderd.conformance import invariants, main
from renderd.conformance.compare import logprob

PAIRS = [fake.record("hello there"), fake.record("a(f12345)b(g)"), fake.record("cut(fhalf", "length")]
RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"
STREAM = f"{DERENDER} streamed"

CLOSED = b"closed"
"""Stands for a connection that is closed before there is an answer."""

BODIES = {
    "empty": b"",
    "html": b"<html></html>",
    "binary": bytes(range(256)),
    "null": b"null",
    "number": b"3",
    "text": b'"x"',
    "list": b"[]",
    "nothing": b"{}",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep-object": b'{"a":' * 900 + b"1" + b"}" * 900,
    "status": b'{"status":400}',
    "big-status": b'{"status":100000000000000000000000}',
    "no-choices": b'{"choices":[]}',
    "null-choices": b'{"choices":null}',
    "text-choices": b'{"choices":"abc"}',
    "mixed-choices": b'{"choices":[1,null,"x"]}',
    "empty-choice": b'{"choices":[{}],"content":3,"output":null}',
    "null-message": b'{"choices":[{"index":0,"message":null}]}',
    "text-message": b'{"choices":[{"index":"a","message":{"content":3,"tool_calls":"x"}}]}',
    "content": b'{"type":"message","content":5}',
    "output": b'{"object":"response","output":3}',
    "state-alone": b'{"stream_state":null}',
    "empty-chunk": b'{"stream_state":null,"chunk":{}}',
    "list-index": b'{"stream_state":1,"chunk":{"choices":[{"index":[]}]}}',
    "bad-call": b'{"stream_state":1,"chunk":{"choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}}',
    "number-delta": b'{"stream_state":1,"chunk":{"choices":[{"index":0,"delta":5,"finish_reason":[]}]}}',
    "message-start": b'{"stream_state":1,"events":[{"type":"message_start"}]}',
    "no-events": b'{"stream_state":1,"events":[]}',
    "number-type": b'{"stream_state":1,"events":[{"type":3}]}',
    "closed": CLOSED,
}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "LONG", 100)


def serving(server: fake.Fake, bodies: Mapping[str, bytes]) -> AbstractContextManager[str]:
    """The fake, of which some routes answer 200 and a body that is given. STREAM stands for derender's calls
    of a stream."""
    answered = fake.replying(server)

    def reply(path: str, headers: Message, sent: bytes) -> tuple[int, bytes] | None:
        given = bodies.get(path)
        if path == DERENDER and json.loads(sent).get("stream"):
            given = bodies.get(STREAM, given)
        if given is CLOSED:
            return None
        return answered(path, headers, sent) if given is None else (200, given)

    return fake.listening(reply)


def outcomes(folder: Path) -> set[str]:
    for ending in ("html", "xml"):
        assert (folder / f"report.{ending}").stat().st_size
    return {case["outcome"] for case in json.loads((folder / "report.json").read_text())["cases"]}


def reports(folder: Path) -> list[str]:
    return [word for kind in ("json", "html", "xml") for word in ("--report", str(folder / f"report.{kind}"))]


@pytest.mark.parametrize("route", [RENDER, DERENDER, STREAM])
@pytest.mark.parametrize("name", BODIES)
def test_a_malformed_answer_fails_its_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], route: str, name: str
) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    with serving(fake.Fake(), {route: BODIES[name]}) as url:
        arguments = ["--url", url, "--cases", str(golden), "--server", "toy", *reports(tmp_path)]
        assert main.main(arguments) == 1
    said = capsys.readouterr()
    assert "toy: 3 cases: 3 fail" in said.out
    assert outcomes(tmp_path) == {"fail"}


@pytest.mark.parametrize("route", [RENDER, DERENDER, STREAM])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("whose", ["--url", "--against", "both"])
def test_a_malformed_answer_of_one_of_two_servers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], route: str, name: str, whose: str
) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS[:1])
    bodies = {route: BODIES[name]}
    with (
        serving(fake.Fake(), {} if whose == "--against" else bodies) as url,
        serving(fake.Fake(), {} if whose == "--url" else bodies) as other,
    ):
        arguments = ["--url", url, "--against", other, "--cases", str(golden), "--server", "toy"]
        assert main.main([*arguments, *reports(tmp_path)]) == 1
    assert "toy: 1 cases: 1 fail" in capsys.readouterr().out
    assert outcomes(tmp_path) == {"fail"}


@pytest.mark.parametrize("route", ["/tokenize", RENDER, DERENDER, STREAM])
@pytest.mark.parametrize("name", BODIES)
def test_a_malformed_answer_breaks_an_invariant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], route: str, name: str
) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS[:1])
    with serving(fake.Fake(), {route: BODIES[name]}) as url:
        assert main.main(["--url", url, "--invariants", "--cases", str(golden), *reports(tmp_path)]) == 1
    assert "against itself, invariants: 15 cases: " in capsys.readouterr().out
    assert "fail" in outcomes(tmp_path)


def test_a_server_that_goes_away_leaves_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = fake.write(tmp_path / "golden", [fake.record("hello"), *(fake.record(c) for c in "abcdef")])
    bodies: dict[str, bytes] = {}

    def stop(done: int, total: int, name: str) -> None:
        if done == 2:
            bodies.update(dict.fromkeys(["/v1/models", "/tokenize", RENDER, DERENDER, STREAM], CLOSED))

    monkeypatch.setattr("renderd.conformance.progress.Told.__call__", lambda self, *told: stop(*told))
    for mode in (["--server", "toy"], ["--invariants"]):
        bodies.clear()
        with serving(fake.Fake(), bodies) as url:
            assert main.main(["--url", url, "--cases", str(golden), *mode, *reports(tmp_path)]) == 2
        said = capsys.readouterr()
        assert "2 pass" in said.out
        assert "ended before all was asked" in said.err
        assert "pass" in outcomes(tmp_path)


def test_a_number_too_large_to_compare_is_another() -> None:
    assert not logprob(-1.5, 10**400)
    assert logprob(-1.5, -1.5001)


def test_what_a_finding_says_of_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS[:1])
    for route, name, said in (
        (DERENDER, "null-message", f"POST {DERENDER}: AttributeError"),
        (STREAM, "list-index", f"POST {DERENDER}: chunk 0: TypeError"),
        (STREAM, "list", "Expected `object`, got `array`"),
        (RENDER, "closed", f"POST {RENDER}: Remote end closed"),
    ):
        with serving(fake.Fake(), {route: BODIES[name]}) as url:
            assert main.main(["--url", url, "--cases", str(golden), "--server", "toy"]) == 1
        out = capsys.readouterr().out
        assert "FAIL  toy/hello there-stop" in out
        assert said in out


@pytest.mark.parametrize("name", BODIES)
def test_a_malformed_stream_does_not_hide_which_configuration_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    for route in (STREAM, DERENDER):
        with serving(fake.Fake(), {route: BODIES[name]}) as url:
            assert main.main(["--url", url, "--cases", str(golden)]) == 1
        assert "toy: 3 cases: 3 fail" in capsys.readouterr().out
    with serving(fake.Fake(), {RENDER: BODIES[name]}) as url:
        assert main.main(["--url", url, "--cases", str(golden)]) == 2
    assert "no configuration" in capsys.readouterr().err
