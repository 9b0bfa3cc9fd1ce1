"""Golden chats and completions through the gateway: what vLLM said of them, engine in and server out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from renderd.conformance.assemble import Assembly
from renderd.conformance.cases import Case, Recording, assembled, sse_events
from renderd.conformance.checks import Finding, Judge
from renderd.conformance.divergences import Divergences
from renderd.conformance.formats import outline
from renderd.conformance.main import GOLDEN
from renderd.conformance.rules import BATCH, stream_rules
from renderd.conformance.shapes import differing_order, differing_shapes
from renderd.wire.generate import GenerateChunk, GenerateChunkChoice
from tests.gateway.support import FakeRoute, chunks, golden, recorded_route, streamed, whole

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


def running_on(recording: Recording) -> FakeRoute:
    """The engine of a recording as one that knows no stop strings: it goes on to its limit."""
    streams = msgspec.convert(sse_events(str(recording.generate_sse)), list[GenerateChunk])
    said = [event for event in streams if event.choices]
    last = said[-1].choices[0]
    last.finish_reason, last.stop_reason = None, None
    more = [GenerateChunkChoice(0, token_ids=[one]) for one in (9707, 11, 1879)]
    more[-1].finish_reason = "length"
    return FakeRoute([[*said, *(GenerateChunk(request_id="x", choices=[choice]) for choice in more)]])


@pytest.mark.parametrize("server", ["qwen3-plain", "qwen3-hermes", "qwen3-coder", "llama3-json"])
def test_stop_strings_are_found_where_the_engine_knows_none(server: str) -> None:
    asked = 0
    for case, recording in cases(server):
        assert recording.batch is not None
        stopped = isinstance(recording.batch["choices"][0]["stop_reason"], str)
        if not stopped or not isinstance(recording.generate_sse, str):
            continue
        asked += 1
        judge, path = Judge(DIVERGENCES, case, recording), PATHS[case.api]
        route = running_on(recording)
        batch = whole(server, path, case.request, route)
        assert not [one for one in judge.compare("batch", batch, BATCH) if not one.declared], case.id
        assert route.generations[0].closed_after == route.generations[0].taken
        got = chunks(streamed(server, path, {**case.request, "stream": True}, running_on(recording)))
        assembly = Assembly()
        for chunk in got:
            assembly.add(chunk)
        answer = assembly.answer() | {"usage": assembled(recording.stream or [])["usage"]}
        judged = judge.compare("stream", answer, stream_rules(1, False), outline(batch))
        assert not [one for one in judged if not one.declared], case.id
    assert asked


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
