"""Asks a real vLLM every golden case and stores what it answered, unchanged.

    python -m golden.record [--version VERSION] [--server NAME ...] [--case ID ...] [--stale]

Per server configuration it starts a coupled `vllm serve`, which also has the routes of a tokens-only engine;
then a `vllm launch render`. For a configuration of kind "engine" it starts `vllm serve --tokens-only` alone,
for one with `one_process` the coupled server alone, whose own render and derender routes it asks.
Formats and the meaning of each field: golden/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from tokenizers import Tokenizer

from golden import carried, models, oracle
from golden.cases import (
    Json,
    Server,
    case_digest,
    load_cases,
    load_recordings,
    load_servers,
    save_recordings,
)
from golden.processes import LOGS

PATHS = {
    "chat": "/v1/chat/completions",
    "completion": "/v1/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
DERENDERED = ("chat", "completion")
"""The APIs for which vLLM has a derender route."""

_TOKEN_LIMITS = {"chat": "max_completion_tokens", "responses": "max_output_tokens"}
"""Names of the field that limits the output, where it is not max_tokens."""

FORCE_SEED = 1000


class RecordingError(Exception):
    """vLLM did not do what the case scripts, so its answer proves nothing."""


class Script:
    """The output that a case scripts, as token ids."""

    def __init__(self, case: Json, tokenizer: Tokenizer | None, eos: int) -> None:
        output = case["output"]
        choices = output.get("choices") or [output] * int(case["request"].get("n") or 1)
        self.token_ids = [_token_ids(choice, tokenizer, eos) for choice in choices]
        self.differ = "choices" in output
        self.finish_reason: str = output.get("finish_reason", "stop")

    def sampling(self, max_tokens_name: str) -> Json:
        """The fields of a request that make the engine give this output."""
        fields: Json = {}
        if self.finish_reason == "length":
            fields[max_tokens_name] = max(map(len, self.token_ids))
        if self.differ:
            fields |= {"seed": FORCE_SEED}
        return fields

    def force(self) -> Json:
        """What golden/force_tokens.py reads from `vllm_xargs`."""
        if self.differ:
            return {"force_choices": json.dumps(self.token_ids), "force_seed": FORCE_SEED}
        return {"force_token_ids": self.token_ids[0]}


def _token_ids(output: Json, tokenizer: Tokenizer | None, eos: int) -> list[int]:
    if "token_ids" in output:
        ids = list(output["token_ids"])
    elif tokenizer is None:
        raise ValueError("the model has no tokenizer.json: its cases need token_ids")
    else:
        pieces = output.get("pieces") or [output["text"]]
        ids = [i for piece in pieces for i in tokenizer.encode(piece, add_special_tokens=False).ids]
    return [*ids, eos] if output.get("eos", output.get("finish_reason", "stop") == "stop") else ids


class Client:
    """One vLLM process."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=300)

    def post(self, path: str, body: Json) -> tuple[int, Any]:
        answer = self._send("POST", path, json=body)
        return answer.status_code, answer.json()

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **content)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            # After a 500 vLLM closes the connection, which the next request finds out.
            return self._http.request(method, path, **content)

    def post_ok(self, path: str, body: Json) -> Any:
        status, answer = self.post(path, body)
        if status != 200:
            raise RecordingError(f"{path}: {status} {answer}")
        return answer

    def sse(self, path: str, body: Json, named: bool = False) -> str:
        """The whole text of an event stream. `named`: its events have names, and the last name ends it."""
        answer = self._http.post(path, json=body)
        if answer.status_code != 200 or not (named or answer.text.endswith("data: [DONE]\n\n")):
            raise RecordingError(f"{path}: {answer.status_code} {answer.text[-500:]}")
        return answer.text

    def raw(self, request: Json) -> Json:
        """A request given as it goes over the wire, and its answer."""
        content = request.get("text", json.dumps(request["json"]) if "json" in request else None)
        headers = request.get("headers", {"Content-Type": "application/json"} if content is not None else {})
        encoded = content and content.encode()
        answer = self._send(request["method"], request["path"], content=encoded, headers=headers)
        kept = {name: answer.headers[name] for name in ("content-type", "allow") if name in answer.headers}
        body: Any = answer.text
        if answer.headers.get("content-type") == "application/json":
            body = answer.json()
        return {"status": answer.status_code, "headers": kept, "body": body}


def events(sse: str) -> list[Json]:
    """The JSON events of a stream, [DONE] and the names of events left out."""
    lines = [line.removeprefix("data: ") for line in sse.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def ask_engine(client: Client, case: Json, script: Script) -> Json:
    """The tokens-mode and the coupled answers to a case."""
    path, request = PATHS[case["api"]], case["request"]
    token_limit = _TOKEN_LIMITS.get(case["api"], "max_tokens")
    recording: Json = {}

    # The engine enforces no grammar on a case whose output breaks it: only the coupled server would fail.
    rendered = client.post_ok(f"{path}/render", {**request, "stream": False, "stream_options": None})
    generated, streams = [], []
    for prompt in rendered if isinstance(rendered, list) else [rendered]:
        sampling = prompt["sampling_params"] | script.sampling("max_tokens")
        sampling["extra_args"] = (sampling.get("extra_args") or {}) | script.force()
        if not case.get("coupled", True):
            sampling.pop("structured_outputs", None)
        body = prompt | {"sampling_params": sampling}
        generated.append(client.post_ok("/inference/v1/generate", body))
        body = body | {"stream": True, "sampling_params": sampling | {"output_kind": 1}}
        streams.append(client.sse("/inference/v1/generate", _with_usage(body, request)))
    _check_generated(generated, script)
    single = not isinstance(rendered, list)
    recording["generate"] = generated[0] if single else generated
    recording["generate_sse"] = streams[0] if single else streams

    if case.get("coupled", True):
        forced = request | script.sampling(token_limit)
        forced["vllm_xargs"] = (request.get("vllm_xargs") or {}) | script.force()
        recording["batch"] = client.post_ok(path, forced | {"stream": False, "stream_options": None})
        streamed = forced | {"stream": True}
        if case["api"] in DERENDERED:
            running = case["api"] == "chat"
            recording["stream"] = events(client.sse(path, _with_usage(streamed, request, running)))
        else:
            recording["stream"] = events(client.sse(path, streamed, named=True))
        if any(event.get("error") for event in recording["stream"]):
            raise RecordingError(f"the coupled stream failed: {recording['stream'][-1]}")
    return recording


def _with_usage(body: Json, request: Json, running: bool = False) -> Json:
    """`running`: each chunk is to say how many tokens came before it, which shows how early it is."""
    options = {"include_usage": True} | ({"continuous_usage_stats": True} if running else {})
    return body | {"stream_options": request.get("stream_options") or options}


def _check_generated(answers: Sequence[Json], script: Script) -> None:
    for answer in answers:
        got = [choice["token_ids"] for choice in sorted(answer["choices"], key=lambda c: int(c["index"]))]
        reasons = {choice["finish_reason"] for choice in answer["choices"]}
        if got != script.token_ids or reasons != {script.finish_reason}:
            raise RecordingError(
                f"scripted {script.token_ids} ({script.finish_reason}), got {got} ({reasons})"
            )


def ask_render(client: Client, case: Json) -> Json:
    """The render server's answer to a request as it stands."""
    status, body = client.post(f"{PATHS[case['api']]}/render", case["request"])
    recording = {"status": status, "render": body}
    prompts = body if isinstance(body, list) else [body]
    if status == 200:
        ids = [prompt["token_ids"] for prompt in prompts]
        recording["prompt_token_ids"] = ids if isinstance(body, list) else ids[0]
    return recording


def ask_derender(client: Client, case: Json, recording: Json) -> Json:
    """vLLM's own derender answers to what its engine generated.

    Batch always; streamed, one event a call, where it is the only stream or where its states are wanted.
    """
    path, request = f"{PATHS[case['api']]}/derender", case["request"]
    generated, prompt_ids = recording["generate"], recording["prompt_token_ids"]
    if case["api"] == "chat":
        body = {
            "generate_response": generated,
            "prompt_tokens": len(prompt_ids),
            "prompt_token_ids": prompt_ids,
            "chat_request": request,
        }
    else:
        body = {
            "generate_responses": generated,
            "prompt_tokens": [len(ids) for ids in prompt_ids],
            "prompt_token_ids": prompt_ids,
            "completion_request": request,
        }
    status, answer = client.post(path, {"model": request.get("model"), **body})
    result: Json = {"derender_batch": {"status": status, "body": answer}}
    if case.get("coupled", True) and not case.get("keep_states"):
        return result
    stream: list[Json] = []
    states: dict[int, Json] = {}
    one = recording["generate_sse"] if case["api"] == "chat" else recording["generate_sse"][0]
    ids = prompt_ids if case["api"] == "chat" else prompt_ids[0]
    status = 200
    for event in events(one):
        index = event["choices"][0]["index"] if event["choices"] else 0
        body = {
            "stream": True,
            "model": request.get("model"),
            "generate_chunk": event,
            "stream_state": states.get(index),
            "prompt_tokens": len(ids),
            "prompt_token_ids": ids,
            f"{case['api']}_request": request,
        }
        status, answer = client.post(path, body)
        if status != 200:
            stream = [answer]
            break
        states[index] = answer["stream_state"]
        stream.append(answer if case.get("keep_states") else answer["chunk"])
    result["derender_stream"] = {"status": status, "chunks": stream}
    return result


def record(server: Server, cases: Sequence[Json], reference: oracle.Oracle) -> Iterator[Json]:
    """The recordings of some cases of one configuration. Says on stderr which cases could not be recorded."""
    model = models.fetch(server.model)
    scripted = [case for case in cases if "output" in case]
    answers: dict[str, Json] = {}
    if scripted or server.kind == "engine":
        with reference.serve(model, server.flags, LOGS / f"{server.name}-serve.log", server.env) as url:
            client = Client(url)
            answers = dict(_ask_engine_all(client, server, scripted, model))
            if server.kind == "engine":
                yield from _ask_raw(client, server, cases)
                return
            if server.one_process:
                yield from _ask_render_all(client, server, cases, answers)
                return
    with reference.render(model, server.flags, LOGS / f"{server.name}-render.log", server.env) as url:
        yield from _ask_render_all(Client(url), server, cases, answers)


def _ask_render_all(
    client: Client, server: Server, cases: Sequence[Json], answers: dict[str, Json]
) -> Iterator[Json]:
    """The recordings, once the engine's answers are known."""
    yield from _ask_raw(client, server, [case for case in cases if case["api"] == "http"])
    for case in cases:
        if case["api"] == "http":
            continue
        if "output" not in case:
            yield _head(case) | ask_render(client, case)
        elif case["id"] in answers:
            recording = _head(case) | ask_render(client, case) | answers[case["id"]]
            derendered = ask_derender(client, case, recording) if case["api"] in DERENDERED else {}
            yield recording | derendered


def _ask_engine_all(
    client: Client, server: Server, cases: Sequence[Json], model: Path
) -> Iterator[tuple[str, Json]]:
    file = model / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file)) if file.is_file() else None
    eos = carried.END if tokenizer is None else eos_token_id(model, tokenizer)
    for case in cases:
        script = Script(case, tokenizer, eos)
        try:
            yield case["id"], {"token_ids": script.token_ids, **ask_engine(client, case, script)}
        except (RecordingError, httpx.HTTPError) as error:
            print(f"{server.name}: {case['id']}: {error}", file=sys.stderr)


def _ask_raw(client: Client, server: Server, cases: Sequence[Json]) -> Iterator[Json]:
    for case in cases:
        try:
            yield _head(case) | client.raw(case["request"])
        except httpx.HTTPError as error:
            print(f"{server.name}: {case['id']}: {error}", file=sys.stderr)


def _head(case: Json) -> Json:
    return {"id": case["id"], "digest": case_digest(case)}


def eos_token_id(model: Path, tokenizer: Tokenizer) -> int:
    """The id of the tokenizer's own end of sequence."""
    eos = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))["eos_token"]
    token_id = tokenizer.token_to_id(eos["content"] if isinstance(eos, dict) else eos)
    if token_id is None:
        raise ValueError(f"{model}: no id for {eos}")
    return int(token_id)


def main() -> int:
    """Exit status 1 when a configuration could not be asked."""
    parser = argparse.ArgumentParser(prog="python -m golden.record", description="Record the golden cases.")
    parser.add_argument("--version", choices=oracle.VERSIONS, default=oracle.VERSION, help="of the vLLM")
    parser.add_argument("--server", action="append", metavar="NAME", help="default: every configuration")
    parser.add_argument("--case", action="append", metavar="ID", help="default: every case")
    parser.add_argument("--stale", action="store_true", help="only cases with no recording or another digest")
    arguments = parser.parse_args()
    servers, version = load_servers(), arguments.version
    reference = oracle.build(version)
    failed = False
    for name in arguments.server or servers:
        cases, recordings = load_cases(name), load_recordings(name, version)
        wanted = [case for case in cases if not arguments.case or case["id"] in arguments.case]
        if arguments.stale:
            wanted = [c for c in wanted if recordings.get(c["id"], {}).get("digest") != case_digest(c)]
        if wanted:
            try:
                recordings |= {line["id"]: line for line in record(servers[name], wanted, reference)}
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                failed = True
                continue
            save_recordings(name, [recordings[c["id"]] for c in cases if c["id"] in recordings], version)
            print(f"{name}: {len(wanted)} cases asked", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
