"""Two live servers compared on the same requests: the other one's answers stand for a recording."""

from __future__ import annotations

from typing import Any

import msgspec

from renderd.conformance.cases import Case, Recording
from renderd.conformance.checks import (
    NOT_OFFERED,
    ROUTES,
    Finding,
    Judge,
    Server,
    absent,
    brief,
    check_http,
    check_render,
    failed,
    http_answer,
)
from renderd.conformance.client import Answer
from renderd.conformance.derendering import Derendering
from renderd.conformance.divergences import Divergences
from renderd.conformance.reading import gathered, reading

NOTHING = Divergences([])
"""No difference between two live servers is declared."""


def check(server: Server, other: Server, case: Case, recording: Recording) -> dict[str, list[Finding]]:
    """Findings of a case by check. Of its recording only what the engine generated is used. OSError."""
    witness = Recording(id=case.id, prompt_token_ids=recording.prompt_token_ids)
    # In the answers of the other server the model has the other server's name.
    judged = Server(server.client, server.model, other.model, server.engine, server.equivalents)
    found: dict[str, list[Finding]] = {}
    if case.api == "http":
        with reading(other.client, found, "http"):
            answer = http_answer(other, case)
            witness.status, witness.body = answer.status, _body(answer)
            kept = answer.headers.get("content-type")
            witness.headers = {"content-type": kept} if kept else {}
            witness.view("http")
            with reading(server.client, found, "http"):
                judge = Judge(NOTHING, case, witness, judged)
                found["http"] = list(check_http(server, judge, case, witness))
                path, method = case.request["path"], case.request["method"]
                if found["http"] and answer.status in NOT_OFFERED and not other.offers(path, method):
                    found["http"] = [_lacked(other, path, method)]
        return found

    path = f"/v1/{ROUTES[case.api]}/render"
    with reading(other.client, found, "render"):
        missing = _lacking(server, other, path)
        if missing:
            found["render"] = [missing]
        else:
            answer = other.client.post(path, other.renamed(case.request))
            witness.status, witness.render = answer.status, _body(answer)
            found["render"] = _comparable(other, path, witness.view("render"))
            with reading(server.client, found, "render"):
                gathered(check_render(server, Judge(NOTHING, case, witness, judged), case), found["render"])
    if recording.generate is None:
        return found
    path = f"/v1/{ROUTES[case.api]}/derender"
    with reading(other.client, found, "batch"):
        missing = _lacking(server, other, path)
        if missing:
            return found | {"batch": [missing]}
        witness.generate, witness.generate_sse = recording.generate, recording.generate_sse
        asked = Derendering(other, Judge(NOTHING, case, witness), case, witness)
        witness.derender_batch, witness.derender_stream = asked.answers()
        found["batch"] = _comparable(other, path, witness.view("batch"))
        if witness.derender_stream is not None:
            found["coupled"] = _comparable(other, f"{path}, streamed,", witness.view("stream"))
        judge = Judge(NOTHING, case, witness, judged)
        for name, findings in Derendering(server, judge, case, witness).run_once().items():
            found.setdefault(name, []).extend(findings)
    return found


def _comparable(other: Server, path: str, view: Any) -> list[Finding]:
    """Why an answer says nothing that another could be compared with: to be alike is not to be right then."""
    lists = ("token_ids",) if path.endswith("/render") else ("choices", "content", "output")
    parts = view if isinstance(view, list) else [view]
    for part in parts:
        if not isinstance(part, dict):
            break
        some = part.get("choices") != [] and any(isinstance(part.get(key), list) for key in lists)
        if not failed(part) and not some:
            break
    else:
        if parts:
            return []
    return [Finding(f"nothing to compare with: {path} of {other.client.url} answers {brief(view)}")]


def _lacking(server: Server, other: Server, path: str) -> Finding | None:
    """Whether one of the two does not have a route that the other has."""
    if not server.offers(path):
        return absent("POST", path)
    return None if other.offers(path) else _lacked(other, path)


def _lacked(other: Server, path: str, method: str = "POST") -> Finding:
    return Finding(f"not offered by {other.client.url}: {method} {path}", aside="absent")


def _body(answer: Answer) -> Any:
    try:
        return answer.json()
    except msgspec.DecodeError:
        return answer.body.decode(errors="replace")
