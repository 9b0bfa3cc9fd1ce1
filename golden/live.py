"""The same requests to renderd in front of a real tokens-only engine, and to the same vLLM alone.

    python -m golden.live [--server NAME ...]

First `vllm serve --tokens-only` behind `renderd serve`: render, generate, derender in three calls, then the
streaming client, which sends chat_request and prompt_token_ids with the first event only. Then the coupled
`vllm serve`. Output tokens are forced, so both answer the same tokens. Answers are compared as
`renderd conformance` compares them: a difference has to stand in golden/divergences.toml. The oracle is built
when it is missing. Exit status 0 when all agree.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from tokenizers import Tokenizer

from golden import models, oracle
from golden.cases import Json, load_cases, load_servers
from golden.processes import LOGS, renderd_serve
from golden.record import PATHS, Client, RecordingError, Script, eos_token_id, events
from renderd.conformance.assemble import Assembly
from renderd.conformance.cases import Golden, Recording
from renderd.conformance.checks import Finding, Judge
from renderd.conformance.divergences import Divergences
from renderd.conformance.rules import BATCH, stream_rules

GOLDEN = Path(__file__).resolve().parent
SERVERS = ("qwen3-hermes", "qwen3-coder", "llama3-json", "deepseek-r1", "deepseek-v31", "qwen3-plain")
MODEL_FLAGS = ("--served-model-name", "--max-model-len")


class CannotBeSplit(Exception):
    """A tokens-only engine does not take this request: its grammar needs a tokenizer."""


class Split:
    """renderd and a tokens-only engine, as a client of both."""

    def __init__(self, renderd: str, engine: str) -> None:
        self._renderd = Client(renderd)
        self._engine = Client(engine)

    def batch(self, api: str, request: Json) -> Json:
        """The three calls (contract K.1). Raises CannotBeSplit."""
        path = PATHS[api]
        rendered = self._renderd.post_ok(f"{path}/render", request)
        single = api == "chat"
        prompts = [rendered] if single else rendered
        if any("structured_outputs" in prompt["sampling_params"] for prompt in prompts):
            raise CannotBeSplit
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


def wanted(case: Json) -> bool:
    """Cases that both deployments can be asked: a tokens-only engine refuses stop strings."""
    request = case["request"]
    single = not isinstance(request.get("prompt"), list)
    return "output" in case and case.get("coupled", True) and not request.get("stop") and single


def requests(case: Json, script: Script) -> tuple[Json, Json]:
    """The request of a case with its output forced, in batch and as a stream."""
    limit = "max_completion_tokens" if case["api"] == "chat" else "max_tokens"
    request = case["request"] | script.sampling(limit)
    request["vllm_xargs"] = (request.get("vllm_xargs") or {}) | script.force()
    options = request.get("stream_options") or {"include_usage": True}
    batch = request | {"stream": False, "stream_options": None}
    return batch, request | {"stream": True, "stream_options": options}


@contextlib.contextmanager
def split(reference: oracle.Oracle, model: Path, flags: Sequence[str]) -> Iterator[Split]:
    """renderd with the configuration's flags before a tokens-only engine."""
    kept = [part for at, flag in enumerate(flags) if flag in MODEL_FLAGS for part in flags[at : at + 2]]
    engine = reference.serve(model, [*kept, "--tokens-only"], LOGS / "live-tokens-only.log")
    with engine as engine_url, renderd_serve(model, flags, LOGS / "live-renderd.log") as renderd_url:
        yield Split(renderd_url, engine_url)


def compare(name: str, reference: oracle.Oracle) -> tuple[int, int, list[str]]:
    """Ask a configuration's cases both ways. Counts of cases and of declared differences; failures."""
    server = load_servers()[name]
    model = models.fetch(server.model)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    eos = eos_token_id(model, tokenizer)
    cases = [case for case in load_cases(name) if wanted(case)]
    asked = {case["id"]: requests(case, Script(case, tokenizer, eos)) for case in cases}
    ours: dict[str, tuple[Json, list[Json]]] = {}
    with split(reference, model, server.flags) as deployment:
        for case in cases:
            batch, stream = asked[case["id"]]
            with contextlib.suppress(CannotBeSplit):
                answer = deployment.batch(case["api"], batch)
                ours[case["id"]] = (answer, deployment.stream(case["api"], stream))
    known = {case.id: case for case in Golden(GOLDEN).cases(name)}
    divergences = Divergences.load(GOLDEN / "divergences.toml")
    declared, failures = 0, []
    with reference.serve(model, server.flags, LOGS / "live-coupled.log") as url:
        client = Client(url)
        for case in (case for case in cases if case["id"] in ours):
            batch, stream = asked[case["id"]]
            path = PATHS[case["api"]]
            recording = Recording(
                case["id"],
                batch=client.post_ok(path, batch),
                stream=events(client.sse(path, stream)),
            )
            judge = Judge(divergences, known[case["id"]], recording)
            findings = list(judged(judge, case, *ours[case["id"]]))
            declared += sum(bool(finding.declared) for finding in findings)
            failures += [f"{case['id']}: {finding.what}" for finding in findings if not finding.declared]
    return len(ours), declared, failures


def judged(judge: Judge, case: Json, batch: Json, chunks: Sequence[Json]) -> Iterator[Finding]:
    """How renderd's two answers differ from the coupled ones."""
    yield from judge.compare("batch", batch, BATCH)
    assembly = Assembly()
    for chunk in chunks:
        assembly.add(chunk)
    yield from (Finding(f"stream order: {fault}") for fault in assembly.faults)
    rules = stream_rules(int(case["request"].get("n") or 1), False)
    yield from judge.compare("stream", assembly.answer(), rules)


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
