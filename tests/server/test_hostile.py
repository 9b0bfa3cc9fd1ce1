"""Bodies that no friendly client sends, to a real server: a clear 4xx or a good answer, never a 500."""

from __future__ import annotations

import base64
import copy
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from golden.models import model_path

from .running import Running, running

CHAT_RENDER, COMPLETION_RENDER = "/v1/chat/completions/render", "/v1/completions/render"
CHAT_DERENDER, COMPLETION_DERENDER = "/v1/chat/completions/derender", "/v1/completions/derender"

TOOL = {
    "type": "function",
    "function": {"name": "get", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": "x",
            "reasoning_content": "r",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "get", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ],
    "tools": [TOOL],
}
COMPLETION: dict[str, Any] = {"prompt": "hello", "max_tokens": 5}
LOGPROB = {"token_id": 9707, "logprob": -1.0, "rank": 1}
CHOICE: dict[str, Any] = {
    "index": 0,
    "token_ids": [9707, 11, 151645],
    "finish_reason": "stop",
    "stop_reason": None,
    "logprobs": {"content": [LOGPROB | {"top_logprobs": [LOGPROB]}]},
}
RESPONSE: dict[str, Any] = {"request_id": "r", "choices": [CHOICE], "prompt_token_ids": [1, 2], "metrics": {}}
CHUNK: dict[str, Any] = {"request_id": "r", "choices": [CHOICE | {"finish_reason": None}]}
VLLM_STATE: dict[str, Any] = {
    "role_sent": True,
    "output_token_ids": [9707, 11],
    "output_chunk_lens": [1, 1],
    "tools_streamed": False,
}

BODIES: list[tuple[str, dict[str, Any]]] = [
    (CHAT_RENDER, CHAT),
    (COMPLETION_RENDER, COMPLETION),
    ("/tokenize", {"prompt": "x", "return_token_strs": True}),
    ("/tokenize", CHAT),
    ("/detokenize", {"tokens": [1, 2], "model": None}),
    (CHAT_DERENDER, {"generate_response": RESPONSE, "chat_request": CHAT, "prompt_token_ids": [1]}),
    (
        COMPLETION_DERENDER,
        {
            "generate_responses": [RESPONSE],
            "prompt_tokens": [1],
            "prompt_token_ids": [[1]],
            "completion_request": COMPLETION,
        },
    ),
]
STREAMS: list[tuple[str, dict[str, Any]]] = [
    (CHAT_DERENDER, {"chat_request": CHAT | {"stop": ["zz"], "logprobs": True, "top_logprobs": 1}}),
    (COMPLETION_DERENDER, {"completion_request": COMPLETION | {"stop": ["zz"], "logprobs": 1}}),
]

FIELDS = (
    "model frequency_penalty presence_penalty logit_bias logprobs top_logprobs max_tokens "
    "max_completion_tokens n response_format seed stop stream stream_options temperature top_p "
    "tool_choice reasoning_effort thinking_token_budget include_reasoning parallel_tool_calls user "
    "session_id use_beam_search top_k min_p repetition_penalty watermarking length_penalty "
    "stop_token_ids include_stop_str_in_output ignore_eos min_tokens skip_special_tokens "
    "spaces_between_special_tokens truncate_prompt_tokens truncation_side prompt_logprobs "
    "logprob_token_ids allowed_token_ids bad_words echo add_generation_prompt continue_final_message "
    "add_special_tokens documents chat_template chat_template_kwargs media_io_kwargs "
    "mm_processor_kwargs structured_outputs priority request_id return_tokens_as_token_ids "
    "return_token_ids return_token_offsets mm_payload return_mm_kwargs cache_salt kv_transfer_params "
    "ec_transfer_params vllm_xargs repetition_detection stream_interval suffix prompt"
)  # every field of contract B.1 and D.1

NAN, HUGE, DEEP = "NAN", "HUGE", "DEEP"
VALUES: list[Any] = [
    None,
    True,
    -1,
    1.5,
    NAN,
    HUGE,
    "",
    "12",
    "x",
    "\ud800",
    "\x00",
    [],
    [None],
    ["x"],
    {},
    {"x": None},
    {"type": "x"},
    2**63,
    2**70,
    [-(2**70)],
    DEEP,
    [{"type": "image_url", "image_url": {"url": "http://192.0.2.1/x"}}],
]


def encode(body: Any) -> bytes:
    """JSON with what only a lenient parser reads."""
    text = json.dumps(body).replace('"NAN"', "NaN").replace('"HUGE"', "1e400")
    return text.replace('"DEEP"', "[" * 600 + "]" * 600).encode()


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every value of a body, the body itself first."""
    yield at
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*at, key))


def replaced(node: Any, at: tuple[Any, ...], value: Any) -> Any:
    """A copy of a body with another value at a path."""
    if not at:
        return value
    result = copy.copy(node)
    result[at[0]] = replaced(node[at[0]], at[1:], value)
    return result


def removed(node: Any, at: tuple[Any, ...]) -> Any:
    """A copy of a body without what is at a path."""
    result = copy.copy(node)
    if len(at) == 1:
        del result[at[0]]
    else:
        result[at[0]] = removed(node[at[0]], at[1:])
    return result


class Prober:
    """Sends bodies over one connection and notes the answers that are neither good nor a clear refusal."""

    def __init__(self, server: Running) -> None:
        self._connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
        self.wrong: list[tuple[str, Any, int, bytes]] = []

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        self._connection.request("POST", path, body, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def try_all(self, path: str, body: dict[str, Any]) -> None:
        """Every value in every place of the body, and the body without each of its parts."""
        for at in list(places(body)):
            for value in VALUES:
                self.check(path, replaced(body, at, value), (at, value))
            if at:
                self.check(path, removed(body, at), (at, "removed"))

    def check(self, path: str, body: Any, what: Any) -> None:
        status, answer = self.post(path, encode(body))
        if status == 200:
            json.loads(answer)
        elif not 400 <= status < 500 or not is_envelope(status, answer):
            self.wrong.append((path, what, status, answer))


def is_envelope(status: int, answer: bytes) -> bool:
    error = json.loads(answer).get("error")
    return (
        isinstance(error, dict)
        and list(error) == ["message", "type", "param", "code"]
        and bool(error["message"])
        and error["code"] == status
        and error["type"] in ("Bad Request", "BadRequestError", "NotFoundError")
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    flags = ("--reasoning-parser", "qwen3", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    limits = ("--max-model-len", "4096", "--trust-request-chat-template", "--disable-uvicorn-access-log")
    with running(str(model_path("qwen3")), *flags, *limits) as server:
        yield server
        assert not [line for line in server.log if "a defect of renderd" in line]


@pytest.fixture
def prober(server: Running) -> Prober:
    return Prober(server)


@pytest.mark.parametrize(("path", "body"), BODIES, ids=[path for path, _ in BODIES])
def test_every_value_in_every_place(prober: Prober, path: str, body: dict[str, Any]) -> None:
    assert prober.post(path, encode(body))[0] == 200
    prober.try_all(path, body)
    assert not prober.wrong


@pytest.mark.parametrize(("path", "request_part"), STREAMS, ids=[path for path, _ in STREAMS])
def test_every_value_in_every_place_of_a_stream(
    prober: Prober, path: str, request_part: dict[str, Any]
) -> None:
    first = {"stream": True, "generate_chunk": CHUNK, "stream_state": None, "prompt_token_ids": [1, 2]}
    first |= request_part
    status, answer = prober.post(path, encode(first))
    assert status == 200
    state = json.loads(answer)["stream_state"]
    prober.try_all(path, first)
    for held in (state, VLLM_STATE):
        body = first | {"stream_state": held}
        for at in list(places(held, ("stream_state",))):
            for value in VALUES:
                prober.check(path, replaced(body, at, value), (at, value))
            prober.check(path, removed(body, at), (at, "removed"))
    assert not prober.wrong


@pytest.mark.parametrize("field", FIELDS.split())
def test_every_value_in_every_request_field(prober: Prober, field: str) -> None:
    for path, body in BODIES[:2]:
        for value in VALUES:
            prober.check(path, body | {field: value}, value)
    for path, body in BODIES[5:]:
        part = "chat_request" if "chat" in path else "completion_request"
        for value in VALUES:
            prober.check(path, body | {part: body[part] | {field: value}}, value)
    assert not prober.wrong


def decoded(text: str) -> bytes:
    """What a parser_state spells; its last character has bits that say nothing."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


@pytest.mark.parametrize("flip", range(0, 400, 7))
def test_a_changed_parser_state_is_refused(prober: Prober, flip: int) -> None:
    body = {"stream": True, "generate_chunk": CHUNK, "prompt_token_ids": [1, 2], "chat_request": CHAT}
    state = json.loads(prober.post(CHAT_DERENDER, encode(body))[1])["stream_state"]
    text = state["parser_state"]
    at = flip % len(text)
    changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    for forged in (changed, text[:at], text[at:], text + "A", text * 2):
        if decoded(forged) == decoded(text):
            continue
        status, answer = prober.post(
            CHAT_DERENDER, encode(body | {"stream_state": state | {"parser_state": forged}})
        )
        assert status == 400 and is_envelope(status, answer)


@pytest.mark.parametrize("path", [CHAT_RENDER, COMPLETION_RENDER, CHAT_DERENDER, "/tokenize", "/detokenize"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"1",
        b"{",
        b'{"messages": [}',
        b"\xff\xfe\x00",
        b'{"prompt": "\xe9"}',
        b"[" * 200_000,
        b'{"messages":' * 100_000,
        b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"1" * 100_000,
        b'{"tokens": [' + b"9" * 10_000 + b"]}",
        b"NaN",
        b"\x00",
    ],
    ids=range(16),
)
def test_bodies_that_are_no_request(prober: Prober, path: str, body: bytes) -> None:
    status, answer = prober.post(path, body)
    assert status == 400
    assert is_envelope(status, answer)


MANY = [CHOICE | {"index": index} for index in range(16385)]
LONG = [9707] * 4097


@pytest.mark.parametrize(
    ("path", "body", "param", "says"),
    [
        (CHAT_RENDER, CHAT | {"model": "nope"}, "model", "The model `nope` does not exist."),
        (
            CHAT_RENDER,
            {"messages": [{"role": "user", "content": "a " * 5000}]},
            "input_tokens",
            "at least 4097",
        ),
        (CHAT_RENDER, {"messages": [{"role": "user", "content": "a" * 600_000}]}, "input_text", "600"),
        (CHAT_RENDER, CHAT | {"max_tokens": 5000}, "max_tokens", "max_tokens=5000 cannot be greater than"),
        (CHAT_RENDER, CHAT | {"n": 16385}, None, "16384"),
        (CHAT_RENDER, CHAT | {"temperature": float("nan")}, "temperature", "temperature"),
        (CHAT_RENDER, CHAT | {"chat_template": "{{ undefined_function() }}"}, None, "undefined_function"),
        (CHAT_RENDER, CHAT | {"chat_template": "{% for x in"}, None, "unexpected"),
        (COMPLETION_RENDER, {"prompt": LONG}, "input_tokens", "4097"),
        (COMPLETION_RENDER, {"prompt": ["a"] * 1025}, "prompt", "1024"),
        (COMPLETION_DERENDER, {"generate_responses": []}, None, "generate_responses must not be empty"),
        (
            CHAT_DERENDER,
            {"generate_response": RESPONSE | {"choices": MANY}, "chat_request": CHAT},
            None,
            "16384",
        ),
        (
            CHAT_DERENDER,
            {
                "generate_response": RESPONSE | {"choices": [CHOICE | {"token_ids": LONG}]},
                "chat_request": CHAT,
            },
            None,
            "token_ids length (4097) in choice 0 exceeds max_model_len (4096).",
        ),
        (CHAT_DERENDER, {"generate_response": RESPONSE}, None, "chat_request is required"),
        (
            CHAT_DERENDER,
            {"generate_response": RESPONSE | {"choices": [{"index": 0}]}, "chat_request": CHAT},
            None,
            "choice 0 has empty or null token_ids",
        ),
        (
            CHAT_DERENDER,
            {
                "stream": True,
                "generate_chunk": CHUNK | {"choices": MANY[:2]},
                "prompt_token_ids": [1],
                "chat_request": CHAT,
            },
            None,
            "at most one choice per chunk",
        ),
        (
            CHAT_DERENDER,
            {"stream": True, "generate_chunk": CHUNK, "prompt_token_ids": LONG, "chat_request": CHAT},
            None,
            "exceeds max_model_len (4096)",
        ),
    ],
)
def test_refusals_say_why(
    server: Running, path: str, body: dict[str, Any], param: str | None, says: str
) -> None:
    answer = server.post(path, json.dumps(body).encode())
    error = answer.json()["error"]
    assert answer.status_code == (404 if param == "model" else 400)
    assert error["param"] == param
    assert says in error["message"]
