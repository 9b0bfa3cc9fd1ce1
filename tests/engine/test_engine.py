"""The scripted engine: what it answers, how it ends, what it refuses (contract G)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from renderd.engine.script import CANNED
from renderd.model import Model

GENERATE = "/inference/v1/generate"
SCRIPT = [10, 11, 12, 13, 14]


def body(top: dict[str, Any] | None = None, **sampling: Any) -> dict[str, Any]:
    sampling.setdefault("extra_args", {"force_token_ids": SCRIPT})
    return {"request_id": "r", "token_ids": [1, 2, 3], "sampling_params": sampling, **(top or {})}


def choices(http: TestClient, request: dict[str, Any]) -> list[dict[str, Any]]:
    answer = http.post(GENERATE, json=request)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["choices"]
    return found


def events(http: TestClient, request: dict[str, Any]) -> list[dict[str, Any]]:
    answer = http.post(GENERATE, json={**request, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *data, done = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(event) for event in data]


def error(answer: Response) -> tuple[int, str, str, str | None]:
    found = answer.json()["error"]
    assert found["code"] == answer.status_code
    return answer.status_code, found["type"], found["message"], found["param"]


# What it answers


def test_script_is_followed_by_eos(http: TestClient, model: Model) -> None:
    (choice,) = choices(http, body())
    eos = model.tokenizer.eos_token_id
    assert choice["token_ids"] == [*SCRIPT, eos]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", eos)


def test_force_text(http: TestClient, model: Model) -> None:
    text = "<think>\nHm.</think>\n\n1 + 1 = 2 \N{BEER MUG}"
    (choice,) = choices(http, body(extra_args={"force_text": text}))
    assert model.tokenizer.decode(choice["token_ids"][:-1]) == text


def test_canned_answer(http: TestClient, model: Model) -> None:
    (choice,) = choices(http, {"token_ids": [1], "sampling_params": {}})
    assert model.tokenizer.decode(choice["token_ids"][:-1]) == CANNED


@pytest.mark.parametrize(
    ("script", "answers"),
    [
        ({"force_token_ids": [[5], [6, 7]]}, [[5], [6, 7], [5]]),
        ({"force_token_ids": [5]}, [[5], [5], [5]]),
    ],
)
def test_a_script_for_each_choice(http: TestClient, script: dict[str, Any], answers: list[list[int]]) -> None:
    found = choices(http, body(n=3, extra_args=script))
    assert [choice["token_ids"][:-1] for choice in found] == answers
    assert [choice["index"] for choice in found] == [0, 1, 2]


def test_a_text_for_each_choice(http: TestClient, model: Model) -> None:
    found = choices(http, body(n=2, extra_args={"force_text": ["one", "two"]}))
    assert [model.tokenizer.decode(choice["token_ids"][:-1]) for choice in found] == ["one", "two"]


@pytest.mark.parametrize(
    "extra",
    [
        {"force_token_ids": "5"},
        {"force_token_ids": [[5], 6]},
        {"force_token_ids": [-1]},
        {"force_token_ids": [2**64]},
        {"force_text": ["a", 5]},
        {"force_text": "\ud800"},
        {"force_text": 5},
    ],
)
def test_a_script_that_is_none(http: TestClient, extra: dict[str, Any]) -> None:
    content = json.dumps(body(extra_args=extra))  # ASCII: a lone surrogate goes through
    answer = http.post(GENERATE, content=content, headers={"Content-Type": "application/json"})
    status, kind, _, param = error(answer)
    assert (status, kind) == (400, "BadRequestError")
    assert param == next(iter(extra))


# How it ends


def test_length(http: TestClient) -> None:
    (choice,) = choices(http, body(max_tokens=3))
    assert choice["token_ids"] == SCRIPT[:3]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", None)


def test_max_tokens_16_is_16_and_absent_is_the_window(http: TestClient, model: Model) -> None:
    endless = {"ignore_eos": True, "extra_args": {"force_token_ids": [7] * 20}}
    assert len(choices(http, body(max_tokens=16, **endless))[0]["token_ids"]) == 16
    near = {"token_ids": [1] * (model.max_model_len - 5)}
    assert len(choices(http, body(near, **endless))[0]["token_ids"]) == 5


def test_stop_token_wins_over_the_limit(http: TestClient) -> None:
    (choice,) = choices(http, body(max_tokens=3, stop_token_ids=[12]))
    assert choice["token_ids"] == [10, 11, 12]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", 12)


def test_stop_token_waits_for_min_tokens(http: TestClient) -> None:
    (choice,) = choices(http, body(min_tokens=2, max_tokens=4, stop_token_ids=[10, 13]))
    assert choice["token_ids"] == [0, 11, 12, 13]
    assert choice["stop_reason"] == 13


def test_ignore_eos(http: TestClient, model: Model) -> None:
    eos = model.tokenizer.eos_token_id
    (choice,) = choices(http, body(ignore_eos=True, max_tokens=4, extra_args={"force_token_ids": [eos, 5]}))
    assert choice["token_ids"] == [eos, 5, eos, eos]
    assert choice["finish_reason"] == "length"


# Streams


@pytest.mark.parametrize("interval", [1, 2, 3, 100])
def test_stream_is_the_batch_answer(http: TestClient, interval: int) -> None:
    request = body(n=2, logprobs=2, stream_interval=interval)
    for choice in choices(http, request):
        own = [e["choices"][0] for e in events(http, request) if e["choices"][0]["index"] == choice["index"]]
        assert [token for event in own for token in event["token_ids"]] == choice["token_ids"]
        assert [one for event in own for one in event["logprobs"]["content"]] == choice["logprobs"]["content"]
        assert [event["finish_reason"] for event in own] == [None] * (len(own) - 1) + ["stop"]
        assert {len(event["token_ids"]) for event in own[1:-1]} <= {interval}


def test_choices_interleave(http: TestClient) -> None:
    order = [event["choices"][0]["index"] for event in events(http, body(n=2, max_tokens=3))]
    assert order == [0, 1, 0, 1, 0, 1]


def test_usage_and_prompt_ids_in_a_stream(http: TestClient) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    first, second, last = events(
        http, body({"stream_options": options, "return_token_ids": True}, max_tokens=2)
    )
    assert first["prompt_token_ids"] == [1, 2, 3]
    assert "prompt_token_ids" not in second
    assert (first["usage"]["completion_tokens"], second["usage"]["completion_tokens"]) == (1, 2)
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}


@pytest.mark.parametrize("k", [0, 1, 5])
def test_logprobs(http: TestClient, k: int) -> None:
    for record in choices(http, body(logprobs=k))[0]["logprobs"]["content"]:
        sampled, *others = record["top_logprobs"]
        assert sampled == {key: record[key] for key in ("token_id", "logprob", "rank")}
        assert len({one["token_id"] for one in record["top_logprobs"]}) == k + 1
        assert [one["rank"] for one in others] == list(range(1, k + 1))
        assert all(one["logprob"] >= sampled["logprob"] for one in others)


def test_prompt_logprobs(http: TestClient) -> None:
    answer = http.post(GENERATE, json=body(prompt_logprobs=1, max_tokens=1)).json()
    first, *others = answer["prompt_logprobs"]
    assert first is None
    assert [next(iter(one)) for one in others] == ["2", "3"]


# Names and routes


def test_ids(http: TestClient) -> None:
    assert http.post(GENERATE, json=body(max_tokens=1)).json()["request_id"] == "generate-tokens-r"
    headers = {"X-Request-Id": "h"}
    assert (
        http.post(GENERATE, json=body(max_tokens=1), headers=headers).json()["request_id"]
        == "generate-tokens-h"
    )
    made = [http.post(GENERATE, json={"token_ids": [1], "sampling_params": {}}).json() for _ in range(2)]
    assert made[0]["request_id"] != made[1]["request_id"]


def test_model_names(http: TestClient) -> None:
    for name in (None, "", "demo", "second"):
        assert http.post(GENERATE, json=body({"model": name}, max_tokens=1)).json()["model"] == "demo"
    status, kind, message, param = error(http.post(GENERATE, json=body({"model": "other"})))
    assert (status, kind, param) == (404, "NotFoundError", "model")
    assert message == "The model `other` does not exist. Valid aliases: demo, second."


def test_small_routes(http: TestClient) -> None:
    for path in ("/health", "/ping", "/version", "/load"):
        assert http.get(path).status_code == 200
    assert [card["id"] for card in http.get("/v1/models").json()["data"]] == ["demo", "second"]
    assert http.get(GENERATE).status_code == 405
    assert http.post("/inference/v1/abort_requests", json={"request_ids": ["unknown"]}).content == b""
    refused = error(http.post("/inference/v1/abort_requests", json={}))
    assert refused == (400, "Bad Request", "Missing 'request_ids' in request body", None)


# Refusals


@pytest.mark.parametrize(
    ("request_body", "param"),
    [
        ({"sampling_params": {}}, "body.token_ids"),
        ({"token_ids": [1]}, "body.sampling_params"),
        ({"token_ids": [], "sampling_params": {}}, "body.token_ids"),
        ({"token_ids": [-1], "sampling_params": {}}, "body.token_ids"),
        ({"token_ids": [1.5], "sampling_params": {}}, "body.token_ids.0"),
        ({"token_ids": [1], "sampling_params": {"n": "x"}}, "body.sampling_params"),
        ({"token_ids": [1], "sampling_params": {"output_kind": 9}}, "body.sampling_params"),
        ({"token_ids": [1], "sampling_params": {}, "output_mode": "x"}, "body.output_mode"),
        ({"token_ids": [1], "sampling_params": {"detokenize": False}, "output_mode": "text"}, "body"),
        ({"token_ids": [1], "sampling_params": {}, "request_id": None}, "body.request_id"),
        ([], "body"),
        (None, "body"),
    ],
)
def test_schema_errors(http: TestClient, request_body: Any, param: str) -> None:
    content = json.dumps(request_body)
    answer = http.post(GENERATE, content=content, headers={"Content-Type": "application/json"})
    status, kind, _, named = error(answer)
    assert (status, kind, named) == (400, "Bad Request", param)


@pytest.mark.parametrize(
    ("sampling", "message", "param"),
    [
        ({"n": 0}, "n must be at least 1, got 0.", None),
        ({"n": 17}, "sampling_params.n must be at most the server's max_num_seqs (16), got 17.", None),
        ({"n": 2, "temperature": 0}, "n must be 1 when using greedy sampling, got 2.", None),
        ({"temperature": -1}, "temperature must be non-negative, got -1.0.", "temperature"),
        ({"top_p": 0}, "top_p must be in (0, 1], got 0.0.", "top_p"),
        ({"top_k": -2}, "top_k must be 0 (disable), or at least 1, got -2.", None),
        ({"min_p": 2}, "min_p must be in [0, 1], got 2.0.", None),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0.", "max_tokens"),
        (
            {"min_tokens": 5, "max_tokens": 2},
            "min_tokens must be less than or equal to max_tokens=2, got 5.",
            None,
        ),
        ({"logprobs": -2}, "logprobs must be non-negative or -1, got -2.", "logprobs"),
        (
            {"logprobs": 21},
            "Requested sample logprobs of 21, which is greater than max allowed: 20",
            "logprobs",
        ),
        ({"stream_interval": 0}, "stream_interval must be at least 1, got 0.", "stream_interval"),
        ({"stop": ["x"]}, "stop strings are not supported on a --tokens-only server", None),
        ({"stop": [""]}, "stop cannot contain an empty string.", None),
        ({"structured_outputs": {"regex": "a"}}, "Structured outputs requires a tokenizer", None),
        ({"stop_token_ids": [10**9]}, "token_id(s) [1000000000] in stop_token_ids", "stop_token_ids"),
    ],
)
def test_rule_errors(http: TestClient, sampling: dict[str, Any], message: str, param: str | None) -> None:
    status, kind, text, named = error(http.post(GENERATE, json=body(**sampling)))
    assert (status, kind, named) == (400, "BadRequestError", param)
    assert text.startswith(message)


def test_what_is_no_number_is_no_temperature(http: TestClient) -> None:
    content = '{"token_ids": [1], "sampling_params": {"temperature": NaN}}'
    answer = http.post(GENERATE, content=content, headers={"Content-Type": "application/json"})
    assert error(answer)[3] == "temperature"


@pytest.mark.parametrize("mode", ["text", "derender"])
def test_only_tokens(http: TestClient, mode: str) -> None:
    status, _, message, _ = error(http.post(GENERATE, json=body({"output_mode": mode})))
    assert status == 400
    assert "requires a tokenizer, but this server does not load one" in message


def test_prompts_that_do_not_fit(http: TestClient, model: Model) -> None:
    full, over = ({"token_ids": [1] * (model.max_model_len + more)} for more in (0, 1))
    assert "longer than the maximum model length" in error(http.post(GENERATE, json=body(full)))[2]
    assert "exceeds model's maximum context length" in error(http.post(GENERATE, json=body(over)))[2]
    unknown = error(http.post(GENERATE, json=body({"token_ids": [10**6]})))
    assert unknown[2] == "Token id 1000000 is out of vocabulary"


def test_content_type(http: TestClient) -> None:
    content = json.dumps(body(max_tokens=1))
    for good in ("application/json", "application/json; charset=utf-8"):
        assert http.post(GENERATE, content=content, headers={"Content-Type": good}).status_code == 200
    status, kind, message, param = error(
        http.post(GENERATE, content=content, headers={"Content-Type": "text/plain"})
    )
    assert (status, kind, param) == (400, "Bad Request", None)
    assert "Only 'application/json' is allowed" in message


# What goes wrong on demand


@pytest.mark.parametrize("fault", ["error:2", {"kind": "error", "after": 2}])
def test_an_error_event_on_demand(http: TestClient, fault: Any) -> None:
    extra = {"force_token_ids": SCRIPT, "force_fault": fault}
    first, second, failure = events(http, body(extra_args=extra))
    assert [first["choices"][0]["token_ids"], second["choices"][0]["token_ids"]] == [[10], [11]]
    assert failure["error"]["code"] == 500


def test_a_refusal_on_demand(http: TestClient) -> None:
    refused = http.post(GENERATE, json=body(extra_args={"force_fault": "refuse"}))
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize("extra", [{"force_fault": "x"}, {"force_fault": "drop:x"}, {"force_delay": -1}])
def test_faults_that_are_none(http: TestClient, extra: dict[str, Any]) -> None:
    status, _, _, param = error(http.post(GENERATE, json=body(extra_args=extra)))
    assert (status, param) == (400, next(iter(extra)))


def test_the_script_of_an_engine(http: TestClient) -> None:
    assert http.post("/script", json={"fault": "refuse", "healthy": False}).status_code == 200
    assert http.get("/health").status_code == http.post(GENERATE, json=body()).status_code == 503
    http.post("/script", json={})
    assert http.get("/health").status_code == http.post(GENERATE, json=body()).status_code == 200
    http.post("/inference/v1/abort_requests", json={"request_ids": ["x", "y"]})
    assert http.get("/script").json() == {"requests": 2, "aborts": 2, "loaded": 0, "running": 0}
