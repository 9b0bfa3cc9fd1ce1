"""The golden files are whole: each case is recorded as it stands, and together they cover what they must."""

from __future__ import annotations

import json
from typing import Any

import pytest

from golden.cases import GOLDEN, case_digest, load_cases, load_recordings, load_servers, recordings_path
from golden.models import MODELS
from golden.oracle import VERSIONS

SERVERS = load_servers()


@pytest.mark.parametrize("server", SERVERS)
def test_every_case_is_recorded_as_it_stands(server: str) -> None:
    recordings = load_recordings(server)
    cases = load_cases(server)
    stale = [c["id"] for c in cases if recordings.get(c["id"], {}).get("digest") != case_digest(c)]
    assert not stale, "run `python -m golden.record --stale`"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_recorded_is_of_a_case_as_it_stands(version: str) -> None:
    """Of the version before, not every configuration is recorded."""
    for server in SERVERS:
        digests = {case["id"]: case_digest(case) for case in load_cases(server)}
        recordings = load_recordings(server, version)
        assert {name: line["digest"] for name, line in recordings.items()}.items() <= digests.items()


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_a_configuration_names_what_exists(server: Any) -> None:
    assert server.model in MODELS
    for flag in server.flags:
        if flag.startswith("golden/"):
            assert (GOLDEN.parent / flag).is_file()


def test_scripted_outputs_are_many_and_distinct() -> None:
    outputs = set()
    for name, server in SERVERS.items():
        recordings = load_recordings(name)
        for case in load_cases(name):
            if "output" in case:
                outputs |= {(server.model, tuple(ids)) for ids in recordings[case["id"]]["token_ids"]}
    assert len(outputs) >= 120


@pytest.mark.parametrize("server", SERVERS)
def test_a_coupled_recording_is_a_whole_answer(server: str) -> None:
    recordings = load_recordings(server)
    for case in load_cases(server):
        if "output" not in case or not case.get("coupled", True):
            continue
        recording = recordings[case["id"]]
        if "choices" not in recording["batch"]:
            ends = ("message_stop", "response.completed", "response.incomplete")
            assert recording["stream"][-1]["type"] in ends, case["id"]
            continue
        choices = {choice["index"] for choice in recording["batch"]["choices"]}
        finished = {
            choice["index"]
            for event in recording["stream"]
            for choice in event["choices"]
            if choice.get("finish_reason")
        }
        assert choices == finished, case["id"]


@pytest.mark.parametrize("server", SERVERS)
def test_recordings_do_not_say_where_they_were_made(server: str) -> None:
    paths = [recordings_path(server, version) for version in VERSIONS]
    for text in (path.read_text(encoding="utf-8") for path in paths if path.exists()):
        assert str(GOLDEN.parent) not in text
        for line in text.split("\n"):
            if '"root":"' in line:
                root = json.loads(line)["body"]["data"][0]["root"]
                assert not root.startswith("/")
