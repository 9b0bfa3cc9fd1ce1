"""Golden chats and completions through the gateway: what vLLM said of them, engine in and server out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from renderd.conformance.assemble import Assembly
from renderd.conformance.cases import Case, Recording
from renderd.conformance.checks import Finding, Judge
from renderd.conformance.divergences import Divergences
from renderd.conformance.formats import outline
from renderd.conformance.main import GOLDEN
from renderd.conformance.rules import BATCH, stream_rules
from renderd.conformance.shapes import differing_order, differing_shapes
from tests.gateway.support import chunks, golden, recorded_route, streamed, whole

PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
SERVERS = [
    "qwen3-plain",
    "qwen3-hermes",
    "qwen3-coder",
    "llama3-json",
    "deepseek-r1",
    "deepseek-v31",
    "gpt-oss",
    "mistral-v11",
]
ASKED = os.environ.get("RENDERD_GATEWAY_GOLDEN", "").split() or SERVERS
"""Configurations; RENDERD_GATEWAY_GOLDEN names others, or is `all`."""

DIVERGENCES = Divergences.load(GOLDEN / "divergences.toml")


def cases(server: str) -> Iterator[tuple[Case, Recording]]:
    recordings = golden.recordings(server)
    for case in golden.cases(server):
        if case.api in PATHS and case.output is not None and recordings[case.id].stream is not None:
            yield case, recordings[case.id]


def findings(case: Case, recording: Recording) -> Iterator[Finding]:
    judge = Judge(DIVERGENCES, case, recording)
    path = PATHS[case.api]
    request = {**case.request, "stream": False, "stream_options": None}
    batch = whole(case.server, path, request, recorded_route(recording))
    yield from judge.compare("batch", batch, BATCH)
    assert recording.batch is not None
    assert recording.stream is not None
    if list(batch) != list(recording.batch) or list(batch["choices"][0]) != list(
        recording.batch["choices"][0]
    ):
        yield Finding(f"batch has the keys {list(batch)}")
    options: dict[str, Any] = {"include_usage": True}
    if case.api == "chat":
        options["continuous_usage_stats"] = True
    # The first are older than the habit of asking for the usage of every chunk.
    if not any(chunk.get("usage") for chunk in recording.stream if chunk["choices"]):
        options.pop("continuous_usage_stats", None)
    request = {
        **case.request,
        "stream": True,
        "stream_options": case.request.get("stream_options") or options,
    }
    got = chunks(streamed(case.server, path, request, recorded_route(recording)))
    assembly = Assembly()
    for chunk in got:
        assembly.add(chunk)
    declared = False
    for finding in judge.compare("stream", assembly.answer(), stream_rules(1, False), outline(batch)):
        declared = declared or bool(finding.declared)
        yield finding
    yield from (Finding(fault) for fault in assembly.faults)
    yield from (Finding(f"stream: {what}") for what in differing_shapes(recording.stream, got))
    if not declared:
        yield from (Finding(f"stream: {what}") for what in differing_order(recording.stream, got))


@pytest.mark.parametrize("server", list(golden.servers) if ASKED == ["all"] else ASKED)
def test_answers_are_the_coupled_servers(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in golden.servers[server].get("env", {}).items():
        monkeypatch.setenv(name, value)
    failures = [
        f"{case.id}: {finding.what}"
        for case, recording in cases(server)
        for finding in findings(case, recording)
        if not finding.declared
    ]
    assert not failures, "\n".join(failures)
