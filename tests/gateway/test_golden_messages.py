"""Golden messages through the gateway, over an engine that says what a real one was made to say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from renderd.conformance.cases import Case, Recording, sse_events
from renderd.conformance.checks import Finding, Judge
from renderd.conformance.divergences import Divergences
from renderd.conformance.formats import assembly, outline
from renderd.conformance.main import GOLDEN
from renderd.conformance.rules import BATCH, stream_rules
from renderd.conformance.shapes import differing_events, differing_steps
from renderd.engine.app import ScriptedEngine
from renderd.gateway.exchange import events, responses
from renderd.gateway.prepared import packed, unpacked
from renderd.gateway.route import Route
from tests.gateway.scripted import routed, serving
from tests.gateway.support import Json, face, gateway, golden

SERVERS = ["messages-qwen3", "messages-llama3", "messages-gemma3", "messages-gpt-oss"]
PATH = "/v1/messages"
DIVERGENCES = Divergences.load(GOLDEN / "divergences.toml")


def cases(server: str) -> Iterator[tuple[Case, Recording]]:
    recordings = golden.recordings(server)
    for case in golden.cases(server):
        if case.api == "messages" and recordings[case.id].stream is not None:
            yield case, recordings[case.id]


async def asked(case: Case, recording: Recording, route: Route) -> tuple[Json, list[Json]]:
    """The message and its events. The engine says what it said when the case was recorded."""
    api, generated = face(case.server, PATH), recording.generate["choices"][0]
    forced: Json = {"vllm_xargs": {"force_token_ids": generated["token_ids"]}}
    if generated["finish_reason"] == "length":
        forced["max_tokens"] = len(generated["token_ids"])
    prepared = {
        stream: unpacked(
            packed(api.prepare(msgspec.json.encode({**case.request, **forced, "stream": stream}), None))
        )
        for stream in (False, True)
    }
    got = await responses(gateway(case.server).desk, route, prepared[False])
    batch: Json = msgspec.json.decode(api.finish(prepared[False], got))
    pieces = [piece async for piece in events(api.writer(prepared[True]), route, prepared[True])]
    return batch, named_events(b"".join(pieces).decode())


def named_events(text: str) -> list[Json]:
    """The events of a stream, each of which is named by its type."""
    said = sse_events(text)
    assert text == "".join(
        f"event: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n" for event in said
    )
    return said


def findings(case: Case, recording: Recording, batch: Json, said: list[Json]) -> Iterator[Finding]:
    judge = Judge(DIVERGENCES, case, recording)
    assert recording.batch is not None
    assert recording.stream is not None
    yield from judge.compare("batch", batch, BATCH)
    if [key for key in batch if key in recording.batch] != list(recording.batch):
        yield Finding(f"batch has the keys {list(batch)}")
    declared = False
    made = assembly(said)
    for finding in judge.compare("stream", made.answer(), stream_rules(1, False), outline(batch)):
        declared = declared or bool(finding.declared)
        yield finding
    yield from (Finding(fault) for fault in made.faults)
    yield from map(Finding, differing_events(recording.stream, said))
    if not declared:
        yield from map(Finding, differing_steps(recording.stream, said))


@pytest.mark.parametrize("server", SERVERS)
def test_answers_are_the_coupled_servers(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in golden.servers[server].get("env", {}).items():
        monkeypatch.setenv(name, value)

    async def failures() -> list[str]:
        found = []
        engine = ScriptedEngine(gateway(server).desk.server.model, grammars=True)
        with serving(engine) as scripted:
            async with routed([scripted]) as (route, _):
                for case, recording in cases(server):
                    batch, said = await asked(case, recording, route)
                    found += [
                        f"{case.id}: {finding.what}"
                        for finding in findings(case, recording, batch, said)
                        if not finding.declared
                    ]
        return found

    found = asyncio.run(failures())
    assert not found, "\n".join(found)
