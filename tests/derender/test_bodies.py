"""Bodies that do not bind to the schema (contract A.3, E.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderd.derender import DerenderOptions
from renderd.wire.errors import ApiError
from tests.derender.support import CHAT, OPTIONS, Json, chat, chunk, derenderer, encode, refusal, response

FINISHED = response([9707])


def fails(body: bytes, route: str = "chat") -> ApiError:
    with pytest.raises(ApiError) as caught:
        getattr(derenderer(), route)(body)
    return caught.value


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", "body"),
        (b"null", "body"),
        (b"[]", "body"),
        (b'{"generate_response": ', "body.22"),
        (b"{}", "body.DerenderChatRequest.generate_response"),
        (b'{"generate_response": {}}', "body.DerenderChatRequest.generate_response.choices"),
        (b'{"stream": null}', "body.DerenderChatRequest.stream"),
        (b'{"stream": "maybe"}', "body.DerenderChatRequest.stream"),
        (b'{"stream": true}', "body.DerenderChatRequest.stream"),
        (b"[" * 100_000, "body"),
        (b'{"a":' * 100_000, "body"),
    ],
)
def test_not_a_body(body: bytes, param: str) -> None:
    error = fails(body)
    assert (error.status, error.type, error.param) == (400, "Bad Request", param)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"prompt_token_ids": [-1]}, "prompt_token_ids"),
        ({"prompt_tokens": "many"}, "prompt_tokens"),
        ({"prompt_tokens": 1.5}, "prompt_tokens"),
        ({"model": 7}, "model"),
        ({"generate_response": response([-9707])}, "generate_response.choices.0.token_ids"),
        ({"generate_response": {**FINISHED, "output_mode": "text"}}, "generate_response.output_mode"),
        ({"generate_response": None}, "generate_response"),
        ({"chat_request": {"messages": "x"}}, "chat_request.messages"),
        ({"chat_request": []}, "chat_request"),
    ],
)
def test_fields_of_a_batch_body(changes: Json, param: str) -> None:
    error = refusal(derenderer(), **{"generate_response": FINISHED, **changes})
    assert (error.status, error.type) == (400, "Bad Request")
    assert error.param is not None
    assert error.param.startswith(f"body.DerenderChatRequest.{param}")


@pytest.mark.parametrize(
    "changes",
    [
        {"generate_chunk": None},
        {"generate_chunk": {"choices": [{}], "request_id": "r"}},
        {"stream_state": "x"},
        {"stream_state": {"read_offset": -1}},
        {"stream_state": {"prev_tokens": ["a"] * 1025}},
        {"stream_state": {"logprob_context_token_ids": [1] * 5}},
        {"stream_state": {"output_token_ids": [1, 2], "output_chunk_lens": [1]}},
        {"stream_state": {"output_token_ids": [], "output_chunk_lens": [0]}},
        {"stream_state": {"parser_state": 7}},
    ],
)
def test_fields_of_a_stream_body(changes: Json) -> None:
    error = refusal(derenderer(), **{"stream": True, "generate_chunk": chunk([1]), **changes})
    assert (error.status, error.type) == (400, "Bad Request")
    assert error.param == "body.DerenderChatRequest.stream"  # as vLLM has it; the message names the field
    assert next(iter(changes)) in error.message


def test_the_sum_of_the_history() -> None:
    state = {"output_token_ids": [1, 2], "output_chunk_lens": [1]}
    error = refusal(derenderer(), stream=True, generate_chunk=chunk([1]), stream_state=state)
    assert (
        "output_chunk_lens must sum to len(output_token_ids) (got sum=1, len(output_token_ids)=2)"
        in error.message
    )


def test_parallel_lists() -> None:
    error = refusal(derenderer(), "completion", generate_responses=[FINISHED], prompt_tokens=[1, 2])
    assert (error.type, error.param) == ("Bad Request", "body")
    assert "prompt_tokens length (2) must equal generate_responses length (1)" in error.message


def test_lenient_spellings() -> None:
    body: Json = {"generate_response": FINISHED, "prompt_tokens": "12", "stream": 0, "unknown": {}}
    answer = chat(derenderer(), **body)
    assert answer["usage"]["prompt_tokens"] == 12


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400"])
@pytest.mark.parametrize(
    "place",
    [
        {"metrics": {"time": "NUMBER"}},
        {"kv_transfer_params": {"blocks": [1, ["NUMBER"]]}},
        {"prompt_logprobs": [None, {"5": {"logprob": "NUMBER"}}]},
    ],
)
def test_numbers_that_json_cannot_say(number: str, place: Json) -> None:
    """Python reads them. Written as null they would be lost."""
    generated = json.dumps({**FINISHED, **place}).replace('"NUMBER"', number)
    for field, route in (("generate_response", "chat"), ("generate_responses", "completion")):
        listed = f"[{generated}]" if route == "completion" else generated
        error = fails(f'{{"{field}": {listed}}}'.encode(), route)
        message = "Out of range float values are not JSON compliant"
        assert (error.status, error.type, error.message) == (400, "BadRequestError", message)


def test_numbers_of_a_streamed_event_that_json_cannot_say() -> None:
    event = json.dumps(chunk([9707], logprobs={"content": [{"token_id": 9707, "logprob": float("nan")}]}))
    error = fails(f'{{"stream": true, "generate_chunk": {event}}}'.encode())
    assert (error.type, error.param) == ("BadRequestError", None)
    answer = chat(derenderer(), stream=True, generate_chunk=chunk([9707]) | {"unread": float("nan")})
    assert answer["chunk"]["choices"]


def test_numbers_of_any_size_are_handed_on() -> None:
    metrics = {"most": 10**40, "least": -(10**40)}
    assert chat(derenderer(), generate_response={**FINISHED, "metrics": metrics})["metrics"] == metrics


UNREAD = '{"stream": true, "generate_chunk": {"request_id": "rq", "choices": [{"index": 0}]}, %s}'


@pytest.mark.parametrize("ids", ["[1, 2,]", "[1 2]", "[01]", "[1, 2", "[nul]", "[1, 2}"])
def test_what_is_skipped_is_json(ids: str) -> None:
    error = fails((UNREAD % f'"prompt_token_ids": [3], "stream_state": null, "later": {ids}').encode())
    assert (error.status, error.type) == (400, "Bad Request")
    assert error.message.startswith("1 validation error:\n  body.")


@pytest.mark.parametrize("field", [b'"later": "\xff"', b'"\xff": 1', b'"later": {"a\xc3": 1}'])
def test_what_is_skipped_is_utf8(field: bytes) -> None:
    error = fails(UNREAD.encode().replace(b"%s", field))
    assert (error.status, error.param) == (400, "body")


@pytest.mark.parametrize(
    "changes",
    [{"stream": "true"}, {"stream": 1}, {"prompt_tokens": "3"}, {"later": "\ud800"}, {"later": float("nan")}],
)
def test_a_body_that_is_read_leniently_has_the_same_answer(changes: Json) -> None:
    body = {
        "stream": True,
        "generate_chunk": chunk(encode(" é🌍")),
        "prompt_token_ids": [1],
        "prompt_tokens": 3,
    }
    one, other = (chat(derenderer(), **sent)["chunk"] for sent in ({**body, **changes}, body))
    assert one == {**other, "created": one["created"]}


def test_an_event_without_stream_is_no_event() -> None:
    error = refusal(derenderer(), generate_chunk=chunk([1]))
    assert error.param == "body.DerenderChatRequest.generate_response"


def test_rules_of_the_embedded_request() -> None:
    error = refusal(derenderer(), generate_response=FINISHED, chat_request={**CHAT, "tools": []})
    assert (error.type, error.param) == ("BadRequestError", "tools")
    error = refusal(derenderer(), "completion", generate_responses=[FINISHED], completion_request={})
    assert error.param == "prompt"


@pytest.mark.parametrize("request_id", ["\ud800", "é🌍"])
def test_text_that_utf8_cannot_say(request_id: str) -> None:
    body: dict[str, Any] = {"generate_response": {**FINISHED, "request_id": request_id}}
    if request_id == "\ud800":
        assert refusal(derenderer(), **body).status == 400
    else:
        assert chat(derenderer(), **body)["id"] == request_id


def test_a_choice_needs_only_its_index() -> None:
    answer = chat(
        derenderer(),
        generate_response={"request_id": "r", "choices": [{"index": 3, "token_ids": encode("x")}]},
    )
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_response_without_an_id_gets_one() -> None:
    answer = chat(derenderer(), generate_response={"choices": [{"index": 0, "token_ids": encode("x")}]})
    assert len(answer["id"]) == 16


@pytest.mark.parametrize("options", [OPTIONS, DerenderOptions(replayable=True)])
@pytest.mark.parametrize(
    "request_", [CHAT, {**CHAT, "return_token_ids": True}, {**CHAT, "stop_token_ids": [2**80]}]
)
@pytest.mark.parametrize("route", ["batch", "stream"])
def test_integers_of_many_digits(route: str, request_: Json, options: DerenderOptions) -> None:
    server = derenderer("qwen3", "qwen3", "hermes", options)
    body: Json = {"chat_request": request_, "prompt_token_ids": [1, 2**70]}
    if route == "batch":
        body["generate_response"] = response([9707, 2**70], stop_reason=2**65)
    else:
        body |= {"stream": True, "generate_chunk": chunk([9707, 2**70])}
    try:
        chat(server, **body)
    except ApiError as error:
        assert error.status == 400


@pytest.mark.parametrize("stop", ["\ud800", "a\udfff"])
def test_stop_strings_that_utf8_cannot_say(stop: str) -> None:
    error = refusal(
        derenderer(), stream=True, generate_chunk=chunk([9707]), chat_request={**CHAT, "stop": stop}
    )
    assert error.status == 400
