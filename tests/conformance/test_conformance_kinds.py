"""Findings counted by kind."""

from __future__ import annotations

from typing import Any

import pytest

from renderd.conformance.cases import Case
from renderd.conformance.checks import Finding
from renderd.conformance.kinds import count, kind_of
from renderd.conformance.paths import Path
from renderd.conformance.runner import Result

CHAT = Case("toy/one", "toy", "chat", {})
HTTP = Case("toy/two", "toy", "http", {"method": "POST", "path": "/tokenize?x=1"})
RENDER = Case("toy/five", "toy", "http", {"method": "POST", "path": "/v1/chat/completions/render"})


def differs(path: Path, want: Any = 1, got: Any = 2, declared: str = "") -> Finding:
    return Finding("differs", declared, values=(want, got), path=path)


@pytest.mark.parametrize(
    ("case", "check", "finding", "name"),
    [
        (CHAT, "render", differs(("sampling_params", "stop")), "chat render: sampling_params.stop"),
        (
            CHAT,
            "batch",
            differs(("choices", 0, "message", "tool_calls", 1, "id")),
            "chat derender: choices[].message.tool_calls[].id",
        ),
        (CHAT, "coupled", differs(("usage",)), "chat derender stream: usage"),
        (CHAT, "render", differs(("error", "status"), 400, 200), "chat render: error.status 400 -> 200"),
        (CHAT, "render", differs(("error", "param")), "chat render: error.param"),
        (
            CHAT,
            "render",
            differs(("sampling_params", "structured_outputs", "json", "properties", "city")),
            "chat render: sampling_params.structured_outputs.json",
        ),
        (CHAT, "order", Finding("random chunks: choice 0: role came again"), "chat order"),
        (RENDER, "http", differs(("sampling_params", "n")), "chat render: sampling_params.n"),
        (HTTP, "http", differs(("0", 3, "usage")), "http POST /tokenize: [][].usage"),
    ],
)
def test_the_name_of_a_kind(case: Case, check: str, finding: Finding, name: str) -> None:
    assert str(kind_of(case, check, finding)) == name


def test_a_case_counts_once_in_each_of_its_kinds() -> None:
    both = [differs(("choices", index, "text")) for index in (0, 1)]
    results = [
        Result(CHAT, {"batch": [*both, differs(("usage",), declared="some-entry")]}, "hermes"),
        Result(Case("toy/three", "toy", "chat", {}), {"batch": both[:1], "render": []}, "hermes"),
        Result(Case("toy/four", "toy", "chat", {}), {"batch": both, "coupled": [differs(())]}, "qwen3"),
        Result(CHAT, {"render": [Finding("not offered", aside="absent")]}, "hermes"),
    ]
    text, stream = count(results)
    assert (str(text.kind), text.families, text.cases) == (
        "chat derender: choices[].text",
        {"hermes": 2, "qwen3": 1},
        3,
    )
    assert (text.example, stream.example) == ("toy/one", "toy/four")
    declared = count(results, lambda finding: bool(finding.declared))
    assert [(str(one.kind), one.cases) for one in declared] == [("chat derender: usage", 1)]
