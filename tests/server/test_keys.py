"""Keys of the command line and of a file that is read again."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from renderd.server import keys
from renderd.server.config import StartupError
from renderd.server.flags import parse
from renderd.server.keys import KeyStore, guards
from tests.server.running import running

Clock = list[float]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Seconds that only the test moves."""
    now: Clock = [100.0]
    monkeypatch.setattr(keys, "time", SimpleNamespace(monotonic=lambda: now[0]))
    yield now


def admitted(store: KeyStore, *names: str) -> list[str]:
    return [name for name in names if store.admits(f"Bearer {name}")]


@pytest.mark.parametrize(
    ("authorization", "admits"),
    [
        ("Bearer one", True),
        ("bearer two", True),
        ("BEARER three", True),
        ("Bearer kl\u00c3\u00a9", True),  # as the server reads the bytes of an e with an accent
        ("Bearer  two", False),
        ("Bearer two ", False),
        ("Bearer # two", False),
        ("Bearer #", False),
        ("Bearer ", False),
        ("Bearer", False),
        ("Basic one", False),
        ("one", False),
        ("", False),
    ],
)
def test_who_is_admitted(tmp_path: Path, authorization: str, admits: bool) -> None:
    file = tmp_path / "keys"
    file.write_bytes("# ours\ntwo\r\n\n  three\t\n# two\nklé".encode())
    assert KeyStore(["one"], str(file)).admits(authorization) is admits


def test_no_key_is_wanted_where_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("a")
    assert not KeyStore([])
    assert KeyStore(["a"])
    assert KeyStore([], str(file))


def test_a_file_that_changes_is_read_again(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "keys"
    file.write_text("old\n")
    store = KeyStore(["fixed"], str(file))
    file.write_text("new\nnewer\n")
    assert admitted(store, "fixed", "old", "new", "newer") == ["fixed", "old"]
    clock[0] += keys.LOOK_SECONDS
    assert admitted(store, "fixed", "old", "new", "newer") == ["fixed", "new", "newer"]


def test_a_file_that_is_exchanged_behind_a_link_is_read_again(tmp_path: Path, clock: Clock) -> None:
    """As Kubernetes exchanges the files of a Secret; size and time of the change may be the same."""
    for name in ("first", "other"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    link = tmp_path / "keys"
    link.symlink_to("first")
    store = KeyStore([], str(link))
    (tmp_path / "next").symlink_to("other")
    (tmp_path / "next").rename(link)
    clock[0] += keys.LOOK_SECONDS
    assert admitted(store, "first", "other") == ["other"]


def test_a_file_that_stays_is_not_read_again(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text("a")
    store = KeyStore([], str(file))
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read"))
    clock[0] += keys.LOOK_SECONDS
    assert admitted(store, "a") == ["a"]


@pytest.mark.parametrize("content", [None, "", "\n# revoked\n"])
def test_a_file_that_is_no_good_leaves_the_last_keys(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    file = tmp_path / "keys"
    file.write_text("a")
    store = KeyStore([], str(file))
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with caplog.at_level(logging.ERROR, logger="renderd.server.keys"):
        for _ in range(3):
            clock[0] += keys.LOOK_SECONDS
            assert admitted(store, "a") == ["a"]
    assert len(caplog.records) == 1
    file.write_text("b")
    clock[0] += keys.LOOK_SECONDS
    assert admitted(store, "a", "b") == ["b"]


@pytest.mark.parametrize("content", [None, "", "# none\n"])
def test_the_server_does_not_start_without_keys_in_the_file(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_text(content)
    with pytest.raises(StartupError, match=r"--api-key-file .*keys"):
        KeyStore(["a"], str(file))


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("POST", "/v1/chat/completions/render", True),
        ("GET", "/v1", True),
        ("GET", "/v1x", True),
        ("GET", "/v2/x", True),
        ("POST", "/inference/v1/generate", True),
        ("GET", "/cohere", True),
        ("OPTIONS", "/v1/models", False),
        ("GET", "/health", False),
        ("GET", "/metrics", False),
        ("POST", "/tokenize", False),
    ],
)
def test_what_wants_a_key(method: str, path: str, wanted: bool) -> None:
    assert guards(method, path) is wanted


def test_flag() -> None:
    assert parse(["--api-key-file", "/keys"])[0].api_key_file == "/keys"
    assert parse([])[0].api_key_file is None


def test_a_server_takes_the_keys_of_a_file_and_those_that_come_later(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("old\n")
    with running("--api-key-file", str(file), "--api-key", "fixed") as server:

        def admitted(key: str) -> bool:
            return server.get("/v1/models", authorization=f"Bearer {key}").status_code == 200

        assert [admitted(key) for key in ("old", "fixed", "new")] == [True, True, False]
        file.write_text("new\n")
        end = time.monotonic() + 30
        while not admitted("new"):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert [admitted(key) for key in ("old", "fixed")] == [False, True]
