"""Two live servers compared on the same requests: the other one's answers stand for a recording."""

from __future__ import annotations

from typing import Any

import msgspec

from renderd.conformance.cases import Case, Recording
from renderd.conformance.checks import (
    ROUTES,
    Finding,
    Judge,
    Server,
    absent,
    check_http,
    check_render,
    http_answer,
)
from renderd.conformance.client import Answer
from renderd.conformance.derendering import Derendering
from renderd.conformance.divergences import Divergences

NOTHING = Divergences([])
"""No difference between two live servers is declared."""


def check(server: Server, other: Server, case: Case, recording: Recording) -> dict[str, list[Finding]]:
    """Findings of a case by check. Of its recording only what the engine generated is used. OSError."""
    witness = Recording(id=case.id, prompt_token_ids=recording.prompt_token_ids)
    # In the answers of the other server the model has the other server's name.
    judged = Server(server.client, server.model, other.model, server.engine, server.equivalents)
    if case.api == "http":
        answer = http_answer(other, case)
        witness.status, witness.body = answer.status, _body(answer)
        kept = answer.headers.get("content-type")
        witness.headers = {"content-type": kept} if kept else {}
        lacking = _lacking(server, other, case.request["path"], case.request["method"], answer.status)
        if lacking:
            return {"http": [lacking]}
        return {"http": list(check_http(server, Judge(NOTHING, case, witness, judged), case, witness))}

    found: dict[str, list[Finding]] = {}
    path = f"/v1/{ROUTES[case.api]}/render"
    missing = _lacking(server, other, path)
    if missing:
        found["render"] = [missing]
    else:
        answer = other.client.post(path, other.renamed(case.request))
        witness.status, witness.render = answer.status, _body(answer)
        found["render"] = list(check_render(server, Judge(NOTHING, case, witness, judged), case))
    if recording.generate is None:
        return found
    missing = _lacking(server, other, f"/v1/{ROUTES[case.api]}/derender")
    if missing:
        return found | {"batch": [missing]}
    witness.generate, witness.generate_sse = recording.generate, recording.generate_sse
    asked = Derendering(other, Judge(NOTHING, case, witness), case, witness)
    witness.derender_batch, witness.derender_stream = asked.answers()
    judge = Judge(NOTHING, case, witness, judged)
    return found | Derendering(server, judge, case, witness).run_once()


def _lacking(
    server: Server, other: Server, path: str, method: str = "POST", status: int = 404
) -> Finding | None:
    """Whether one of the two does not have a route that the other has. `status`: the other's answer."""
    if not server.offers(path, method):
        return absent(method, path)
    if status == 404 and not other.offers(path, method):
        return Finding(f"not offered by {other.client.url}: {method} {path}", aside="absent")
    return None


def _body(answer: Answer) -> Any:
    try:
        return answer.json()
    except msgspec.DecodeError:
        return answer.body.decode(errors="replace")
