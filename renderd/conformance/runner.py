"""All cases of one configuration against one server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from renderd.conformance.cases import Case, Golden, Recording
from renderd.conformance.checks import Finding, Judge, Server, check_http, check_render
from renderd.conformance.client import Client
from renderd.conformance.derendering import Derendering
from renderd.conformance.divergences import Divergences

Outcome = Literal["pass", "declared", "fail"]


class Result(msgspec.Struct):
    """What the checks of a case found, by check."""

    case: Case
    found: dict[str, list[Finding]]

    def outcome(self, check: str | None = None) -> Outcome:
        """Of one check, or of all."""
        findings = [
            finding for name, several in self.found.items() if check in (None, name) for finding in several
        ]
        if any(not finding.declared for finding in findings):
            return "fail"
        return "declared" if findings else "pass"


class ServerError(Exception):
    """The server is not one that cases can be replayed against."""


def served_model(client: Client) -> str:
    """The first name in /v1/models. Raises ServerError, or OSError when nobody answers."""
    try:
        answer = client.get("/v1/models")
        name = answer.json()["data"][0]["id"] if answer.status == 200 else None
    except (msgspec.DecodeError, LookupError, TypeError):
        name = None
    if not isinstance(name, str):
        raise ServerError(f"{client.url}/v1/models does not say which model is served")
    return name


def recorded_model(golden: Golden, server: str) -> str:
    """The name that a configuration's recordings call the model by."""
    flags = golden.servers[server]["flags"]
    if "--served-model-name" in flags:
        return str(flags[flags.index("--served-model-name") + 1])
    return str(golden.servers[server]["model"])


def replay(
    client: Client,
    golden: Golden,
    divergences: Divergences,
    server: str,
    wanted: Callable[[Case], bool] = lambda case: True,
) -> list[Result]:
    """Ask the wanted cases of a configuration. Raises ServerError, OSError, ValueError (a malformed file)."""
    table = golden.servers[server]
    engine = table.get("kind") == "engine"
    asked = Server(client, served_model(client), recorded_model(golden, server), engine)
    recordings = golden.recordings(server)
    return [
        Result(case, _check(asked, divergences, case, recordings.get(case.id)))
        for case in golden.cases(server)
        if wanted(case)
    ]


def _check(
    server: Server, divergences: Divergences, case: Case, recording: Recording | None
) -> dict[str, list[Finding]]:
    if recording is None:
        return {"recording": [Finding("nothing was recorded: run python -m golden.record")]}
    judge = Judge(divergences, case, recording)
    if case.api == "http":
        return {"http": list(check_http(server, judge, case, recording))}
    found = {"render": list(check_render(server, judge, case))}
    if recording.generate is not None:
        found |= Derendering(server, judge, case, recording).run()
    return found


def unneeded(divergences: Divergences, golden: Golden, results: Iterable[Result]) -> list[str]:
    """Sentences about divergences that none of the answers needed though their cases were asked."""
    known = [case for server in golden.servers for case in golden.cases(server)]
    return divergences.stale((result.case for result in results), known)
