"""How a gateway says what is wrong, beside what vLLM said (golden/gateway)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import httpx2
import pytest

from golden.gateway_errors import FOLDER, SERVER, lines, stale
from renderd.conformance.cases import sse_events
from tests.gateway.deployment import PARSERS, Deployment, deployed

Json = dict[str, Any]

CASES = lines("cases.jsonl")
RECORDED = {line["id"]: line for line in lines("recorded.jsonl")}
DIVERGENCES: list[Json] = tomllib.loads((FOLDER / "divergences.toml").read_text(encoding="utf-8"))[
    "divergence"
]


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with deployed("--max-model-len", "4096") as made:
        yield made


def test_every_case_is_recorded_as_it_stands() -> None:
    assert stale() == [], "run `python -m golden.gateway_errors`"
    assert SERVER.flags[4:] == PARSERS


def declared(case: Json) -> list[Json]:
    """The divergences that speak of a case."""
    return [
        entry for entry in DIVERGENCES if any(fnmatchcase(case["id"], pattern) for pattern in entry["cases"])
    ]


def has(wanted: Any, got: Any) -> bool:
    """Whether a value has what an entry says of it."""
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(
            key in got and has(value, got[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(got, list) and len(wanted) == len(got) and all(map(has, wanted, got))
    return bool(wanted == got)


def recorded(case: Json) -> Json:
    """What vLLM answered."""
    line = RECORDED[case["id"]]
    body, kind = line["body"], line["headers"].get("content-type", "")
    return {
        "status": line["status"],
        "body": sse_events(body) if kind.startswith("text/event-stream") else body,
    }


def answered(deployment: Deployment, case: Json) -> Json:
    """What the gateway answers."""
    request = case["request"]
    content = request.get("text", json.dumps(request["json"]) if "json" in request else None)
    headers = request.get("headers", {"Content-Type": "application/json"} if content is not None else {})
    answer = httpx2.request(
        request["method"],
        deployment.gateway.url + request["path"],
        content=content and content.encode(),
        headers=headers,
        trust_env=False,
        timeout=60,
    )
    assert answer.headers["content-type"] == "application/json"
    return {"status": answer.status_code, "body": answer.json()}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_an_error_is_said_as_recorded_or_as_declared(deployment: Deployment, case: Json) -> None:
    want, got, entries = recorded(case), answered(deployment, case), declared(case)
    if not entries:
        assert got == want
        return
    (entry,) = entries
    assert want != got, "this divergence is needed no more"
    assert has(entry["recorded"], want)
    assert has(entry["ours"], got)
    if isinstance(want["body"], list):  # another status, the same words
        assert want["body"] == [got["body"]]


def test_divergences_say_why() -> None:
    ids = {case["id"] for case in CASES}
    for entry in DIVERGENCES:
        assert entry.keys() == {"id", "cases", "recorded", "ours", "reason", "reproducer"}
        assert entry["reason"].strip()
        assert entry["reproducer"] in ids
        for pattern in entry["cases"]:
            assert any(fnmatchcase(one, pattern) for one in ids), pattern
    assert len({entry["id"] for entry in DIVERGENCES}) == len(DIVERGENCES)
