"""What is sent: requests to every route, of the golden cases, and answers of engines to derender.

Every call of a stream is recorded with the state that it carried. States live nowhere but in calls, so each
call of a stream can be made again at any time, alone, and has the same answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from golden.cases import GOLDEN
from renderd.conformance import chunking
from renderd.conformance.bench import workload
from renderd.conformance.cases import Case, Golden, Recording
from renderd.conformance.checks import ROUTES

from .connection import Call, Connection, Reply

Json = dict[str, Any]

CONFIGURATIONS = ("qwen3-hermes", "messages-qwen3", "responses-qwen3", "qwen3-plain", "matrix-qwen3")
"""Of golden/servers.toml: those of the model that is served here."""
POSTS = (
    *(f"/v1/{route}/{side}" for route in ROUTES.values() for side in ("render", "derender")),
    *("/tokenize", "/detokenize"),
)
SMALL = 16_384
"""Bytes of a body, and of its answer, that is one of many."""
_STATE = b'"stream_state":'
_CLOCK = re.compile(rb'("(?:created|created_at|completed_at)":)\d+')


class Known(NamedTuple):
    """A call, how it is answered, and of which kind it is. `answer`: without times; None where two answers to
    the same call differ in more than that."""

    call: Call
    status: int
    answer: bytes | None
    kind: str


def timeless(body: bytes) -> bytes:
    """An answer without the times in it."""
    return _CLOCK.sub(rb"\1", body)


def state_of(answer: bytes) -> bytes:
    """The state in an answer, as JSON: its last member. Raises ValueError if there is none."""
    # Inside of a JSON string its quotes would be escaped.
    at = answer.rfind(_STATE)
    if at < 0:
        raise ValueError(f"no stream_state: {answer[:200]!r}")
    return answer[at + len(_STATE) : -1]


class Stream(NamedTuple):
    """An engine's answer as events for derender, each a body without its state and its closing brace."""

    path: str
    calls: list[bytes]
    head: str

    def call(self, number: int, state: bytes) -> Call:
        """The call of an event, with the state that came of the one before."""
        return Call(self.path, self.calls[number] + state + b"}", self.head)


def head(request_id: str) -> str:
    """Lines of a request's head. The ids in an answer come of the request's."""
    return f"Content-Type: application/json\r\nX-Request-Id: {request_id}\r\n"


def written_streams(tokens: workload.Tokens, count: int, length: int) -> list[Stream]:
    """Chats with reasoning, content and a tool call of `length` tokens each, one token an event."""
    streams = []
    for number in range(count):
        ids = workload.parsed_answer(tokens, length, seed=number)
        generate = {
            "request_id": f"chatcmpl-soak-{number}",
            "choices": [{"index": 0, "token_ids": ids, "finish_reason": "stop"}],
        }
        prompt = tokens.ids(f"Question {number}")
        chat = {"messages": [{"role": "user", "content": f"Question {number}"}], "tools": [workload.TOOL]}
        told = {"chat_request": chat, "prompt_token_ids": prompt, "prompt_tokens": len(prompt)}
        streams.append(_stream("chat", "qwen3", chunking.events(generate, 0, 1), told, f"soak-{number}"))
    return streams


def _stream(api: str, model: Any, events: list[Json], told: Json, request_id: str) -> Stream:
    bodies = []
    for number, event in enumerate(events):
        body = {"stream": True, "model": model, "generate_chunk": event} | (told if number == 0 else {})
        bodies.append(msgspec.json.encode(body)[:-1] + b"," + _STATE)
    return Stream(f"/v1/{ROUTES[api]}/derender", bodies, head(request_id))


class Recorded:
    """The golden cases as calls."""

    def __init__(self, configurations: tuple[str, ...] = CONFIGURATIONS) -> None:
        self.calls: list[Call] = []
        self.streams: list[Stream] = []
        golden = Golden(GOLDEN)
        for name in configurations:
            recordings = golden.recordings(name)
            for case in golden.cases(name):
                self._add(case, recordings.get(case.id))
        self.calls = [call for call in self.calls if len(call.body) <= SMALL]

    def _add(self, case: Case, recording: Recording | None) -> None:
        request_id = case.id.replace("/", "-")
        if case.api == "http":
            request = case.request
            if request["method"] == "POST" and not request.get("headers") and request["path"] in POSTS:
                body = (
                    request["text"].encode()
                    if "text" in request
                    else msgspec.json.encode(request.get("json"))
                )
                self.calls.append(Call(request["path"], body, head(request_id)))
            return
        route = f"/v1/{ROUTES[case.api]}"
        self.calls.append(Call(f"{route}/render", msgspec.json.encode(case.request), head(request_id)))
        if recording is None or recording.generate is None:
            return
        ids, generate = recording.prompt_token_ids, recording.generate
        told = {f"{case.api}_request": case.request, "prompt_token_ids": ids}
        model = case.request.get("model")
        if case.api == "completion":
            told["prompt_tokens"] = [len(one) for one in ids]
            whole = {"model": model, "generate_responses": generate, **told}
        else:
            told["prompt_tokens"] = len(ids)
            whole = {"model": model, "generate_response": generate, **told}
        self.calls.append(Call(f"{route}/derender", msgspec.json.encode(whole), head(request_id)))
        if case.api == "completion":
            if len(generate) > 1:
                return
            generate = generate[0]
            told |= {"prompt_token_ids": ids[0], "prompt_tokens": len(ids[0])}
        size = random.Random(case.id).choice((1, 1, 2, 3))
        for position in range(len(generate["choices"])):
            events = chunking.events(generate, position, size)
            self.streams.append(_stream(case.api, model, events, told, request_id))


async def known_calls(connection: Connection, recorded: Recorded) -> list[Known]:
    """All calls, each asked twice, with their answers. Large ones are left out."""
    found = []
    for call in recorded.calls:
        found.append((await _known(connection, call, call.path.rpartition("/")[2]))[0])
    for stream in recorded.streams:
        state = b"null"
        for number in range(len(stream.calls)):
            known, answer = await _known(connection, stream.call(number, state), "chunk")
            found.append(known)
            if known.status != 200:
                break
            state = state_of(answer)
    return [known for known in found if known.answer is None or len(known.answer) <= SMALL]


async def _known(connection: Connection, call: Call, kind: str) -> tuple[Known, bytes]:
    first, second = await connection.ask(call), await connection.ask(call)
    same = timeless(first.body) == timeless(second.body) and first.status == second.status
    if b'"stream":true' in call.body and b'"parser_state":"' not in call.body:
        same = False  # the state of a first chunk has its time in it
    return Known(call, first.status, timeless(first.body) if same else None, _kind(first, kind)), first.body


def _kind(reply: Reply, kind: str) -> str:
    return kind if reply.status == 200 else "error"


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])
