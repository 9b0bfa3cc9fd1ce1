"""What answers must be: compared with the recorded ones, a difference judged by the divergences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr

from renderd.conformance.bounds import cut, cut_path, cut_text
from renderd.conformance.cases import Case, Failure, Json, Recording, answer_or_failure, readable
from renderd.conformance.client import Answer, Client
from renderd.conformance.compare import Difference, Rules, differences
from renderd.conformance.defects import UNKNOWN
from renderd.conformance.divergences import Divergences, Verdict, Where
from renderd.conformance.equivalents import Equivalents
from renderd.conformance.paths import ABSENT, Path, show
from renderd.conformance.rules import ENGINE, ERROR, HTTP, RENDER, SCHEMA_ERROR


class Finding(msgspec.Struct, frozen=True):
    """A difference, or why nothing could be compared.

    Attributes:
        what: a sentence.
        declared: the id of the divergence that allows it, empty for a failure.
        aside: why it is no failure though undeclared: the server has no such route ("absent"), the case is
            not for its tokenizer ("unfit"), or no engine notices the difference ("equivalent").
        values: the recorded value and the one that came, where two were compared; long ones are cut.
        path: where in the answer they lie; "error" before the path in an error, "header" before a name.
    """

    what: str
    declared: str = ""
    aside: Literal["", "absent", "unfit", "equivalent"] = ""
    values: tuple[Any, Any] | None = None
    path: Path = ()

    def __post_init__(self) -> None:
        values = self.values and (cut(self.values[0]), cut(self.values[1]))
        for name, value in (("what", cut_text(self.what)), ("values", values), ("path", cut_path(self.path))):
            force_setattr(self, name, value)


class Server:
    """A server under test.

    `model` is the name it serves, `recorded_model` the recordings' one: requests are made with the former. An
    `engine` is no render server but a tokens-only engine. `equivalents`: what may differ in what it renders.
    """

    def __init__(
        self,
        client: Client,
        model: str,
        recorded_model: str,
        engine: bool = False,
        equivalents: Equivalents | None = None,
    ) -> None:
        self.client = client
        self.engine = engine
        self.equivalents = equivalents
        self.model = model
        self.recorded_model = recorded_model
        self._offered: dict[tuple[str, str], bool] = {}

    def renamed(self, value: Any) -> Any:
        """A request or an answer of the recordings as this server has it: by its own name for the model."""
        return value if self.model == self.recorded_model else self._renamed(value)

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._renamed(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        renamed = type(value)((key, self._renamed(inner)) for key, inner in value.items())
        for key in ("model", "id"):
            if renamed.get(key) == self.recorded_model:
                renamed[key] = self.model
        if isinstance(renamed.get("message"), str):
            for said in NAMING:
                recorded, own = (said.format(name) for name in (self.recorded_model, self.model))
                renamed["message"] = renamed["message"].replace(recorded, own)
        return renamed

    def named(self, answer: Any) -> Any:
        """An answer of this server with its name for the model: in an error it takes a path out, or part of
        one, with the full stop behind it or without."""
        if failed(answer) and isinstance(answer["message"], str):
            for said in NAMING:
                masked = re.escape(said.rstrip(".")).replace(r"\{\}", r"[^\s<]*<path>\S*")
                named = said.format(self.model).replace("\\", r"\\")
                message = re.sub(rf"(?<!\S){masked}", named, answer["message"])
                answer = Failure({**answer, "message": message})
        return answer

    def offers(self, path: str, method: str = "POST") -> bool:
        """Whether there is such a route at all. A body that lacks everything is a 400 where there is one."""
        known = self._offered.get((method, path))
        if known is None:
            body = b"{}" if method == "POST" else None
            answer = self.client.send(method, path, body, {"Content-Type": "application/json"})
            known = self._offered[method, path] = answer.status not in NOT_OFFERED
        return known

    @cached_property
    def window(self) -> int | None:
        """How many tokens prompt and answer may have together, as far as /v1/models says."""
        try:
            return int(self.client.get("/v1/models").json()["data"][0]["max_model_len"])
        except (msgspec.DecodeError, LookupError, TypeError):
            return None

    def ids(self, text: str) -> list[int] | None:
        """The tokens of a text by the server's own tokenizer. None where no route says."""
        body = {"model": self.model, "prompt": text, "add_special_tokens": False}
        try:
            if self.offers("/tokenize"):
                answer = self.client.post("/tokenize", body)
                return list(answer.json()["tokens"]) if answer.status == 200 else None
            if self.offers("/v1/completions/render"):
                answer = self.client.post("/v1/completions/render", body | {"max_tokens": 1})
                return list(answer.json()[0]["token_ids"]) if answer.status == 200 else None
        except (msgspec.DecodeError, LookupError, TypeError):
            pass
        return None


NAMING = ("Valid aliases: {}.", "{} is not a multimodal model")
"""What errors say of the model by its name."""

NOT_OFFERED = (404, 405, 501)
"""Statuses of a route that is not there."""


def absent(method: str, path: str) -> Finding:
    """What is said of a route that the server does not have."""
    return Finding(f"not offered: {method} {path}", aside="absent")


class Judge:
    """Compares the answers to one case with its recording."""

    def __init__(
        self, divergences: Divergences, case: Case, recording: Recording, server: Server | None = None
    ) -> None:
        self._divergences = divergences
        self._case = case
        self._recording = recording
        self._server = server

    def compare(self, where: Where, got: Any, rules: Rules, own_batch: Any = UNKNOWN) -> Iterator[Finding]:
        """How `got`, an answer or what `failure` makes of one, differs. None where nothing was recorded."""
        want = self._recording.view(where)
        if want is ABSENT:
            return
        if self._server is not None:
            want, got = map(self._server.named, (self._server.renamed(want), got))
        if not failed(want) and not failed(got):
            yield from self._differing(where, want, got, rules, own_batch)
            return
        said = (got if failed(got) else want)["message"]
        left, right, error_rules = comparable_failures(want, got)
        for difference in differences(left, right, error_rules):
            verdict = self._judge("error", left, right, difference, UNKNOWN)
            found = self._finding(difference, verdict, "error")
            if difference.path == ("status",):
                found = msgspec.structs.replace(found, what=f"{found.what} ({brief(said)})")
            yield found
            if verdict.entry is not None and not failed(got) and where != "stream":
                # The whole answer is compared with ours, and a stream with that of the same server.
                ours = verdict.entry.answer(self._case)
                ours = ours if self._server is None else self._server.renamed(ours)
                yield from self._differing(where, ours, got, rules, None)

    def _differing(
        self, where: Where, want: Any, got: Any, rules: Rules, own_batch: Any
    ) -> Iterator[Finding]:
        """How two answers differ. Without `own_batch` nothing may that an engine notices."""
        for difference in differences(want, got, rules):
            judged = own_batch is not None
            verdict = self._judge(where, want, got, difference, own_batch) if judged else None
            found = self._finding(difference, verdict)
            values = (difference.want, difference.got)
            if not found.declared and self._renders(where) and self._equivalent(want, found.path, *values):
                found = Finding(_told(difference), aside="equivalent", values=values, path=found.path)
            yield found

    def _judge(self, where: Where, want: Any, got: Any, difference: Difference, own_batch: Any) -> Verdict:
        return self._divergences.judge(self._case, self._recording, where, want, got, difference, own_batch)

    def _finding(self, difference: Difference, verdict: Verdict | None, *before: str) -> Finding:
        what = _told(difference)
        entry = None if verdict is None else verdict.entry
        if verdict and not entry and self._divergences.entries:  # names for defects say nothing without any
            what = "; ".join([what, *verdict.why_not])
            what += f" (the recorded value shows: {', '.join(verdict.shown) or 'no defect'})"
        declared = "" if entry is None else entry.id
        values = (difference.want, difference.got)
        return Finding(what, declared, values=values, path=(*before, *difference.path))

    def _renders(self, where: Where) -> bool:
        http = self._case.request.get("path", "").partition("?")[0] if where == "http" else ""
        return where == "render" or http.endswith("/render")

    def _equivalent(self, whole: Any, path: Path, want: Any, got: Any) -> bool:
        server = self._server
        if server is None or server.equivalents is None:
            return False
        return server.equivalents.allow(whole, path, want, got, server.window)


def check_render(server: Server, judge: Judge, case: Case) -> Iterator[Finding]:
    """The render route's body equals the recorded one key by key."""
    path = f"/v1/{ROUTES[case.api]}/render"
    if not server.offers(path):
        yield absent("POST", path)
        return
    answer = server.client.post(path, server.renamed(case.request))
    yield from judge.compare("render", parsed(answer), RENDER)
    yield from untyped(answer)


def http_answer(server: Server, case: Case) -> Answer:
    """The answer of any route to a request given as it goes over the wire."""
    request = case.request
    body: bytes | None = None
    if "text" in request:  # it may be no JSON
        body = request["text"].replace(f'"{server.recorded_model}"', f'"{server.model}"').encode()
    if "json" in request:
        body = msgspec.json.encode(server.renamed(request["json"]))
    headers = request.get("headers", {"Content-Type": "application/json"} if body is not None else {})
    return server.client.send(request["method"], request["path"], body, headers)


def check_http(server: Server, judge: Judge, case: Case, recording: Recording) -> Iterator[Finding]:
    """The answer of any route equals the recorded one."""
    method, path = case.request["method"], case.request["path"]
    answer = http_answer(server, case)

    def found() -> Iterator[Finding]:
        yield from judge.compare("http", parsed(answer), ENGINE if server.engine else HTTP)
        for name, want in recording.headers.items():
            got = answer.headers.get(name)
            if got is None or got.partition(";")[0] != want.partition(";")[0]:
                values = (want, ABSENT if got is None else got)
                what = f"header {name}: wanted {want!r}, got {got!r}"
                yield Finding(what, values=values, path=("header", name))

    lacking = answer.status in NOT_OFFERED and any(not finding.declared for finding in found())
    if lacking and not server.offers(path, method):
        yield absent(method, path)
    else:
        yield from found()


def untyped(answer: Answer) -> Iterator[Finding]:
    """That an answer, which is JSON, does not say so. Of an error, which a proxy may have made, nothing."""
    said = answer.headers.get("content-type")
    if answer.status == 200 and (said or "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        values = (MEDIA_TYPE, ABSENT if said is None else said)
        what = f"header content-type: wanted {MEDIA_TYPE!r}, got {said!r}"
        yield Finding(what, values=values, path=("header", "content-type"))


MEDIA_TYPE = "application/json"


def _told(difference: Difference) -> str:
    return f"{show(difference.path)}: wanted {brief(difference.want)}, got {brief(difference.got)}"


ROUTES = {
    "chat": "chat/completions",
    "completion": "completions",
    "messages": "messages",
    "responses": "responses",
}
"""Of each API, the part of its paths between /v1/ and /render."""


def parsed(answer: Answer) -> Any:
    """The JSON body, or what `failure` makes of an error. A body that is no JSON is its text, or events."""
    try:
        body = answer.json()
    except msgspec.DecodeError:
        body = answer.body.decode(errors="replace")
    return answer_or_failure(answer.status, readable(body, answer.headers.get("content-type", "")))


def brief(value: Any) -> str:
    """A value for people to read, cut when long."""
    shown = repr(value) if value is ABSENT else msgspec.json.encode(value).decode()
    return shown if len(shown) <= 400 else f"{shown[:300]} ... {shown[-80:]}"


def failed(value: Any) -> bool:
    """Whether it is what `failure` makes of an answer."""
    return isinstance(value, Failure)


def comparable_failures(want: Any, got: Any) -> tuple[Json, Json, Rules]:
    """Both as failures, and how to compare them. One beside a 200 differs in its status alone."""
    left, right = (value if failed(value) else {"status": 200} for value in (want, got))
    if left["status"] < 400 or right["status"] < 400:
        return {"status": left["status"]}, {"status": right["status"]}, ERROR
    if left["type"] == right["type"] == "Bad Request":
        return {**left, "param": _nearest(left, right["param"])}, right, SCHEMA_ERROR
    return left, right, SCHEMA_ERROR if _RAW.match(str(left["message"])) else ERROR


_RAW = re.compile(r"\d+ validation errors? for |invalid conversation JSON: ")
"""The reference hands out what its libraries say of a part of the request: prose, as of a schema error."""


def _nearest(want: Json, param: Any) -> Any:
    """Of all the places that the reference names in a schema error the one that `param` names; else the
    first."""
    places = [want["param"], *re.findall(r"'loc': '([^']*)'", str(want["message"]))]
    fits = (
        place for place in places if not any(differences({"param": place}, {"param": param}, SCHEMA_ERROR))
    )
    return next(fits, want["param"])
