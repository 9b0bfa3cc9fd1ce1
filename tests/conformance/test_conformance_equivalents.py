"""What no engine notices is told apart from what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fake
import pytest

from renderd.conformance import report
from renderd.conformance.cases import Golden
from renderd.conformance.client import Client
from renderd.conformance.compare import differences
from renderd.conformance.divergences import Divergences
from renderd.conformance.equivalents import Equivalents
from renderd.conformance.kinds import count
from renderd.conformance.main import GOLDEN
from renderd.conformance.paths import ABSENT, parse
from renderd.conformance.rules import ERROR
from renderd.conformance.runner import replay

TABLE = Equivalents.load(GOLDEN)
PROMPT: dict[str, Any] = {"token_ids": [1, 2, 3]}


@pytest.mark.parametrize(
    ("place", "want", "got", "allowed"),
    [
        ("sampling_params.stop", [], ABSENT, True),
        ("sampling_params.stop", ABSENT, [], True),
        ("sampling_params.stop", ["END"], ABSENT, False),
        ("[0].sampling_params.top_p", 1.0, ABSENT, True),
        ("sampling_params.top_p", 0.95, ABSENT, False),
        ("sampling_params.top_k", -1, 0, True),
        ("sampling_params.n", True, ABSENT, False),
        ("sampling_params.output_kind", 2, ABSENT, True),
        ("sampling_params.unheard_of", None, ABSENT, False),
        ("sampling_params.max_tokens", 97, ABSENT, True),
        ("[0].sampling_params.max_tokens", ABSENT, 97, True),
        ("sampling_params.max_tokens", 16, ABSENT, False),
        ("cache_salt", None, ABSENT, True),
        ("token_ids", [1], ABSENT, False),
        ("request_id", "chatcmpl-95d07f6af1049db6", "chatcmpl-04861778", True),
        ("request_id", "chatcmpl-95d07f6af1049db6", "cmpl-04861778", False),
        ("request_id", "chatcmpl-mine", "chatcmpl-04861778", False),
        (
            "request_id",
            "chatcmpl-04861778",
            "chatcmpl-95d07f6a",
            True,
        ),  # recorded from a server of eight digits
        ("request_id", "cmpl-04861778-0", "cmpl-95d07f6a-1", False),
        ("request_id", "9b7ff2a0-65d5-4c8a-8d39-1c6b1a0f0c11", "1c6b1a0f-0c11-4d39-9c8a-9b7ff2a065d5", True),
        ("request_id", "chatcmpl-04861778", ABSENT, False),
    ],
)
def test_what_an_engine_takes_for_the_same(place: str, want: Any, got: Any, allowed: bool) -> None:
    whole = [PROMPT] if place.startswith("[") else PROMPT
    assert TABLE.allow(whole, parse(place), want, got, 100) is allowed


def test_without_a_window_a_limit_is_missed() -> None:
    assert not TABLE.allow(PROMPT, parse("sampling_params.max_tokens"), 97, ABSENT, None)


def test_a_server_that_omits_defaults_is_equivalent(tmp_path: Path) -> None:
    golden = Golden(fake.write(tmp_path, [fake.record("hello there")]))
    with fake.serving(fake.Fake("omits_defaults")) as url:
        results = replay(Client(url), golden, Divergences([]), fake.SERVER)
    assert [results[0].outcome(check) for check in ("render", "batch")] == ["equivalent", "pass"]
    assert report.summary(results) == "1 cases: 1 equivalent"
    assert count(results) == []
    assert report.differences(results, verbose=False) == ""
    assert "sampling_params.temperature" in report.differences(results, verbose=True)


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("request `cmpl-c38f083a` is empty", "request `cmpl-386654f5` is empty", True),
        ("at most 12345678", "at most 87654321", False),
        (None, "at most 1", False),
    ],
)
def test_an_id_in_an_error_message(want: str | None, got: str, same: bool) -> None:
    assert (not list(differences({"message": want}, {"message": got}, ERROR))) is same
