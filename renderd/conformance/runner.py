"""All cases of one configuration against one server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import msgspec

from renderd.conformance.cases import REFERENCE, Case, Golden, Recording
from renderd.conformance.checks import Finding, Judge, Server, check_http, check_render
from renderd.conformance.client import Client
from renderd.conformance.derendering import Derendering
from renderd.conformance.divergences import Divergences
from renderd.conformance.equivalents import Equivalents
from renderd.conformance.reading import gathered, reading

Outcome = Literal["pass", "equivalent", "declared", "fail", "absent", "unfit"]
OUTCOMES: tuple[Outcome, ...] = ("pass", "equivalent", "declared", "fail", "absent", "unfit")


class Result(msgspec.Struct):
    """What the checks of a case found, by check. `family`: the parsers of its configuration."""

    case: Case
    found: dict[str, list[Finding]]
    family: str = ""

    def outcome(self, check: str | None = None) -> Outcome:
        """Of one check, or of all. What the server lacks is no pass, whatever else was right."""
        findings = [
            finding for name, several in self.found.items() if check in (None, name) for finding in several
        ]
        if any(not finding.declared and not finding.aside for finding in findings):
            return "fail"
        for aside in ("unfit", "absent"):
            if any(finding.aside == aside for finding in findings):
                return aside
        if any(finding.declared for finding in findings):
            return "declared"
        return "equivalent" if findings else "pass"


class ServerError(Exception):
    """The server is not one that cases can be replayed against."""


def served_model(client: Client) -> str:
    """The first name in /v1/models. Raises ServerError, or OSError when nobody answers."""
    answer = client.get("/v1/models")
    try:
        name = answer.json()["data"][0]["id"] if answer.status == 200 else None
    except (msgspec.DecodeError, LookupError, TypeError):
        name = None
    if not isinstance(name, str):
        hint = ": --api-key is for servers that want a key" if answer.status in (401, 403) else ""
        raise ServerError(
            f"{client.url}/v1/models, {answer.status}, does not say which model is served{hint}"
        )
    return name


def recorded_model(golden: Golden, server: str) -> str:
    """The name that a configuration's recordings call the model by."""
    flags = golden.servers[server]["flags"]
    if "--served-model-name" in flags:
        return str(flags[flags.index("--served-model-name") + 1])
    return str(golden.servers[server]["model"])


Check = Callable[[Server, Case, Recording], dict[str, list[Finding]]]
"""What is asked for a case and found, by check. Raises OSError."""

Progress = Callable[[int, int, str], None]
"""Is told how many cases are done, of how many, and the id of the next one."""


def quiet(done: int, total: int, name: str) -> None:
    """Nobody is told."""


def replay(
    client: Client,
    golden: Golden,
    divergences: Divergences,
    server: str,
    wanted: Callable[[Case], bool] = lambda case: True,
    progress: Progress = quiet,
    check: Check | None = None,
    results: list[Result] | None = None,
) -> list[Result]:
    """Ask the wanted cases of a configuration. Raises ServerError, OSError, ValueError (a malformed file).

    Each result is added to `results` as it comes: there they are too when the server is gone.
    Another reference than the usual one may lack some, which are left out.
    `check` is done instead of the comparison with what was recorded.
    """
    asked = server_under_test(client, golden, server)
    recordings = golden.recordings(server)
    cases = [
        case
        for case in golden.cases(server)
        if wanted(case) and (case.id in recordings or golden.reference == REFERENCE)
    ]
    family = golden.family(server)
    compare = check or partial(_compare, divergences=divergences)
    results = [] if results is None else results
    for done, case in enumerate(cases):
        progress(done, len(cases), case.id)
        results.append(Result(case, _found(asked, case, recordings.get(case.id), compare), family))
    return results


def server_under_test(client: Client, golden: Golden, server: str) -> Server:
    """A server taken for one of a configuration. Raises ServerError, OSError."""
    engine = golden.servers[server].get("kind") == "engine"
    equivalents = Equivalents.load(golden.folder)
    return Server(client, served_model(client), recorded_model(golden, server), engine, equivalents)


def _found(server: Server, case: Case, recording: Recording | None, check: Check) -> dict[str, list[Finding]]:
    if recording is None:
        return {"recording": [Finding("nothing was recorded: run python -m golden.record")]}
    found: dict[str, list[Finding]] = {}
    with reading(server.client, found, "answer"):
        other = other_tokens(server, case, recording)
        found |= {"tokens": [Finding(other, aside="unfit")]} if other else check(server, case, recording)
    return found


def _compare(
    server: Server, case: Case, recording: Recording, divergences: Divergences
) -> dict[str, list[Finding]]:
    judge = Judge(divergences, case, recording, server)
    if case.api == "http":
        return {"http": gathered(check_http(server, judge, case, recording))}
    if lacking := recording.lacking(case):
        return {"recording": [Finding(lacking)]}
    found = {"render": gathered(check_render(server, judge, case))}
    if recording.generate is not None:
        found |= Derendering(server, judge, case, recording).run()
    return found


def other_tokens(server: Server, case: Case, recording: Recording) -> str:
    """What shows that the server's tokenizer is not the one that a case was recorded with; "" for nothing."""
    generate = recording.generate
    text = (case.output or {}).get("text")
    if not text or generate is None:
        return ""
    first = generate if isinstance(generate, dict) else generate[0]
    want = first["choices"][0]["token_ids"]
    got = server.ids(text)
    if got is None or got == want[: len(got)]:
        return ""
    at = next((i for i, pair in enumerate(zip(want, got, strict=False)) if pair[0] != pair[1]), len(want))
    return f"another tokenizer: the output's token {at} is {want[at : at + 1]}, here {got[at : at + 1]}"


def unneeded(divergences: Divergences, golden: Golden, results: Iterable[Result]) -> list[str]:
    """Sentences about divergences that none of the answers needed though their cases were asked."""
    known = [case for server in golden.servers for case in golden.cases(server)]
    return divergences.stale((result.case for result in results), known)
