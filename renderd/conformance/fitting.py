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
from renderd.conformance.reading import reading
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
"""The part of their prompts that has to be right. A server with a fault or two is still what it is."""

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


class Fit(msgspec.Struct):
    """How many of the cases of a configuration that were tried came out right.

    Attributes:
        right: were rendered as recorded. Of a model's folder: outputs with the recorded ids.
        prompts: had at least the recorded prompt, whatever the sampling parameters are written like.
        derendered, said: how many derender was asked, and how many have the recorded answer. What a server
            counts or calls by chance is no part of it.
    """

    server: str
    tried: int
    right: int = 0
    prompts: int = 0
    derendered: int = 0
    said: int = 0

    @property
    def good(self) -> bool:
        return self.tried > 0 and self.right >= ENOUGH * self.tried

    @property
    def prompted(self) -> bool:
        return self.tried > 0 and self.prompts >= ENOUGH * self.tried


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
        fit = Fit(name, len(sample))
        for case, recording in sample:
            with reading(client, {}, ""):  # what cannot be read is not right
                if other_tokens(server, case, recording):
                    strange.add(model)
                    fit = Fit(name, len(sample))
                    break
                _try(server, Judge(divergences, case, recording, server), case, recording, fit)
        found.append(fit)
    return found


def fitting(golden: Golden, client: Client, divergences: Divergences, progress: Progress) -> list[str]:
    """The configurations that a server is: prompts and token ids decide, and where these are the same for
    several, what else it answers.

    What is left out though its prompts fit is told on stderr. ServerError when nothing fits.
    """
    found = fits(client, golden, divergences, progress)
    groups = [group for group in _groups(golden, found) if any(fit.prompted for fit in group)]
    if not groups:
        nearest = max(found, key=lambda fit: fit.prompts / max(1, fit.tried), default=None)
        if nearest is None or not nearest.prompts:
            raise ServerError(f"no configuration in servers.toml fits {client.url}: another model, or flags")
        flags = shlex.join(golden.servers[nearest.server]["flags"])
        raise ServerError(
            f"no configuration fits {client.url}. Nearest is {nearest.server}: {nearest.prompts} of "
            f"{nearest.tried} prompts, of which {ENOUGH:.0%} are wanted. It was started with {flags}. "
            f"--server {nearest.server} replays it all the same"
        )
    chosen = {fit.server for group in _chosen(golden, groups) for fit in group}
    names = [fit.server for fit in found if fit.server in chosen]
    answered = [fit for fit in found if fit.server in chosen and fit.derendered]
    how = "" if any(fit.good for fit in found) else "rendered"
    if not how and answered and not any(_speaks([fit]) for fit in answered):
        how = "derendered"
    if how:
        _tell(golden, names, f"No configuration is {how} alike. Of these the prompts are the recorded ones:")
    left = [fit.server for group in groups for fit in group if fit.server not in chosen]
    if left:
        _tell(golden, left, "Not replayed, as another configuration's answers are nearer to this server's:")
    return names


def _chosen(golden: Golden, groups: Sequence[list[Fit]]) -> list[list[Fit]]:
    """Of groups with the right prompts those that a server may be, by what else it answers."""
    good = [group for group in groups if any(fit.good for fit in group)] or groups
    chosen = []
    for group in good:
        others = [other for other in good if _model(golden, other) == _model(golden, group)]
        # Without one that derenders alike it may be any of them, and one that was not asked is not another.
        asked = any(fit.derendered for fit in group)
        if not asked or _speaks(group) or not any(map(_speaks, others)):
            chosen.append(group)
    return chosen


def _groups(golden: Golden, fits: Sequence[Fit]) -> list[list[Fit]]:
    """Configurations by model and flags: a server is all of a group or none, whatever its faults in one."""
    found: dict[str, list[Fit]] = {}
    for fit in fits:
        table = golden.servers[fit.server]
        same = repr((table["model"], sorted(table["flags"]), table.get("env")))
        found.setdefault(same, []).append(fit)
    return list(found.values())


def _model(golden: Golden, group: Sequence[Fit]) -> str:
    return str(golden.servers[group[0].server]["model"])


def _speaks(group: Sequence[Fit]) -> bool:
    """Whether the derender route answers as recorded, as far as one can see."""
    asked = sum(fit.derendered for fit in group)
    return asked > 0 and sum(fit.said for fit in group) >= ENOUGH * asked


def _tell(golden: Golden, names: Sequence[str], what: str) -> None:
    started = (f"  {name}, started with {shlex.join(golden.servers[name]['flags'])}" for name in names)
    print(what, *started, sep="\n", file=sys.stderr)


def _rights(client: Client) -> dict[str, bool]:
    """Which of `RIGHTS` the server was started with, as far as it says."""
    found = {}
    for flag, request in RIGHTS.items():
        body = {"model": served_model(client), **request}
        with reading(client, {}, ""):
            answer = client.post("/v1/chat/completions/render", body)
            if answer.status in (200, 400):
                found[flag] = answer.status == 200
    return found


def _try(server: Server, judge: Judge, case: Case, recording: Recording, fit: Fit) -> None:
    """Count a case in, see Fit. Not where nothing could be asked."""
    if case.api == "http":
        right = all(map(_fine, check_http(server, judge, case, recording)))
        fit.right, fit.prompts = fit.right + right, fit.prompts + right
        return
    rendered = list(check_render(server, judge, case))
    derendered: dict[str, list[Finding]] = {}
    if recording.generate is not None:
        derendered = Derendering(server, judge, case, recording).run_batch()
    said = bool(derendered) and all(
        _fine(one) or one.path[:1] == ("usage",) for one in derendered.get("batch", ())
    )
    fit.derendered += bool(derendered)
    fit.said += said
    if any(finding.aside == "absent" for finding in rendered):
        # Then nothing but the tokenizer's ids, or derender's answers, says what it is.
        right = same = said or (bool(derendered) and server.ids("a") is not None)
    else:
        right = all(map(_fine, rendered))
        same = right or _same_prompt(server, case, recording)
    fit.right, fit.prompts = fit.right + right, fit.prompts + same


def _fine(finding: Finding) -> bool:
    return bool(finding.declared) or finding.aside == "equivalent"


def _same_prompt(server: Server, case: Case, recording: Recording) -> bool:
    path = f"/v1/{ROUTES[case.api]}/render"
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
