"""The gateway as clients see it: a real server in front of a scripted engine."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from renderd.conformance.cases import sse_events
from renderd.engine.app import ScriptedEngine, create_app
from tests.gateway.deployment import Deployment, deployed
from tests.gateway.scripted import model, serving_app
from tests.server.running import running

CHAT = "/v1/chat/completions"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with deployed("--api-key", "secret", "--enable-request-id-headers") as made:
        yield made


KEY = {"authorization": "Bearer secret"}


def chat(text: str = "hello there", **fields: Any) -> Json:
    xargs = {"force_text": f"<think>\nHm.\n</think>\n\n{text}", **fields.pop("xargs", {})}
    return {"model": "qwen3", "messages": [{"role": "user", "content": "hi"}], "vllm_xargs": xargs, **fields}


def events(answer: httpx2.Response) -> list[Json]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.text.endswith("data: [DONE]\n\n")
    return sse_events(answer.text)


def quiet(deployment: Deployment) -> Json:
    """What the engine tells when nothing runs there any more."""
    for _ in range(100):
        told = deployment.script()
        if not told["running"]:
            return told
        time.sleep(0.05)
    pytest.fail(f"a request still runs: {told}")


def test_a_chat(deployment: Deployment) -> None:
    answer = deployment.gateway.post(CHAT, chat(), **KEY, **{"x-request-id": "mine"})
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == "mine"
    body = answer.json()
    assert body["id"] == "chatcmpl-mine"
    assert body["choices"][0]["message"]["content"] == "\n\nhello there"
    assert body["choices"][0]["message"]["reasoning"] == "\nHm.\n"
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 4}
    assert body["system_fingerprint"].startswith("renderd-")


def test_a_long_answer_and_a_long_prompt(deployment: Deployment) -> None:
    """Both are work for another process."""
    text = "one two three " * 400
    body = chat(text.strip(), messages=[{"role": "user", "content": "word " * 30_000}])
    answer = deployment.gateway.post(CHAT, body, **KEY).json()
    assert answer["choices"][0]["message"]["content"] == "\n\n" + text.strip()
    assert answer["usage"]["prompt_tokens"] > 30_000


def test_a_streamed_chat(deployment: Deployment) -> None:
    said = events(deployment.gateway.post(CHAT, chat(stream=True), **KEY))
    deltas = [chunk["choices"][0]["delta"] for chunk in said]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "\n\nhello there"
    assert said[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_request_on_the_engine(deployment: Deployment, stream: bool) -> None:
    before = quiet(deployment)["aborts"]
    text = "one two STOP three " + "and so on " * 50
    body = chat(text, stop="STOP", stream=stream, xargs={"force_delay": 0.02})
    answer = deployment.gateway.post(CHAT, body, **KEY)
    if stream:
        said = events(answer)
        content = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in said)
        last = said[-1]["choices"][0]
    else:
        last = answer.json()["choices"][0]
        content = last["message"]["content"]
        assert answer.json()["usage"]["completion_tokens"] < 15
    assert content == "\n\none two "
    assert (last["finish_reason"], last["stop_reason"]) == ("stop", "STOP")
    assert quiet(deployment)["aborts"] == before + 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_ends_its_request(deployment: Deployment, stream: bool) -> None:
    before = quiet(deployment)["aborts"]
    body = chat("and so on " * 200, stream=stream, xargs={"force_delay": 0.05})
    with httpx2.Client(trust_env=False, timeout=httpx2.Timeout(5, read=0.5)) as client:
        if stream:
            with client.stream("POST", deployment.gateway.url + CHAT, json=body, headers=KEY) as answer:
                next(answer.iter_bytes())
        else:
            with pytest.raises(httpx2.ReadTimeout):
                client.post(deployment.gateway.url + CHAT, json=body, headers=KEY)
    assert quiet(deployment)["aborts"] == before + 1
    assert deployment.gateway.post(CHAT, chat(), **KEY).status_code == 200


def test_what_clients_do_wrong(deployment: Deployment) -> None:
    post = deployment.gateway.post
    assert post(CHAT, chat()).status_code == 401
    assert post(CHAT, {"model": "qwen3"}, **KEY).json()["error"]["param"] == "body.messages"
    assert post(CHAT, chat(model="no"), **KEY).json()["error"]["code"] == 404
    long = post(CHAT, chat(stream=True, max_tokens=10**7), **KEY)
    assert (long.status_code, long.json()["error"]["param"]) == (400, "max_tokens")
    assert post(CHAT, b"{", **KEY).status_code == 400
    assert post(CHAT, chat(), **KEY, **{"content-type": "text/plain"}).status_code == 400
    assert deployment.gateway.get(CHAT, **KEY).status_code == 405
    surrogate = chat(messages=[{"role": "user", "content": "\ud800"}])
    assert post(CHAT, str(surrogate).replace("'", '"').encode(), **KEY).status_code == 400


def test_an_engine_that_refuses(deployment: Deployment) -> None:
    for stream in (False, True):
        body = chat(stream=stream, xargs={"force_fault": "refuse"})
        answer = deployment.gateway.post(CHAT, body, **KEY)
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "ServiceUnavailableError"
        assert "retry-after" in answer.headers
    time.sleep(1.2)  # it is given a pause


def test_what_the_engine_finds_wrong_is_passed_on(deployment: Deployment) -> None:
    answer = deployment.gateway.post(CHAT, chat(stream=True, stop_token_ids=[10**8]), **KEY)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stop_token_ids"


@pytest.mark.parametrize("kind", ["error", "drop"])
def test_an_engine_that_fails_in_the_middle(deployment: Deployment, kind: str) -> None:
    deployment.tell(fault={"kind": kind, "after": 4})
    try:
        said = events(deployment.gateway.post(CHAT, chat(stream=True), **KEY))
    finally:
        deployment.tell(fault=None)
    assert said[0]["choices"][0]["delta"]["role"] == "assistant"
    assert said[-1]["error"]["code"] in (500, 502)
    assert set(said[-1]) == {"error"}
    time.sleep(1.2)


def test_metrics_count_them(deployment: Deployment) -> None:
    deployment.gateway.post(CHAT, chat(), **KEY)
    text = deployment.gateway.get("/metrics").text
    assert f'http_requests_total{{handler="{CHAT}",method="POST",status="2xx"}}' in text


def test_they_are_documented(deployment: Deployment) -> None:
    paths = deployment.gateway.get("/openapi.json").json()["paths"]
    operation = paths[CHAT]["post"]
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "503" in operation["responses"]


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_beam_search_is_refused(deployment: Deployment, path: str) -> None:
    body = chat(prompt="a", use_beam_search=True)
    answer = deployment.gateway.post(path, body, **KEY)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "Beam search is not supported by the gateway"


def test_what_the_drain_cuts_is_said() -> None:
    body = chat("and so on " * 200, stream=True, xargs={"force_delay": 0.1})
    with (
        deployed("--drain-seconds", "0.5") as made,
        httpx2.Client(trust_env=False, timeout=30) as client,
        client.stream("POST", made.gateway.url + CHAT, json=body) as answer,
    ):
        pieces = answer.iter_bytes()
        said = next(pieces)
        made.gateway.process.send_signal(signal.SIGTERM)
        said += b"".join(pieces)
        assert sse_events(said.decode())[-1]["error"]["code"] == 503
        assert said.endswith(b"data: [DONE]\n\n")
        assert made.gateway.process.wait(timeout=30) == 0
        quiet(made)
    log = "".join(made.gateway.log)
    assert log.count("requests that --drain-seconds cut: 1") == 1
    assert re.search(rf'"POST {CHAT} HTTP/1.1" 503 ', log)


def test_an_engine_that_wants_a_key() -> None:
    """The key is in no line of the log, and what an engine refuses without it is no fault of the client."""
    for env, status in (({"RENDERD_ENGINE_API_KEY": "sesame"}, 200), ({}, 502)):
        with closed_engine("sesame") as url, running("--engine-url", url, env=env) as server:
            answer = server.post(CHAT, {"messages": [{"role": "user", "content": "hi"}]})
            assert answer.status_code == status, answer.text
        log = "".join(server.log)
        assert "sesame" not in log
        assert ("It answered 401" in log) is (status == 502)
        assert log.count("server process") == 1


@contextmanager
def closed_engine(key: str) -> Iterator[str]:
    """An engine that wants a key."""
    app = create_app(ScriptedEngine(model()))

    @app.middleware("http")
    async def guard(request: Request, go_on: Any) -> Response:
        if "/inference" in request.url.path and request.headers.get("authorization") != f"Bearer {key}":
            return JSONResponse({"error": "Unauthorized"}, 401)
        answer: Response = await go_on(request)
        return answer

    with serving_app(app) as url:
        yield url


def test_without_engines_there_is_nothing_of_it() -> None:
    with running() as server:
        assert server.post(CHAT, chat()).status_code == 404
        assert CHAT not in server.get("/openapi.json").json()["paths"]
    command = (
        "import sys; from renderd.server.flags import parse; from renderd.server.startup import load; "
        "import renderd.server.main; load(parse([])[0]); "
        "print([m for m in sys.modules if m == 'aiohttp' or m.startswith('renderd.gateway')])"
    )
    shown = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
