"""What derender must make of a recorded generate answer, in one call and in streams of any chunking.

Checks, by name: `batch` (equal to what the coupled server answered), `stream` (every chunking amounts to the
server's own batch answer), `coupled` (a stream amounts to what the coupled server streamed), `order` (what a
client may rely on in any stream, and in any of its chunks), `eager` (nothing comes more tokens later than
from the coupled server), `repeat` (a call made again gives the same bytes) and `hop` (a state that the
reference made is taken over).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import msgspec

from renderd.conformance import chunking, eagerness, envelope
from renderd.conformance.cases import Case, Json, Recording, assembled, sse_events
from renderd.conformance.checks import ROUTES, Finding, Judge, Server, absent, brief, parsed, untyped
from renderd.conformance.client import Answer
from renderd.conformance.compare import Difference, differences
from renderd.conformance.defects import UNKNOWN
from renderd.conformance.formats import Assembler, assembly, is_answer, outline, said
from renderd.conformance.malformed import Unreadable, excerpt, reason
from renderd.conformance.paths import show
from renderd.conformance.reading import gathered, reading
from renderd.conformance.rules import BATCH, hop_rules, stream_rules

_CREATED = re.compile(rb'"created(?:_at)?":\s*\d+')


class StreamAnswer(msgspec.Struct):
    """What streaming derender answers (contract E.6): a chunk, or events. The state is the server's own."""

    stream_state: msgspec.Raw
    chunk: Json | None = None
    events: list[Json] = []

    @property
    def said(self) -> list[Json]:
        """The chunk, or the events."""
        return self.events if self.chunk is None else [self.chunk]


_decode_answer = msgspec.json.Decoder(StreamAnswer).decode


class StreamRefused(Exception):
    """A call of a stream was answered with an error."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"status {answer.status}: {answer.body[:300].decode(errors='replace')}")
        self.answer = answer
        self.failure = parsed(answer)


class Derendering:
    """The checks of one case."""

    def __init__(self, server: Server, judge: Judge, case: Case, recording: Recording) -> None:
        self._server = server
        self._judge = judge
        self._recording = recording
        self._api = case.api
        self._single = case.api != "completion"
        self._case = case
        self._path = f"/v1/{ROUTES[case.api]}/derender"
        self._random = random.Random(case.id)
        self._request = msgspec.Raw(msgspec.json.encode(server.renamed(case.request)))
        self._model = case.request.get("model") and server.renamed(case.request)["model"]
        self._found: dict[str, list[Finding]] = {}
        choices = int(case.request.get("n") or 1)
        self._recorded_rules, self._own_rules = (stream_rules(choices, own) for own in (False, True))
        self._hop_rules = hop_rules()

    def run(self) -> dict[str, list[Finding]]:
        """Findings by check. An answer that cannot be read is one, and the last. Gone when nobody answers."""
        with self._reading("batch"):
            if not self._server.offers(self._path):
                self._add("batch", [absent("POST", self._path)])
                return self._found
            batch = self._batch()
            generate = self._recording.generate
            if not self._single:
                if len(generate) > 1:
                    return self._found  # each prompt has a stream of its own: the single ones show all
                generate = generate[0]
            own = outline(batch) if is_answer(batch) else UNKNOWN
            with self._reading("stream"):
                self._streams(generate, own)
        return self._found

    def run_batch(self) -> dict[str, list[Finding]]:
        """The same of the whole answer alone."""
        with self._reading("batch"):
            if self._server.offers(self._path):
                self._batch()
        return self._found

    def _reading(self, check: str) -> AbstractContextManager[None]:
        return reading(self._server.client, self._found, check)

    def _add(self, check: str, findings: Iterator[Finding] | Sequence[Finding]) -> None:
        gathered(findings, self._found.setdefault(check, []))

    def whole(self, generate: Json | None = None) -> Any:
        """The answer to the engine's, or to another one of it, in one call; an error as `failure` has it."""
        return parsed(self._server.client.post(self._path, self._batch_body(generate)))

    def _batch_body(self, generate: Any = None) -> Json:
        generate = generate or self._recording.generate
        ids = self._recording.prompt_token_ids
        body: Json = {"model": self._model, "prompt_token_ids": ids, self._request_key: self._request}
        if self._single:
            return body | {"generate_response": generate, "prompt_tokens": len(ids)}
        return body | {"generate_responses": generate, "prompt_tokens": [len(one) for one in ids]}

    def _batch(self) -> Json:
        generate = self._recording.generate
        wanted_id = (generate if self._single else generate[0])["request_id"]
        encoded = msgspec.Raw(msgspec.json.encode(self._batch_body()))
        answer = self._server.client.post(self._path, encoded)
        got = parsed(answer)
        self._add("batch", self._judge.compare("batch", got, BATCH))
        self._add("batch", untyped(answer))
        if answer.status == 200 and isinstance(got, dict):
            for key, wanted in (("id", wanted_id), ("model", self._server.model)):
                if got.get(key) != wanted:
                    what = f"{key}: wanted {wanted!r}, got {got.get(key)!r}"
                    self._add("batch", [Finding(what, values=(wanted, got.get(key)), path=(key,))])
            again = self._server.client.post(self._path, encoded)
            same = _CREATED.sub(b"", answer.body) == _CREATED.sub(b"", again.body)
            self._add("repeat", [] if same else [_unlike("batch", answer, again)])
        return got if isinstance(got, dict) else {}

    def _events(self) -> list[Json]:
        """What the engine streamed, of the first prompt."""
        sse = self._recording.generate_sse
        return [] if sse is None else sse_events(sse if isinstance(sse, str) else sse[0])

    def answers(self) -> tuple[Json, Json | None]:
        """What the server answers, whole and streamed, in the form of a recording's `derender_batch` and
        `derender_stream`. No stream where there are several prompts."""
        answer = self._server.client.post(self._path, self._batch_body())
        batch = {"status": answer.status, "body": answer.json()}
        if not self._single and len(self._recording.generate) > 1:
            return batch, None
        try:
            return batch, {"status": 200, "chunks": self._stream(self._events(), self._call)}
        except StreamRefused as refused:
            return batch, {"status": refused.answer.status, "chunks": [refused.answer.json()]}

    def run_once(self) -> dict[str, list[Finding]]:
        """The answer whole, and as the engine streamed it, against the recorded ones: no other chunking."""
        with self._reading("batch"):
            batch = self._batch()
            if self._single or len(self._recording.generate) == 1:
                own = outline(batch) if is_answer(batch) else UNKNOWN
                with self._reading("coupled"):
                    self._coupled(self._events(), own)
        return self._found

    def run_hops(self, other: Server) -> list[Finding]:
        """A stream whose calls go to the server and a replica in turn, against the server's own."""
        events = self._events()
        away = Derendering(other, self._judge, self._case, self._recording)
        try:
            own = assembled(self._stream(events, self._call))
        except StreamRefused:
            return []  # `stream` says so
        try:
            chunks: list[Json] = []
            states: dict[int, Any] = {}
            for at, event in enumerate(events):
                side = away if at % 2 else self
                chunks += side._stream([event], side._call, states)
        except StreamRefused as refused:
            return [Finding(f"the replica refused a state: {refused}")]
        return gathered(
            Finding(
                f"{show(difference.path)}: one server {brief(difference.want)}, two {brief(difference.got)}",
                values=(difference.want, difference.got),
                path=difference.path,
            )
            for difference in differences(own, assembled(chunks), self._own_rules)
        )

    def chunks_of(self, events: list[Json]) -> Iterator[list[Json]]:
        """What each event brings, call by call. StreamRefused when one fails."""
        states: dict[int, Any] = {}
        for event in events:
            yield self._stream([event], self._call, states)

    @property
    def _request_key(self) -> str:
        return f"{self._api}_request"

    def _streams(self, generate: Json, own: Any) -> None:
        for check in ("stream", "order"):
            self._found[check] = []
        events = self._events()
        if events:
            self._coupled(events, own)
            self._hop(events)
        one_token = bool(events) and all(_tokens(event) <= 1 for event in events)
        for size in (2, 3, 7, self._random) if one_token else (1, 2, 3, 7, self._random):
            self._chunked(generate, size, own)

    def _coupled(self, events: list[Json], own: Any) -> None:
        """The engine's own events, as they came."""
        try:
            chunks = self._stream(events, self._call)
        except StreamRefused as refused:
            self._add("coupled", self._judge.compare("stream", refused.failure, self._recorded_rules, own))
            if own is not UNKNOWN:
                self._add("stream", [_refusal("as the engine streamed it", refused)])
            return
        made = assembly(chunks)
        self._add("coupled", self._judge.compare("stream", made.answer(), self._recorded_rules, own))
        theirs = eagerness.recorded(self._recording.stream) if self._api == "chat" else None
        if theirs is not None:
            ours = eagerness.own(events, chunks)
            late = eagerness.late(self._case.id, theirs, ours)
            self._add("eager", [Finding(sentence, declared) for sentence, declared in late])
        name = "as the engine streamed it"
        self._judge_stream(made, own, name)
        self._judge_envelopes(chunks, name)
        if own is not UNKNOWN:
            usages = envelope.differing_usage(self._recorded, events, chunks, own.get("usage"))
            told, case = msgspec.structs.replace, self._case.id
            found = [told(one, declared=envelope.provisional(case, one.path)) for one in _beside(usages)]
            self._add("coupled", found)

    def _chunked(self, generate: Json, size: int | random.Random, own: Any) -> None:
        """The answer cut into events of `size` tokens, each choice a stream of its own, the usage last."""
        name = f"{size} tokens a chunk" if isinstance(size, int) else "random chunks"
        call = {2: self._call_twice, 3: self._call_minimal}.get(
            size if isinstance(size, int) else 0, self._call
        )
        positions = range(len(generate["choices"]))
        events = [event for at in positions for event in chunking.events(generate, at, size)]
        try:
            chunks = self._stream([*events, chunking.usage_event(generate)], call)
        except StreamRefused as refused:
            if own is not UNKNOWN:
                self._add("stream", [_refusal(name, refused)])
            return
        self._judge_stream(assembly(chunks), own, name)
        self._judge_envelopes(chunks, name)

    def _judge_stream(self, made: Assembler, own: Any, name: str) -> None:
        got = made.answer()
        self._add("order", [Finding(f"{name}: {fault}") for fault in made.faults])
        if own is UNKNOWN:
            self._add("stream", [Finding(f"{name}: the batch call of the same answer failed")])
            return
        for difference in differences(own, got, self._own_rules):
            what = f"{show(difference.path)}: batch {brief(difference.want)}, stream {brief(difference.got)}"
            values = (difference.want, difference.got)
            self._add("stream", [Finding(f"{name}: {what}", values=values, path=difference.path)])

    def _judge_envelopes(self, chunks: list[Json], name: str) -> None:
        generate = self._recording.generate
        request_id = (generate if self._single else generate[0])["request_id"]
        sentences = dict.fromkeys(envelope.faults(chunks, self._server.model, request_id))
        self._add("order", [Finding(f"{name}: {sentence}") for sentence in sentences])
        self._add("order", _beside(envelope.differing_frames(self._recorded, chunks), f"{name}: "))

    @cached_property
    def _recorded(self) -> list[Json]:
        """The recorded chunks or events, the coupled server's or else derender's, with the model renamed."""
        other = self._recording.derender_stream or {"status": 404}
        stream = self._recording.stream or (said(other["chunks"]) if other["status"] == 200 else [])
        return list(self._server.renamed(stream))

    def _hop(self, events: list[Json]) -> None:
        """Streams that the reference's derender began, continued here with the states that it made.

        Such a state says which tokens went through, not what was said about them: what a parser that lags
        behind (Llama's) has not said cannot be known, so no case of it keeps states.
        """
        recorded = self._recording.derender_stream or {}
        theirs = recorded.get("chunks", [])
        if not theirs or "stream_state" not in theirs[0] or len(theirs) != len(events):
            return
        try:
            ours = self._stream(events, self._call)
        except StreamRefused:
            return  # `stream` says so
        want = assembled(theirs)
        if any(differences(want, assembled(ours), self._hop_rules)):
            return  # answered otherwise from the start: `coupled` judges that
        self._found["hop"] = []
        for last in range(len(events) - 1):
            states = {
                _index(event): theirs[at]["stream_state"] for at, event in enumerate(events[: last + 1])
            }
            try:
                continued = [*theirs[: last + 1], *self._stream(events[last + 1 :], self._call, states)]
            except StreamRefused as refused:
                self._add("hop", [_refusal(f"after event {last}", refused)])
                continue
            for difference in differences(want, assembled(continued), self._hop_rules):
                values = f"wanted {brief(difference.want)}, got {brief(difference.got)}"
                what = f"after event {last}: {show(difference.path)}: {values}"
                compared = (difference.want, difference.got)
                self._add("hop", [Finding(what, values=compared, path=difference.path)])

    def _stream(
        self,
        events: list[Json],
        call: Callable[[Json], StreamAnswer],
        states: dict[int, Any] | None = None,
    ) -> list[Json]:
        """The chunks that events make, one call each, a state per choice. StreamRefused when a call fails."""
        states = states if states is not None else {}
        ids = self._recording.prompt_token_ids
        ids = ids if self._single else ids[0]
        chunks: list[Json] = []
        for event in events:
            answer = call(
                {
                    "stream": True,
                    "model": self._model,
                    "generate_chunk": event,
                    "stream_state": states.get(_index(event)),
                    "prompt_tokens": len(ids),
                    "prompt_token_ids": ids,
                    self._request_key: self._request,
                }
            )
            states[_index(event)] = answer.stream_state
            chunks += answer.said
        return chunks

    def _call(self, body: Json) -> StreamAnswer:
        return self._answer(self._server.client.post(self._path, body))

    def _call_minimal(self, body: Json) -> StreamAnswer:
        """Without what the state carries already, where the server's state is of that kind."""
        state = body["stream_state"]
        if state is not None and b'"parser_state":"' in bytes(state):
            body = {
                key: value
                for key, value in body.items()
                if key not in ("prompt_token_ids", self._request_key)
            }
        return self._call(body)

    def _call_twice(self, body: Json) -> StreamAnswer:
        """The same bytes again: the same bytes back. Only a first call may see the clock move."""
        encoded = msgspec.Raw(msgspec.json.encode(body))
        answers = [self._server.client.post(self._path, encoded) for _ in range(2)]
        while answers[-1].body != answers[-2].body and body["stream_state"] is None and len(answers) < 4:
            answers.append(self._server.client.post(self._path, encoded))
        if answers[-1].body != answers[-2].body:
            self._add("repeat", [_unlike("stream", *answers[-2:])])
        return self._answer(answers[-1])

    def _answer(self, answer: Answer) -> StreamAnswer:
        if answer.status != 200:
            raise StreamRefused(answer)
        for finding in untyped(answer):
            raise Unreadable(f"streamed, {finding.what}")
        try:
            return _decode_answer(answer.body)
        except (msgspec.MsgspecError, RecursionError) as error:
            asked = f"a streamed {self._path} of {self._server.client.url}"
            raise Unreadable(f"{asked}: {reason(error)} in {excerpt(answer.body)}") from error


def _unlike(how: str, first: Answer, second: Answer) -> Finding:
    return Finding(f"{how}: the same call gave another answer", values=(parsed(first), parsed(second)))


def _refusal(name: str, refused: StreamRefused) -> Finding:
    return Finding(f"{name}: {refused}", values=(200, refused.answer.status), path=("error", "status"))


def _beside(differing: Iterable[tuple[str, Difference]], begin: str = "") -> list[Finding]:
    """Findings about what stands around news, each once."""
    found: dict[str, Finding] = {}
    for kind, one in differing:
        what = f"{begin}{kind}: {show(one.path)}: wanted {brief(one.want)}, got {brief(one.got)}"
        found.setdefault(what, Finding(what, values=(one.want, one.got), path=one.path))
    return list(found.values())


def _index(event: Json) -> int:
    """The choice that an event belongs to; one without choices goes with the first."""
    return int(event["choices"][0]["index"]) if event["choices"] else 0


def _tokens(event: Json) -> int:
    return sum(len(choice["token_ids"] or []) for choice in event["choices"])
