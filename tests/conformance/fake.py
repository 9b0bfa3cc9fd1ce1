"""A derender server small enough to see that it is right, and a golden folder of its answers.

A token id is the character of that code point. "(" starts a call, named by the one character behind it, whose
arguments run to ")"; the rest is content. The state is the ids so far. `faults` switches single mistakes on.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SERVER = "toy"
MODEL = "toy-model"


ROUTES = (
    *("/tokenize", "/v1/completions/render"),
    *("/v1/chat/completions/render", "/v1/chat/completions/derender"),
)


class Fake:
    """The routes, without HTTP. `faults` are names of mistakes, each described where it is made; `lacks` are
    routes that are not there."""

    def __init__(self, *faults: str, lacks: Sequence[str] = ()) -> None:
        self.faults = set(faults)
        self.lacks = lacks
        self.calls = 0

    def answer(self, path: str, body: Json) -> tuple[int, Any]:
        """What is wrong with a body shows where it is used."""
        self.calls += 1
        try:
            return self._answer(path, body)
        except (KeyError, TypeError, AttributeError) as error:
            if "plain_errors" in self.faults:
                return 400, {"detail": repr(error)}
            return 400, _error("Bad Request", None, repr(error))

    def _answer(self, path: str, body: Json) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": MODEL, "created": 1, "max_model_len": 3000}]}
        if path == "/version":
            return 200, {"version": "7.0"}
        if path not in ROUTES or path in self.lacks:
            return 404, {"detail": "Not Found"}
        if not body:
            return 400, _error("Bad Request", None, "nothing in it")
        if body.get("model") not in (None, MODEL):
            return 400, _error("NotFoundError", "model", "another model")
        if path == "/v1/completions/render":
            return 200, [{"token_ids": [ord(character) for character in body["prompt"]]}]
        if path == "/tokenize":
            shift = 1 if "other_tokenizer" in self.faults else 0
            return 200, {"tokens": [ord(character) + shift for character in body["prompt"]]}
        if path == "/v1/chat/completions/render":
            return self.render(body)
        if body.get("stream"):
            return self.stream(body)
        return self.batch(body)

    def render(self, request: Json) -> tuple[int, Json]:
        if not request["messages"] and "allows_nothing" in self.faults:
            return 200, {"token_ids": [1], "sampling_params": {}, "model": request["model"]}
        if not request["messages"]:
            if "error_in_a_200" in self.faults:
                error = {"type": "BadRequestError", "param": "messages", "message": "no messages"}
                return 200, {"status": 400, **error}
            return 400, _error("BadRequestError", "messages", "no messages")
        if "chat_template" in request or "tool_choice" in request:
            return 400, _error("BadRequestError", None, "not allowed")
        text = "".join(message["content"] for message in request["messages"])
        sampling: Json = {"temperature": 1.0}
        if "always_max_tokens" in self.faults:
            sampling["max_tokens"] = 16
        if "omits_defaults" in self.faults:
            del sampling["temperature"]
        return 302 if "another_status" in self.faults else 200, {
            "request_id": "chatcmpl-8f0000000000000" + str(self.calls % 10),
            "token_ids": [ord(character) for character in text],
            "sampling_params": sampling,
            "model": request["model"],
        }

    def batch(self, body: Json) -> tuple[int, Json]:
        generate = body["generate_response"]
        choices = []
        for choice in generate["choices"]:
            content, calls = self._parse(choice["token_ids"])
            if "drops_last_character" in self.faults:
                content = content[:-1]
            message: Json = {"role": "assistant", "content": content or None, "refusal": None}
            if calls:
                message["tool_calls"] = calls
            message["reasoning"] = None
            finish = "tool_calls" if calls and choice["finish_reason"] == "stop" else choice["finish_reason"]
            choices.append(
                {"index": choice["index"], "message": message, "finish_reason": finish, "stop_reason": None}
                | {"logprobs": None, "token_ids": None}
            )
        completion = sum(len(choice["token_ids"]) for choice in generate["choices"])
        usage = {"prompt_tokens": body["prompt_tokens"], "completion_tokens": completion}
        usage["total_tokens"] = sum(usage.values())
        return 200, {
            "id": generate["request_id"],
            "object": "chat.completion",
            "created": 1000 + self.calls,
            "model": MODEL,
            "choices": choices,
            "usage": usage,
            "system_fingerprint": None,
        }

    def stream(self, body: Json) -> tuple[int, Json]:
        event, state = body["generate_chunk"], body["stream_state"] or {"ids": []}
        if not isinstance(state, dict):
            raise TypeError("no state")
        chunk: Json = {
            "id": event["request_id"],
            "object": "chat.completion.chunk",
            "created": 1000,
            "model": MODEL,
            "choices": [],
            "usage": None,
        }
        if event["usage"] is not None:
            prompt, completion = body["prompt_tokens"], event["usage"]["completion_tokens"]
            chunk["usage"] = {"prompt_tokens": prompt, "completion_tokens": completion}
            chunk["usage"]["total_tokens"] = prompt + completion
        for choice in event["choices"]:
            delta: Json = {"role": None, "content": None, "reasoning": None}
            if not state.get("role") or "role_again" in self.faults:
                delta["role"] = "assistant"
            before, seen = self._parse(state["ids"])
            ids = choice["token_ids"]
            if "loses_third_tokens" in self.faults and len(ids) == 3:
                ids = ids[:2]
            ids = [*state["ids"], *ids]
            if "slow" in self.faults:
                time.sleep(len(ids) / 20_000)
            content, calls = self._parse(ids)
            if "late" in self.faults and choice["finish_reason"] is None:
                content = content[:-3]
            before = before[:-3] if "late" in self.faults else before
            delta["content"] = content[len(before) :] or None
            if "shouts" in self.faults and delta["content"]:
                delta["content"] = delta["content"].upper()
            news = [_call_delta(seen, index, call) for index, call in enumerate(calls)]
            if any(news):
                delta["tool_calls"] = [call for call in news if call]
            finish = choice["finish_reason"]
            chunk["choices"].append(
                {
                    "index": choice["index"],
                    "delta": delta,
                    "finish_reason": "tool_calls" if calls and finish == "stop" else finish,
                    "stop_reason": None,
                    "logprobs": None,
                    "token_ids": None,
                }
            )
            state = {"ids": ids, "role": True}
        for key in ("id", "model", "created", "banana"):
            if f"chunk_{key}" in self.faults:
                chunk[key] = "another"
        if "chunk_usage" in self.faults and chunk["usage"] is not None:
            chunk["usage"]["completion_tokens_details"] = {"reasoning_tokens": 999}
        if "unsteady" in self.faults:
            chunk["system_fingerprint"] = str(self.calls)
        return 200, {"chunk": chunk, "stream_state": state}

    def _parse(self, ids: list[int]) -> tuple[str, list[Json]]:
        content, calls, mode = "", [], "content"
        for character in map(chr, ids):
            if mode == "content" and character == "(":
                mode = "name"
            elif mode == "content":
                content += character
            elif mode == "name":
                number = self.calls if "random_ids" in self.faults else len(calls)
                function = {"name": character, "arguments": ""}
                calls.append(
                    {"id": f"chatcmpl-tool-8{number:015x}", "type": "function", "function": function}
                )
                mode = "arguments"
            elif character == ")":
                mode = "content"
            else:
                calls[-1]["function"]["arguments"] += character
        return content, calls


def _call_delta(seen: list[Json], index: int, call: Json) -> Json | None:
    if index >= len(seen):
        return {"index": index, **call}
    known, now = seen[index]["function"]["arguments"], call["function"]["arguments"]
    if known == now:
        return None
    function = {"name": None, "arguments": now[len(known) :]}
    return {"index": index, "id": None, "type": None, "function": function}


def _error(kind: str, param: str | None, message: str) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": 400}}


Reply = Callable[[str, Message, bytes], tuple[int, bytes] | None]
"""Path, headers and body of a request -> status and body of the answer; None closes the connection."""


@contextmanager
def listening(reply: Reply, kind: str = "application/json; charset=utf-8") -> Iterator[str]:
    """A server on HTTP whose answers are of a content type; its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def do_GET(self) -> None:
            self._reply(b"{}")

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers["Content-Length"])))

        def _reply(self, sent: bytes) -> None:
            answer = reply(self.path, self.headers, sent)
            if answer is None:
                self.close_connection = True
                return
            status, content = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def replying(fake: Fake) -> Reply:
    """What the fake answers."""

    def reply(path: str, headers: Message, sent: bytes) -> tuple[int, bytes]:
        try:
            body = json.loads(sent)
        except ValueError:
            body = None
        status, answer = fake.answer(path, body)
        return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    return reply


def serving(fake: Fake, *kind: str) -> AbstractContextManager[str]:
    """The fake behind HTTP; its URL."""
    return listening(replying(fake), *kind)


def request(text: str = "hi") -> Json:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}]}


def record(text: str, finish: str = "stop", **more: Any) -> tuple[Json, Json]:
    """A case and its recording, as the faultless fake answers."""
    name = f"{SERVER}/{text[:12]}-{finish}"
    case = {"id": name, "server": SERVER, "api": "chat", "request": request(), "areas": ["text"]}
    case["output"] = {"text": text, "finish_reason": finish}
    fake = Fake()
    rendered = fake.render(request())[1]
    ids = [ord(character) for character in text]
    choice = {"index": 0, "finish_reason": finish, "stop_reason": None, "token_ids": ids, "logprobs": None}
    generate = {"request_id": "generate-tokens-x", "choices": [choice], "prompt_token_ids": None}
    body = {"generate_response": generate, "prompt_tokens": 2, "chat_request": request()}
    batch = fake.batch(body)[1] | {"id": "chatcmpl-x", "system_fingerprint": "vllm-1-abc"}
    events, stream, states = [], [], None
    for at, token in enumerate(ids):
        reason = finish if at == len(ids) - 1 else None
        events.append(
            {"request_id": "generate-tokens-x", "usage": None}
            | {"choices": [{"index": 0, "token_ids": [token], "finish_reason": reason}]}
        )
    events.append(
        {"request_id": "generate-tokens-x", "usage": {"completion_tokens": len(ids)}, "choices": []}
    )
    for event in events:
        call = {
            "generate_chunk": event,
            "stream_state": states,
            "prompt_tokens": 2,
            "chat_request": request(),
        }
        answer = fake.stream(call)[1]
        states = answer["stream_state"]
        stream.append(answer["chunk"])
    recording = {
        "id": name,
        "status": 200,
        "render": rendered,
        "prompt_token_ids": rendered["token_ids"],
        "generate": generate,
        "generate_sse": "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n",
        "batch": batch,
        "stream": stream,
    }
    return case, recording | more


def write(folder: Path, pairs: list[tuple[Json, Json]], divergences: str = "") -> Path:
    """A golden folder."""
    recorded = folder / "recorded" / "vllm-0.33.0"
    recorded.mkdir(parents=True)
    (folder / "cases").mkdir()
    flags = f'["--served-model-name", "{MODEL}"]'
    (folder / "servers.toml").write_text(f'[{SERVER}]\nmodel = "toy"\nflags = {flags}\n')
    (folder / "divergences.toml").write_text(divergences)
    (folder / "defaults.json").write_text('{"sampling_params.temperature": [1.0], "features": [null]}')
    for path, column in ((folder / "cases", 0), (recorded, 1)):
        lines = [json.dumps(pair[column], ensure_ascii=False) + "\n" for pair in pairs]
        (path / f"{SERVER}.jsonl").write_text("".join(lines))
    return folder
