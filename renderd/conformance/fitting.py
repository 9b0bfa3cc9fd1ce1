"""Which configurations fit a server, found out by asking it, or a model's folder, by its tokenizer."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from tokenizers import Tokenizer

from renderd.conformance.cases import Case, Golden, Json, Recording
from renderd.conformance.checks import ROUTES, Finding, Judge, Server, check_http, check_render
from renderd.conformance.client import Client
from renderd.conformance.derendering import Derendering
from renderd.conformance.divergences import Divergences
from renderd.conformance.runner import (
    Progress,
    ServerError,
    other_tokens,
    quiet,
    served_model,
    server_under_test,
)

SAMPLE = 10
"""Cases of a configuration that are tried."""

ENOUGH = 0.8
"""The part of them that has to be right. A server with a fault or two is still what it is."""

UNFIT_LIMIT = 0.05
"""The part of a configuration's cases that may be for another tokenizer."""

_GREETING: Json = {"messages": [{"role": "user", "content": "hi"}]}
_TOOL: Json = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}
RIGHTS = {
    "--trust-request-chat-template": _GREETING | {"chat_template": "x"},
    "--enable-auto-tool-choice": _GREETING | {"tools": [_TOOL], "tool_choice": "auto"},
}
"""Flags that few cases show, and chat requests that are refused without them."""

Pair = tuple[Case, Recording]


class Fit(msgspec.Struct, frozen=True):
    """How many of the cases of a configuration that were tried came out right.

    `near`: had at least the recorded prompt and message, whatever the sampling parameters are written like.
    """

    server: str
    tried: int
    right: int
    near: int = 0

    @property
    def good(self) -> bool:
        return self.tried > 0 and self.right >= ENOUGH * self.tried

    @property
    def close(self) -> bool:
        return self.tried > 0 and self.near >= ENOUGH * self.tried


def fits(
    client: Client,
    golden: Golden,
    divergences: Divergences,
    progress: Progress = quiet,
) -> list[Fit]:
    """Of every configuration of a render server. Raises ServerError, OSError."""
    found: list[Fit] = []
    strange: set[str] = set()
    rights = _rights(client)
    names = [
        name
        for name, table in golden.servers.items()
        if table.get("kind") != "engine"
        and all((flag in table["flags"]) == given for flag, given in rights.items())
    ]
    for done, name in enumerate(names):
        progress(done, len(names), f"does {name} fit?")
        model = str(golden.servers[name]["model"])
        sample = [] if model in strange else _sample(golden, name)
        server = server_under_test(client, golden, name)
        right = near = 0
        for case, recording in sample:
            if other_tokens(server, case, recording):
                strange.add(model)
                break
            is_right, is_near = _tried(server, Judge(divergences, case, recording, server), case, recording)
            right, near = right + is_right, near + is_near
        if model in strange:
            right = near = 0
        found.append(Fit(name, len(sample), right, near))
    return found


def fitting(golden: Golden, client: Client, divergences: Divergences, progress: Progress) -> list[str]:
    """The configurations whose cases fit; else those with the same prompts and messages, and a word about it.

    ServerError when there is none, with what comes nearest.
    """
    found = fits(client, golden, divergences, progress)
    good = [fit.server for fit in found if fit.good] or [fit.server for fit in found if fit.close]
    if good and not any(fit.good for fit in found):
        print(
            "No configuration is answered alike. Of these the prompts and messages are the recorded ones:",
            *(f"  {name}, started with {shlex.join(golden.servers[name]['flags'])}" for name in good),
            sep="\n",
            file=sys.stderr,
        )
    if not good:
        nearest = max(found, key=lambda fit: fit.right / max(1, fit.tried), default=None)
        if nearest is None or not nearest.right:
            raise ServerError(f"no configuration in servers.toml fits {client.url}: another model, or flags")
        flags = shlex.join(golden.servers[nearest.server]["flags"])
        raise ServerError(
            f"no configuration fits {client.url}. Nearest is {nearest.server}: {nearest.right} of "
            f"{nearest.tried} cases, of which {ENOUGH:.0%} are wanted. It was started with {flags}. "
            f"--server {nearest.server} replays it all the same"
        )
    return good


def _rights(client: Client) -> dict[str, bool]:
    """Which of `RIGHTS` the server was started with, as far as it says."""
    found = {}
    for flag, request in RIGHTS.items():
        answer = client.post("/v1/chat/completions/render", {"model": served_model(client), **request})
        if answer.status in (200, 400):
            found[flag] = answer.status == 200
    return found


def _tried(server: Server, judge: Judge, case: Case, recording: Recording) -> tuple[bool, bool]:
    """Whether a case came out right, or nearly: see Fit. Not where nothing could be asked."""
    if case.api == "http":
        right = all(map(_fine, check_http(server, judge, case, recording)))
        return right, right
    rendered = list(check_render(server, judge, case))
    derendered: dict[str, list[Finding]] = {}
    if recording.generate is not None:
        derendered = Derendering(server, judge, case, recording).run_batch()
    if any(finding.aside == "absent" for finding in rendered) and not derendered:
        return False, False
    right = all(_fine(one) for found in derendered.values() for one in found)
    right = right and all(_fine(one) or one.aside == "absent" for one in rendered)
    # What a server counts or calls by chance is no part of the message.
    said = all(_fine(one) or one.path[:1] == ("usage",) for one in derendered.get("batch", ()))
    return right, right or (said and _same_prompt(server, case, recording))


def _fine(finding: Finding) -> bool:
    return bool(finding.declared) or finding.aside == "equivalent"


def _same_prompt(server: Server, case: Case, recording: Recording) -> bool:
    path = f"/v1/{ROUTES[case.api]}/render"
    if not server.offers(path):
        return True
    answer = server.client.post(path, server.renamed(case.request))
    try:
        body = answer.json()
        ids = [one["token_ids"] for one in body] if isinstance(body, list) else body["token_ids"]
    except (msgspec.DecodeError, LookupError, TypeError):
        return False
    return bool(ids == recording.prompt_token_ids)


def fits_folder(golden: Golden, folder: Path) -> list[Fit]:
    """Of every configuration, how many outputs the tokenizer in a folder writes with the recorded ids.

    OSError without a tokenizer.json; ValueError for one that cannot be read.
    """
    path = folder / "tokenizer.json"
    path.stat()
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path}: {error}") from error
    found = []
    for name in golden.servers:
        sample = list(_texts(golden, name))
        right = sum(
            tokenizer.encode(text, add_special_tokens=False).ids in (ids, ids[:-1]) for text, ids in sample
        )
        found.append(Fit(name, len(sample), right))
    return found


def _texts(golden: Golden, server: str) -> Iterator[tuple[str, list[int]]]:
    """Outputs and their recorded tokens, of the cases that give them as text."""
    recordings = golden.recordings(server)
    for case in golden.cases(server):
        recording = recordings.get(case.id)
        text = (case.output or {}).get("text")
        if text and recording is not None and recording.generate is not None:
            generate = recording.generate
            first = generate if isinstance(generate, dict) else generate[0]
            yield text, first["choices"][0]["token_ids"]


def _sample(golden: Golden, server: str) -> Sequence[Pair]:
    """Cases from all over a configuration, of those with an output where there are any."""
    recordings = golden.recordings(server)
    pairs = [(case, recordings[case.id]) for case in golden.cases(server) if case.id in recordings]
    rendered = [pair for pair in pairs if pair[0].api != "http"]
    scripted = [pair for pair in rendered if pair[0].output is not None]
    chosen = scripted or rendered or pairs
    return chosen[:: max(1, len(chosen) // SAMPLE)][:SAMPLE]
