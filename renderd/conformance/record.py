"""`renderd conformance record`: the answers of a live server, kept as a reference for later comparisons.

A reference is a folder NAME with one file SERVER.jsonl a configuration, in the form of golden/README.md.
Lines are only ever added to it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from renderd.conformance import ending
from renderd.conformance.adding import ReferenceFile
from renderd.conformance.against import NOTHING
from renderd.conformance.cases import Case, Golden, Json, Recording, carried
from renderd.conformance.checks import NOT_OFFERED, ROUTES, Judge, Server, http_answer
from renderd.conformance.client import Answer, Client, Gone, NoAnswer, add_key, connect
from renderd.conformance.derendering import Derendering
from renderd.conformance.diff import changes
from renderd.conformance.divergences import Divergences
from renderd.conformance.equivalents import Equivalents
from renderd.conformance.fitting import fitting
from renderd.conformance.formats import is_answer
from renderd.conformance.lines import say
from renderd.conformance.malformed import MALFORMED, Unreadable, excerpt, reason
from renderd.conformance.progress import Told
from renderd.conformance.runner import Progress, ServerError, other_tokens, server_under_test

_KEPT = ("content-type", "allow")
"""Headers that recordings have."""

_BUSY = (429, 502, 503, 504)
"""Statuses that say something of the moment and nothing of the request."""


class Unusable(Unreadable):
    """An answer that no reference should keep."""


class Recorder:
    """Records one server's answers into the folder of one reference. `golden` says what engines generated.

    Attributes:
        added, same: how many cases were recorded, and were recorded before and are answered alike.
        changed: sentences about those that are answered otherwise now.
        aside: how many the server has no routes for, or are for another tokenizer.
        failed: sentences about those that could not be recorded.
    """

    def __init__(self, client: Client, golden: Golden, folder: Path) -> None:
        self._client = client
        self._golden = golden
        self._folder = folder
        self.added = self.same = self.aside = 0
        self.changed: list[str] = []
        self.failed: list[str] = []

    def record(self, name: str, progress: Progress) -> None:
        """The cases of a configuration. Raises ServerError, OSError, ValueError (a malformed file)."""
        server = server_under_test(self._client, self._golden, name)
        usual, file = self._golden.recordings(name), ReferenceFile(self._folder, name)
        cases = [case for case in self._golden.cases(name) if case.id in usual]
        for done, case in enumerate(cases):
            progress(done, len(cases), case.id)
            try:
                line = ask(server, case, usual[case.id])
                if line is not None and case.id in file.known:
                    self._compare(server, case, file.known[case.id], line)
                    continue
            except Gone:
                raise
            except (NoAnswer, *MALFORMED) as error:
                self.failed.append(f"{case.id}: {reason(error)}")
                continue
            if line is None:
                self.aside += 1
            elif file.add(line):
                self.added += 1
            else:
                self._compare(server, case, file.known[case.id], line)

    def said(self) -> list[str]:
        """A line for each case that is not as it should be."""
        changed = (f"answered otherwise now: {sentence}" for sentence in self.changed)
        return [*changed, *(f"not kept: {sentence}" for sentence in self.failed)]

    def summary(self) -> str:
        """All counts."""
        return (
            f"{self.added} cases recorded, {self.same} as they were, {len(self.changed)} answered otherwise "
            f"now and left so, {self.aside} not for this server, {len(self.failed)} not kept"
        )

    def _compare(self, server: Server, case: Case, known: Recording, line: Json) -> None:
        if known.digest != line["digest"]:
            self.changed.append(f"{case.id}: the case is another one than was recorded")
            return
        now = msgspec.convert(line, Recording)
        # What was recorded beside an engine may have more: coupled answers, and another engine's.
        generated = known.generate if known.generate == now.generate else None
        known = msgspec.structs.replace(known, batch=None, stream=None, generate=generated)
        found = changes(case, known, now, server.engine, server.equivalents or Equivalents({}))
        said = [
            f"{case.id}: {check}: {one.what}"
            for check, several in found.items()
            for one in several
            if not one.aside
        ]
        self.changed += said[:1]
        self.same += not said


def ask(server: Server, case: Case, usual: Recording) -> Json | None:
    """A line of a reference's file: the answers to a case, under the recorded name of the model.

    `usual` is the recording that says what the engine generated. None where the server has no route for the
    case, or another tokenizer. Raises NoAnswer, and for answers of another form Unusable and whatever else is
    in MALFORMED.
    """
    if other_tokens(server, case, usual):
        return None
    line = _answers(server, case, usual)
    # As it will be read; what is nested very deeply can only be written.
    fault = "" if line is None else msgspec.json.decode(msgspec.json.encode(line), type=Recording).fault()
    if fault:
        raise Unusable(f"no answer of its route's form: {fault}")
    return line


def _answers(server: Server, case: Case, usual: Recording) -> Json | None:
    back = Server(server.client, server.recorded_model, server.model)
    line: Json = {"id": case.id, "digest": usual.digest}
    if case.api == "http":
        return _http(server, back, case, usual, line)
    answered = False
    path = f"/v1/{ROUTES[case.api]}/render"
    if server.offers(path):
        answered = True
        answer = server.client.post(path, server.renamed(case.request))
        body = back.renamed(_body(answer))
        if answer.status == 200 and not _fits(path, body):
            raise Unusable(f"no answer of its route's form: {excerpt(answer.body)}")
        line |= {"status": answer.status, "render": body}
        if usual.generate is None and answer.status == 200:
            prompts = body if isinstance(body, list) else [body]
            ids = [prompt["token_ids"] for prompt in prompts]
            line["prompt_token_ids"] = ids if isinstance(body, list) else ids[0]
    if usual.generate is not None and server.offers(f"/v1/{ROUTES[case.api]}/derender"):
        answered = True
        batch, stream = Derendering(server, Judge(NOTHING, case, usual), case, usual).answers()
        for status in {one["status"] for one in (batch, stream) if one is not None} & {*_BUSY}:
            raise Unusable(f"derender's status is {status}")
        first = usual.generate[0] if isinstance(usual.generate, list) else usual.generate
        choices = sorted(first["choices"], key=lambda choice: int(choice["index"]))
        line |= {
            "prompt_token_ids": usual.prompt_token_ids,
            "token_ids": [choice["token_ids"] for choice in choices],
            "generate": usual.generate,
            "generate_sse": usual.generate_sse,
            "derender_batch": back.renamed(batch),
        }
        if stream is not None:
            line["derender_stream"] = back.renamed(stream)
    return line if answered else None


def _http(server: Server, back: Server, case: Case, usual: Recording, line: Json) -> Json | None:
    method, path = case.request["method"], case.request["path"]
    answer = http_answer(server, case)
    lacking = answer.status in NOT_OFFERED and answer.status != usual.status
    if lacking and not server.offers(path, method):
        return None
    if answer.status in _BUSY:
        raise Unusable(f"its status is {answer.status}")
    headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    body: Any = answer.body.decode(errors="replace")
    if headers.get("content-type", "").partition(";")[0] == "application/json":
        body = _body(answer)
    elif server.model != server.recorded_model:
        body = body.replace(f'"{server.model}"', f'"{server.recorded_model}"')
    if answer.status == 200 and not _fits(path.partition("?")[0], body):
        raise Unusable(f"no answer of its route's form: {excerpt(answer.body)}")
    return line | {"status": answer.status, "headers": headers, "body": back.renamed(body)}


def _fits(path: str, body: Any) -> bool:
    """Whether the body of a 200 can be one of a render or derender route; of any other anything can."""
    if path.endswith("/render"):
        several = path.endswith("/completions/render") and "/chat/" not in path
        return isinstance(body, list if several else dict) and not Recording("", render=body).fault()
    if path.endswith("/derender"):
        streamed = isinstance(body, dict) and any(body.get(key) is not None for key in ("chunk", "events"))
        return streamed or is_answer(body)
    return True


def _body(answer: Answer) -> Any:
    if answer.status in _BUSY:
        raise Unusable(f"its status is {answer.status}")
    try:
        return answer.json()
    except msgspec.DecodeError:
        raise Unusable(f"status {answer.status}, and no JSON: {answer.body[:100]!r}") from None


def main(argv: Sequence[str]) -> int:
    """The command. Exit status: 0 when all is recorded and as it was, 1 when not, 2 when it cannot ask."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", arguments.name):
        parser.error("--name is the name of a folder: letters, digits, . + - _")
    told = Told()
    recorder, servers = None, arguments.server
    try:
        golden, client = Golden(arguments.cases), connect(arguments)
        unknown = [server for server in arguments.server if server not in golden.servers]
        if unknown:
            raise ServerError(f"no configuration {unknown[0]!r} in servers.toml: {', '.join(golden.servers)}")
        divergences = Divergences.load(arguments.cases / "divergences.toml")
        servers = servers or fitting(golden, client, divergences, told, sure=True)
        recorder = Recorder(client, golden, arguments.into / arguments.name)
        for server in servers:
            recorder.record(server, told)
        ended: BaseException | None = None
    except (OSError, ValueError, ServerError, KeyboardInterrupt) as cause:
        ended = cause
    told.end()
    if recorder is not None:
        whose = f"{arguments.into / arguments.name}, {', '.join(servers)}"
        say(*recorder.said(), f"{whose}: {recorder.summary()}")
    if ended is not None:
        say(f"renderd conformance record: {ending.why(ended)}", file=sys.stderr)
        return ending.status(ended)
    assert recorder is not None
    nothing = not recorder.added and not recorder.same
    return 1 if recorder.changed or recorder.failed or nothing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="renderd conformance record",
        description="Record what a server answers to every case that it fits, as a reference. What was "
        "recorded under the name before is never changed.",
    )
    parser.add_argument("--url", required=True, help="base URL of the server")
    add_key(parser)
    parser.add_argument("--name", required=True, help="name of the reference, as vllm-0.34.0")
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME",
        help="configuration that the server was started as (default: all that fit it); repeatable",
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where the reference's folder is made (default: the working directory)",
    )
    parser.add_argument("--cases", type=Path, default=carried(), metavar="DIR", help="folder of other cases")
    return parser
