"""A server that wants an API key."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import fake
import pytest

from renderd.conformance import main

KEY = "sk-of-a-test"


@pytest.fixture
def url() -> Iterator[str]:
    answered = fake.replying(fake.Fake())

    def reply(path: str, headers: Message, sent: bytes) -> tuple[int, bytes] | None:
        allowed = headers["Authorization"] == f"Bearer {KEY}"
        return answered(path, headers, sent) if allowed else (401, b'{"error": "Unauthorized"}')

    with fake.listening(reply) as url:
        yield url


@pytest.mark.parametrize("mode", [[], ["--against"], ["record", "--name", "mine"]])
def test_a_key_is_sent(
    url: str,
    tmp_path: Path,
    mode: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    folder = fake.write(tmp_path, [fake.record("hello there")])
    arguments = [*mode, url] if mode == ["--against"] else mode
    arguments = [*arguments, "--url", url, "--cases", str(folder), "--server", "toy"]
    arguments += ["--into", str(tmp_path)] if "record" in mode else []
    assert main.main(arguments) == 2
    assert "401, does not say which model is served: --api-key is" in capsys.readouterr().err
    assert main.main([*arguments, "--api-key", KEY]) == 0
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert main.main(arguments) == 0
    assert main.main([*arguments, "--api-key", "another"]) == 2


@pytest.mark.parametrize(
    "key", ["sk-secret\n", "sk-secret schl\u00fcssel", "sk-secret\U0001f511", "sk secret"]
)
@pytest.mark.parametrize("flag", [True, False])
def test_a_key_that_cannot_be_sent_is_not_shown(
    key: str, flag: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "" if flag else key)
    for command in ([], ["record", "--name", "mine"]):
        with pytest.raises(SystemExit) as raised:
            main.main([*command, "--url", "http://127.0.0.1:9", *(["--api-key", key] if flag else [])])
        said = capsys.readouterr()
        assert raised.value.code == 2
        assert "argument --api-key: it has characters that no header may have" in said.err
        assert "secret" not in said.err + said.out


@pytest.mark.parametrize(
    ("written", "sent"), [("me:s%40cret", "me:s@cret"), ("me", "me:"), ("me:\u00e4", "me:\u00e4")]
)
def test_user_and_password_of_a_url_are_sent_and_not_shown(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    written: str,
    sent: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    answered = fake.replying(fake.Fake())
    basic = f"Basic {b64encode(sent.encode()).decode()}"

    def reply(path: str, headers: Message, body: bytes) -> tuple[int, bytes] | None:
        return answered(path, headers, body) if headers["Authorization"] == basic else (401, b"{}")

    folder = fake.write(tmp_path / "golden", [fake.record("hello there")])
    reports = [tmp_path / name for name in ("r.html", "r.json", "r.xml")]
    with fake.listening(reply) as plain:
        url = plain.replace("http://", f"http://{written}@")
        for mode in ([], ["--against", url]):
            arguments = [part for path in reports for part in ("--report", str(path))]
            assert (
                main.main(["--url", url, "--cases", str(folder), "--server", "toy", *mode, *arguments]) == 0
            )
            said = capsys.readouterr()
            shown = [said.out, said.err, *(path.read_text() for path in reports)]
            assert f"{plain} against" in said.out
            assert not [text for text in shown for hidden in (f"{written}@", f"{sent}@") if hidden in text]
