"""What holds for any derender server, whichever its model and parsers: no recording is needed.

* `stream`, `order`: any chunking of the same tokens amounts to the server's own whole answer;
* `repeat`: a call made again is answered alike;
* `hop`: a stream whose calls go to two replicas in turn is that of one of them;
* `text`: prose is said as it is, whole and streamed; of an output that begins with words something is said;
* `eager`: prose comes with the token after the one that completes it;
* `linear`: a chunk late in a long answer costs what one at its beginning costs;
* `errors`: what is wrong with a request is a 4xx in an error's envelope.

The texts are the outputs that the golden cases have for each family; the server's own tokenizer makes tokens
of them, and what its parsers make of another family's markup is their affair, as long as it holds. Where they
make nothing of it the output is streamed once, in chunks of any length: most calls would be for these.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from renderd.conformance import chunking
from renderd.conformance.cases import Case, Golden, Json, Recording
from renderd.conformance.checks import ROUTES, Finding, Judge, Server, absent, brief, failed, parsed
from renderd.conformance.derendering import Derendering, StreamRefused
from renderd.conformance.divergences import Divergences
from renderd.conformance.formats import assembly, is_answer
from renderd.conformance.malformed import Unreadable
from renderd.conformance.reading import gathered, reading
from renderd.conformance.runner import Progress, Result, ServerError, quiet
from renderd.conformance.texts import MARKUP, MARKUP_BEGINS

LONG = 1500
"""Tokens of the long answer."""

RATIO = 2.0
"""How much dearer one of its last chunks may be than one of its first."""

PROSE = (
    "The harbour lay quiet. Gulls stood on the wall, and nobody had yet opened the shutters of the café; "
    "a dog slept in the only patch of sun. 早上好, said the old man, Grüß Gott, and laughed 🙂 at his own "
    "joke. "
)
_GREETING = {"role": "user", "content": "Tell me about the harbour."}
DERENDER = f"/v1/{ROUTES['chat']}/derender"
RENDER = f"/v1/{ROUTES['chat']}/render"
TOKENIZERS = ("/tokenize", f"/v1/{ROUTES['completion']}/render")
"""Routes that say the tokens of a text."""


def check(
    server: Server,
    golden: Golden,
    replica: Server | None,
    wanted: Callable[[Case], bool] = lambda case: True,
    progress: Progress = quiet,
    results: list[Result] | None = None,
) -> list[Result]:
    """All of it. Raises ServerError where the server tokenizes nothing, Gone. `results` as in replay."""
    cases = [case for case in [*_special(), *_texts(golden)] if wanted(case)]
    results = [] if results is None else results
    for done, case in enumerate(cases):
        progress(done, len(cases), case.id)
        found: dict[str, list[Finding]] = {}
        with reading(server.client, found, _CHECKS.get(case.api, "stream")):
            for name, findings in _check(server, replica, case):
                gathered(findings, found.setdefault(name, []))
        results.append(Result(case, found, case.server))
    return results


_CHECKS = {"errors": "errors", "linear": "linear", "eager": "eager"}
"""What is said to have found an answer that cannot be read, by `api` of a case."""


def _special() -> Iterator[Case]:
    """The cases of this module's own texts. Their `api` says which check they are for."""
    request = {"messages": [_GREETING]}
    yield Case(
        "invariants/eager-prose", "any", "eager", request, {"text": PROSE}, about="Prose comes at once"
    )
    about = f"A chunk of an answer of {LONG} tokens"
    yield Case("invariants/linear-cost", "any", "linear", request, {"text": PROSE}, about=about)
    for path, name in ((RENDER, "render"), (DERENDER, "derender")):
        for what, body in BROKEN.items():
            asked = {"method": "POST", "path": path, "text": body}
            yield Case(f"invariants/{name}-{what}", "any", "errors", asked, about=f"{name}: {what}")


def lacks_derender(results: Iterable[Result]) -> bool:
    """Whether what most of it asks was not offered."""
    lacking = absent("POST", DERENDER)
    return any(lacking in findings for result in results for findings in result.found.values())


BROKEN = {
    "no-json": "{",
    "no-object": "[]",
    "nothing": "{}",
    "wrong-types": '{"messages": 3, "generate_response": "x", "stream": "y"}',
    "unknown-model": '{"model": "no-such-model", "messages": [{"role": "user", "content": "x"}], '
    '"generate_response": {"request_id": "x", "choices": []}, "prompt_tokens": 1}',
    "foreign-state": '{"stream": true, "prompt_tokens": 1, "stream_state": "???", "messages": 3, '
    '"generate_chunk": {"request_id": "x", "choices": [], "usage": null}}',
}
"""Bodies that no server can answer, whole or as one chunk of a stream."""


def _texts(golden: Golden) -> Iterator[Case]:
    """Outputs of every family: the longest, and the one with most characters that are no ASCII. Those that an
    earlier family has too are left out."""
    known: set[str] = set()
    chosen: dict[str, list[Case]] = {}
    for server in golden.servers:
        chosen.setdefault(golden.family(server), []).extend(
            case
            for case in golden.cases(server)
            if case.api == "chat" and (case.output or {}).get("text") and case.request.get("n", 1) == 1
        )
    for family, cases in chosen.items():
        if not cases:
            continue
        longest = max(cases, key=lambda case: len(case.text(0)[:600]))
        widest = max(cases, key=lambda case: sum(character > "~" for character in case.text(0)))
        for number, case in enumerate([longest] if widest is longest else [longest, widest], 1):
            if case.text(0) in known:
                continue
            known.add(case.text(0))
            request: Json = {key: case.request[key] for key in ("messages", "tools") if key in case.request}
            name = f"invariants/{family.replace(' ', '')}-{number}"
            yield Case(name, family, "chat", request, case.output, about=case.id, areas=["chunking"])


def _check(server: Server, replica: Server | None, case: Case) -> Iterator[tuple[str, Iterable[Finding]]]:
    """Checks, each with what it finds."""
    if case.api == "errors":
        yield "errors", _errors(server, case)
        return
    if not server.offers(DERENDER):
        yield "stream", [absent("POST", DERENDER)]
        return
    if case.api in ("eager", "linear"):
        yield from _prose(server, case)
        return
    text = case.text(0)
    ids = _ids(server, text)
    derendering = _derendering(server, case, ids)
    whole = derendering.whole()
    if failed(whole) and whole["status"] == 400 and case.request.pop("tools", None):
        derendering = _derendering(server, case, ids)  # there may be no parser for calls
        whole = derendering.whole()
    if not is_answer(whole):  # a stream that fails as well would be equal to it
        yield "stream", [Finding(f"no answer to tokens of the server's own: {brief(whole)}")]
        return
    said = _said(whole)
    if not said and not whole["choices"][0]["message"].get("tool_calls"):
        begins = MARKUP_BEGINS.split(text)[0].strip()
        if any(character.isalnum() for character in begins):
            yield "text", [Finding(f"nothing is said of an output that begins {brief(begins)}")]
    yield "stream", []
    if said.endswith(text.strip()):
        derendering = _derendering(server, case, ids, random.Random(case.id))
        found = derendering.run_once()
    else:
        found = derendering.run()
    # With nothing recorded two checks compare nothing; what the first finds besides is kept.
    for name, findings in found.items():
        if findings or name not in ("batch", "coupled"):
            yield name, findings
    if replica is not None:
        yield "hop", derendering.run_hops(replica)


def _prose(server: Server, case: Case) -> Iterator[tuple[str, Iterable[Finding]]]:
    """Prose is said as it is, ends aside, be it as content or reasoning; and at once, or at the same cost."""
    text = case.text(0)
    if case.api == "linear":
        text *= LONG // max(1, len(_ids(server, text))) + 1
    ids = _ids(server, text)
    derendering = _derendering(server, case, ids)
    whole = derendering.whole()
    if not is_answer(whole):
        yield "text", [Finding(f"no answer to tokens of the server's own: {brief(whole)}")]
        return
    yield "text", _other_text("whole", text, whole)
    try:
        chunks, times = _streamed(derendering, ids)
        streamed = assembly([chunk for news in chunks for chunk in news]).answer()
        yield "text", _other_text("streamed", text, streamed)
        if case.api == "eager":
            yield "eager", list(_eager(derendering, ids, chunks))
        else:
            yield "linear", list(_linear(derendering, ids, times))
    except StreamRefused as refused:
        yield case.api, [Finding(str(refused))]


def _other_text(how: str, text: str, answer: Any) -> Iterator[Finding]:
    """A parser may put a marker in front: minimax_m2_append_think writes the `<think>` of the prompt."""
    wanted, said = text.strip(), _said(answer).strip()
    front = MARKUP.match(said)
    if wanted not in (said, said[front.end() if front else 0 :].strip()):
        yield Finding(f"{how}: wanted {brief(wanted)}, said {brief(said)}", values=(wanted, said))


def _streamed(derendering: Derendering, ids: list[int]) -> tuple[list[list[Json]], list[float]]:
    """What each token brings, and the seconds that its call takes. StreamRefused."""
    chunks: list[list[Json]] = []
    times = []
    began = time.perf_counter()
    for said in derendering.chunks_of(chunking.events(_generate(ids), 0, 1)):
        times.append(time.perf_counter() - began)
        chunks.append(said)
        began = time.perf_counter()
    return chunks, times


def _ids(server: Server, text: str) -> list[int]:
    """Raises Unreadable, and ServerError where no route says tokens."""
    ids = server.ids(text)
    if ids is not None:
        return ids
    if any(server.offers(path) for path in TOKENIZERS):
        raise Unreadable(f"{server.client.url} does not say the tokens of a text")
    raise ServerError(f"{server.client.url} has no route that says the tokens of a text")


def _derendering(server: Server, case: Case, ids: list[int], size: int | random.Random = 1) -> Derendering:
    """Of tokens that come so many at once."""
    prompt = _ids(server, str(case.request["messages"][-1]["content"]))
    recording = Recording(case.id, prompt_token_ids=prompt or ids[:1], generate=_generate(ids))
    events = [*chunking.events(_generate(ids), 0, size), chunking.usage_event(_generate(ids))]
    recording.generate_sse = "".join(f"data: {msgspec.json.encode(one).decode()}\n\n" for one in events)
    asked = Case(case.id, case.server, "chat", {"model": server.model, **case.request}, case.output)
    return Derendering(server, Judge(Divergences([]), asked, recording), asked, recording)


def _generate(ids: list[int]) -> Json:
    choice = {"index": 0, "finish_reason": "stop", "stop_reason": None, "token_ids": ids, "logprobs": None}
    return {"request_id": "generate-tokens-invariants", "choices": [choice], "prompt_token_ids": None}


def _said(answer: Any) -> str:
    """Reasoning and content of a batch or streamed answer, as one text without what ends in white space.
    None as long as no chunk has a choice."""
    if not answer["choices"]:
        return ""
    message = answer["choices"][0]["message"]
    return ((message.get("reasoning") or "") + (message.get("content") or "")).rstrip()


def _eager(derendering: Derendering, ids: list[int], streamed: list[list[Json]]) -> Iterator[Finding]:
    """Every prefix of the answer, whole, says no more than the stream has said one token later."""
    chunks: list[Json] = []
    before = ""
    for at, news in enumerate(streamed):
        chunks += news
        said = _said(assembly(chunks).answer())
        if not said.startswith(before):
            yield Finding(f"after {at + 1} tokens the stream has not said all of {at}", values=(before, said))
            return
        whole = derendering.whole(_generate(ids[: at + 1]))
        if not is_answer(whole):
            yield Finding(f"no answer to the first {at + 1} tokens: {brief(whole)}")
            return
        before = _said(whole).rstrip("\ufffd").rstrip()


def _linear(derendering: Derendering, ids: list[int], times: list[float]) -> Iterator[Finding]:
    """The median time of the calls of the last tenth, beside that of the second tenth: the best of three.
    `times`: of the first. StreamRefused."""
    found = []
    for again in range(3):
        if again:
            _, times = _streamed(derendering, ids)
        tenth = len(times) // 10
        early, late = statistics.median(times[tenth : 2 * tenth]), statistics.median(times[-tenth:])
        found.append((late / early, early, late))
        if late <= RATIO * early:
            return
        if late > 2 * RATIO * early:  # so much is no busy machine
            break
    ratio, early, late = min(found)
    yield Finding(
        f"a chunk takes {early * 1e3:.2f} ms early in the answer and {late * 1e3:.2f} ms at its end, "
        f"{ratio:.1f} times as long; at most {RATIO} is linear"
    )


def _errors(server: Server, case: Case) -> Iterator[Finding]:
    """A 4xx whose body is `{"error": {message, type, param, code}}`, the code being the status."""
    request = case.request
    if not server.offers(request["path"]):
        yield absent("POST", request["path"])
        return
    body = request["text"].encode()
    answer = server.client.send("POST", request["path"], body, {"Content-Type": "application/json"})
    if not 400 <= answer.status < 500:
        yield Finding(f"status {answer.status}, wanted a 4xx: {answer.body[:300].decode(errors='replace')}")
        return
    try:
        error = answer.json()["error"]
        right = isinstance(error["message"], str) and isinstance(error["type"], str) and "param" in error
        right = right and error["code"] == answer.status
    except (msgspec.DecodeError, LookupError, TypeError):
        right = False
    if not right:
        wanted = {"error": {"message": "...", "type": "...", "param": None, "code": answer.status}}
        yield Finding("no error envelope", values=(wanted, parsed(answer)))
