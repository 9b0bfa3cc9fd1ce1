"""The same requests to renderd in front of a real tokens-only engine, and to the same vLLM alone.

    python -m golden.live [--server NAME ...]

First `vllm serve --tokens-only` behind `renderd serve`: render, generate, derender in three calls, then the
streaming client, which sends chat_request and prompt_token_ids with the first event only; and the same
requests to renderd's gateway, stop strings among them. Then the coupled `vllm serve`. Output tokens are
forced, so both answer the same tokens. Answers are compared as `renderd conformance` compares them, the
gateway's chunks also key by key: a difference has to stand in golden/divergences.toml. The oracle is built
when it is missing. Exit status 0 when all agree.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from tokenizers import Tokenizer

from golden import models, oracle
from golden.cases import Json, load_cases, load_servers
from golden.processes import LOGS, renderd_serve
from golden.record import PATHS, Client, RecordingError, Script, eos_token_id, events
from renderd.conformance.cases import Golden, Recording
from renderd.conformance.checks import Finding, Judge
from renderd.conformance.divergences import Divergences
from renderd.conformance.formats import assembly, outline
from renderd.conformance.rules import BATCH, stream_rules
from renderd.conformance.shapes import differing_events, differing_order, differing_shapes, differing_steps

GOLDEN = Path(__file__).resolve().parent
SERVERS = (
    "qwen3-hermes",
    "qwen3-coder",
    "llama3-json",
    "deepseek-r1",
    "deepseek-v31",
    "qwen3-plain",
    "messages-qwen3",
)
UNSTEADY = ("messages-qwen3/out-broken-arguments", "deepseek-r1/cut-after-call")
"""Cases whose stream vLLM ends with a brace more or less, or begins a call with a blank or none, as its
events happen to fall."""
MODEL_FLAGS = ("--served-model-name", "--max-model-len")


class CannotBeSplit(Exception):
    """A tokens-only engine does not take this request: its grammar, or the end of its thinking, needs a
    tokenizer."""


class Split:
    """renderd and a tokens-only engine, as a client of both."""

    def __init__(self, renderd: str, engine: str) -> None:
        self._renderd = Client(renderd)
        self._engine = Client(engine)

    def check(self, api: str, request: Json) -> None:
        """Raises CannotBeSplit."""
        rendered = self._renderd.post_ok(f"{PATHS[api]}/render", request)
        for prompt in [rendered] if isinstance(rendered, dict) else rendered:
            if {"structured_outputs", "thinking_token_budget"} & set(prompt["sampling_params"]):
                raise CannotBeSplit

    def batch(self, api: str, request: Json) -> Json:
        """The three calls (contract K.1)."""
        path = PATHS[api]
        rendered = self._renderd.post_ok(f"{path}/render", request)
        single = api == "chat"
        prompts = [rendered] if single else rendered
        generated = [self._engine.post_ok("/inference/v1/generate", prompt) for prompt in prompts]
        ids = [prompt["token_ids"] for prompt in prompts]
        counts = [len(one) for one in ids]
        body = {
            "model": request["model"],
            "prompt_tokens": counts[0] if single else counts,
            "prompt_token_ids": ids[0] if single else ids,
            f"{api}_request": request,
            **({"generate_response": generated[0]} if single else {"generate_responses": generated}),
        }
        answer: Json = self._renderd.post_ok(f"{path}/derender", body)
        return answer

    def stream(self, api: str, request: Json) -> list[Json]:
        """The chunks of the streaming client, a state per choice."""
        path = PATHS[api]
        rendered = self._renderd.post_ok(f"{path}/render", request)
        prompt = rendered if api == "chat" else rendered[0]
        once = {f"{api}_request": request, "prompt_token_ids": prompt["token_ids"]}
        states: dict[int, Any] = {}
        chunks: list[Json] = []
        for event in events(self._engine.sse("/inference/v1/generate", prompt)):
            index = event["choices"][0]["index"] if event["choices"] else 0
            body = {
                "stream": True,
                "model": request["model"],
                "generate_chunk": event,
                "stream_state": states.get(index),
                "prompt_tokens": len(prompt["token_ids"]),
                **({} if index in states else once),
            }
            answer = self._renderd.post_ok(f"{path}/derender", body)
            states[index] = answer["stream_state"]
            chunks.append(answer["chunk"])
        return chunks


class Whole:
    """renderd's gateway, or a coupled server, as a client of it."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)

    def batch(self, api: str, request: Json) -> Json:
        """The answer."""
        answer: Json = self._client.post_ok(PATHS[api], request)
        return answer

    def stream(self, api: str, request: Json) -> list[Json]:
        """The chunks, or events."""
        return events(self._client.sse(PATHS[api], request, named=api == "messages"))


def wanted(case: Json) -> bool:
    """Cases that all deployments can be asked."""
    if case["id"] in UNSTEADY:
        return False
    return "output" in case and case.get("coupled", True) and case["api"] != "responses"


def in_three_calls(case: Json) -> bool:
    """Those that can go in three calls: a tokens-only engine refuses stop strings, and a stream is one of
    one prompt. vLLM's own three calls have no messages."""
    request = case["request"]
    return (
        case["api"] != "messages" and not request.get("stop") and not isinstance(request.get("prompt"), list)
    )


def requests(case: Json, script: Script) -> tuple[Json, Json]:
    """The request of a case with its output forced, in batch and as a stream."""
    limit = "max_completion_tokens" if case["api"] == "chat" else "max_tokens"
    request = case["request"] | script.sampling(limit)
    request["vllm_xargs"] = (request.get("vllm_xargs") or {}) | script.force()
    if case["api"] == "messages":
        return request | {"stream": False}, request | {"stream": True}
    options = request.get("stream_options") or {"include_usage": True}
    batch = request | {"stream": False, "stream_options": None}
    return batch, request | {"stream": True, "stream_options": options}


@contextlib.contextmanager
def split(reference: oracle.Oracle, model: Path, flags: Sequence[str]) -> Iterator[tuple[Split, Whole]]:
    """renderd with the configuration's flags before a tokens-only engine, in three calls and as a gateway."""
    kept = [part for at, flag in enumerate(flags) if flag in MODEL_FLAGS for part in flags[at : at + 2]]
    engine = reference.serve(model, [*kept, "--tokens-only"], LOGS / "live-tokens-only.log")
    with engine as engine_url:
        flags = [*flags, "--engine-url", engine_url]
        with renderd_serve(model, flags, LOGS / "live-renderd.log") as renderd_url:
            yield Split(renderd_url, engine_url), Whole(renderd_url)


def compare(name: str, reference: oracle.Oracle) -> tuple[int, int, list[str]]:
    """Ask a configuration's cases both ways. Counts of cases and of declared differences; failures."""
    server = load_servers()[name]
    model = models.fetch(server.model)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    eos = eos_token_id(model, tokenizer)
    cases = [case for case in load_cases(name) if wanted(case)]
    asked = {case["id"]: requests(case, Script(case, tokenizer, eos)) for case in cases}
    ours: dict[str, list[Answered]] = {}
    with split(reference, model, server.flags) as (calls, gateway):
        for case in cases:
            batch, stream = asked[case["id"]]
            with contextlib.suppress(CannotBeSplit):
                calls.check(case["api"], batch)
                ways: list[Split | Whole] = [calls, gateway] if in_three_calls(case) else [gateway]
                ours[case["id"]] = [
                    Answered(way is gateway, way.batch(case["api"], batch), way.stream(case["api"], stream))
                    for way in ways
                ]
    known = {case.id: case for case in Golden(GOLDEN).cases(name)}
    divergences = Divergences.load(GOLDEN / "divergences.toml")
    declared, failures = 0, []
    with reference.serve(model, server.flags, LOGS / "live-coupled.log") as url:
        coupled = Whole(url)
        for case in (case for case in cases if case["id"] in ours):
            batch, stream = asked[case["id"]]
            recording = Recording(
                case["id"],
                batch=coupled.batch(case["api"], batch),
                stream=coupled.stream(case["api"], stream),
            )
            judge = Judge(divergences, known[case["id"]], recording)
            findings = [
                finding
                for answered in ours[case["id"]]
                for finding in judged(judge, case, answered, recording.stream or [])
            ]
            declared += sum(bool(finding.declared) for finding in findings)
            failures += [f"{case['id']}: {finding.what}" for finding in findings if not finding.declared]
    return len(ours), declared, failures


class Answered(NamedTuple):
    """Both answers to a case. `whole`: of the gateway, which knows what the coupled server knows."""

    whole: bool
    batch: Json
    chunks: list[Json]


def judged(judge: Judge, case: Json, answered: Answered, coupled: Sequence[Json]) -> Iterator[Finding]:
    """How two answers of renderd's differ from the coupled ones."""
    yield from judge.compare("batch", answered.batch, BATCH)
    made = assembly(answered.chunks)
    got = made.answer()
    yield from (Finding(f"stream order: {fault}") for fault in made.faults)
    rules = stream_rules(1 if answered.whole else int(case["request"].get("n") or 1), False)
    declared = False
    for finding in judge.compare("stream", got, rules, outline(answered.batch)):
        declared = declared or bool(finding.declared)
        yield finding
    if answered.whole:
        messages = case["api"] == "messages"
        shapes, order = (
            (differing_events, differing_steps) if messages else (differing_shapes, differing_order)
        )
        yield from map(Finding, shapes(coupled, answered.chunks))
        if not declared:
            yield from map(Finding, order(coupled, answered.chunks))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m golden.live", description=__doc__.split("\n")[0])
    parser.add_argument("--server", action="append", metavar="NAME", help=f"default: {', '.join(SERVERS)}")
    arguments = parser.parse_args()
    reference = oracle.build()
    failed = False
    for name in arguments.server or SERVERS:
        try:
            count, declared, failures = compare(name, reference)
        except (RecordingError, httpx.HTTPError, RuntimeError) as error:
            sys.exit(f"{name}: {error}")
        for failure in failures:
            print(failure)
        print(
            f"{name}: {count} requests, batch and stream: {declared} declared differences, "
            f"{len(failures)} others",
            flush=True,
        )
        failed = failed or bool(failures)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
