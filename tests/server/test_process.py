"""`renderd serve` as a process: start, refusal to start, signals, sockets, TLS, logs."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from golden.models import model_path
from renderd.demo import model_dir
from tests.model import foreign

from .running import refused, running

DATA = Path(__file__).parent / "data"
QWEN = ("--reasoning-parser", "qwen3", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
CHAT = {"messages": [{"role": "user", "content": "Hello"}]}


def test_without_a_model_the_carried_one_is_served() -> None:
    with running() as server:
        assert server.post("/v1/chat/completions/render", CHAT).json()["token_ids"]
        start = "".join(server.log)
        assert "renderd 0.1.0 serves" in start
        assert (
            "reasoning parser none, tool parser none, chat template of the tokenizer, max_model_len" in start
        )
        assert start.count("ready on http://127.0.0.1:") == 1
        assert server.stop() == 0


def test_the_start_says_what_writes_the_prompts(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((model_dir() / name).read_bytes())
    for model, flags, said in (
        (str(model_path("gptoss")), ("--chat-template", "template_chatml.jinja"), "prompts in Harmony"),
        (str(foreign.folder_of("tekken")), (), "prompts by mistral-common"),
        (str(tmp_path), (), "chat template none"),
        (str(tmp_path), ("--chat-template", "template_chatml.jinja"), "chat template --chat-template"),
    ):
        with running(model, *flags) as server:
            assert f"tool parser none, {said}, max_model_len" in "".join(server.log)


def test_flags_say_what_is_served() -> None:
    flags = ("--served-model-name", "a", "b", "--max-model-len", "4k", "--dtype", "half", "-tp", "2", *QWEN)
    with running(str(model_path("qwen3")), *flags) as server:
        start = "".join(server.log)
        assert (
            "serves " + str(model_path("qwen3")) + " as a, b: reasoning parser qwen3, tool parser hermes"
            in start
        )
        assert "max_model_len 4000" in start
        assert [line for line in server.log if line.startswith("WARNING")] == [
            "WARNING:  vLLM flags without effect here: --dtype -tp\n"
        ]
        models = server.get("/v1/models").json()["data"]
        assert [(card["id"], card["max_model_len"]) for card in models] == [("a", 4000), ("b", 4000)]


def test_a_chat_travels_through_render_and_derender() -> None:
    with running(str(model_path("qwen3")), *QWEN) as server:
        rendered = server.post("/v1/chat/completions/render", CHAT, **{"X-Request-Id": "rid"}).json()
        assert rendered["request_id"] == "chatcmpl-rid"
        output = "<think>\nhm\n</think>\n\nhello<|im_end|>"
        ids = server.post("/tokenize", {"prompt": output}).json()["tokens"]
        assert server.post("/detokenize", {"tokens": ids}).json() == {"prompt": output}
        body = {"prompt_token_ids": rendered["token_ids"], "chat_request": CHAT}
        response = {"request_id": "r", "choices": [{"index": 0, "token_ids": ids}]}
        answer = server.post("/v1/chat/completions/derender", body | {"generate_response": response}).json()
        message = answer["choices"][0]["message"]
        assert (message["reasoning"], message["content"]) == ("\nhm\n", "\n\nhello")
        state, reasoning, content = None, "", ""
        for position, token_id in enumerate(ids):
            choice = {"index": 0, "token_ids": [token_id]}
            if position == len(ids) - 1:
                choice["finish_reason"] = "stop"
            chunk = {"request_id": "r", "choices": [choice]}
            call = body | {"stream": True, "generate_chunk": chunk, "stream_state": state}
            answer = server.post("/v1/chat/completions/derender", call).json()
            state = answer["stream_state"]
            delta = answer["chunk"]["choices"][0]["delta"]
            reasoning += delta["reasoning"] or ""
            content += delta["content"] or ""
        assert (reasoning, content) == ("\nhm\n", "\n\nhello")


@pytest.mark.parametrize(
    ("model", "flags", "says"),
    [
        ("qwen3", ["--enable-auto-tool-choice"], "--enable-auto-tool-choice requires --tool-call-parser"),
        ("qwen3", ["--reasoning-parser", "nope"], "nope (chosen from "),
        ("qwen3", ["--enable-auto-tool-choice", "--tool-call-parser", "nope"], "nope (chosen from "),
        (
            "qwen3",
            ["--enable-auto-tool-choice", "--tool-call-parser", "llama3_json"],
            "--tool-call-parser llama3_json cannot be used with the tokenizer of '{model}': "
            "it has no token '<|python_tag|>'",
        ),
        ("llama3_1", ["--reasoning-parser", "deepseek_r1"], "--reasoning-parser deepseek_r1 cannot be used"),
        ("qwen3", ["--reasoning-parser", "mistral"], "needs a tokenizer that has the token [TOOL_CALLS]"),
        ("qwen3", ["--reasoning-parser", "minimax_m3"], "it has no token '</mm:think>', '<mm:think>'"),
        ("qwen3", ["--reasoning-parser", "poolside_v1"], "it has no token '<assistant>'"),
        ("qwen3", ["--chat-template", "nope.jinja"], "nope.jinja"),
        ("qwen3", ["--max-model-len", "1000M"], "--max-model-len"),
        (
            "qwen3",
            ["--reasoning-effort-map", '{"a":"b"}'],
            "--reasoning-effort-map has unknown efforts ['a']",
        ),
        ("qwen3", ["--ssl-certfile", "nope.pem"], "the TLS files cannot be used"),
        ("qwen3", ["--middleware", "nope.Nope"], "--middleware nope.Nope cannot be imported"),
        ("qwen3", ["--host", "203.0.113.1"], "cannot listen on 203.0.113.1:0"),
    ],
)
def test_refusals_to_start(model: str, flags: list[str], says: str) -> None:
    path = str(model_path(model))
    status, line = refused(path, *flags)
    assert status == 1
    assert line.startswith("renderd serve: error: ")
    assert says.replace("{model}", path) in line


def test_a_model_that_is_not_there() -> None:
    status, line = refused("./no/such/model")
    assert status == 1
    assert line.startswith("renderd serve: error: ") and "./no/such/model" in line


def test_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, line = refused("--host", "127.0.0.1", "--port", str(port))
    assert (status, line) == (
        1,
        f"renderd serve: error: cannot listen on 127.0.0.1:{port}: Address already in use",
    )


@pytest.mark.parametrize(
    "name", ["VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "VLLM_MAX_N_SEQUENCES", "VLLM_MAX_STOP_STRINGS"]
)
def test_wrong_environment_variables(name: str) -> None:
    status, line = refused(env={name: "many"})
    assert status == 1
    assert line == f"renderd serve: error: the environment variable {name} must be a whole number, not 'many'"


def test_a_parser_that_is_not_enabled_is_not_looked_for() -> None:
    with running(str(model_path("qwen3")), "--tool-call-parser", "nope") as server:
        start = "".join(server.log)
        assert "tool parser none" in start
        assert "WARNING:  --tool-call-parser nope has no effect without --enable-auto-tool-choice" in start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_let_requests_finish(number: signal.Signals) -> None:
    with running() as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            body = json.dumps({"prompt": "many words and 数字 12345 " * 1000}).encode()
            connection.sendall(
                b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body)
            )
            assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"  # it is under way
            server.process.send_signal(number)
            while "draining" not in "".join(server.log):
                time.sleep(0.01)
            connection.sendall(body)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["count"] > 5000
        assert server.process.wait(timeout=30) == 0


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGTERM, signal.SIGTERM]])
def test_signals_right_after_the_start(numbers: list[signal.Signals]) -> None:
    """The faster encoder is still being proved then, in native code and another thread."""
    for seconds in (0, 0.05, 0.2):
        with running(str(model_path("qwen3"))) as server:
            for number in numbers:
                time.sleep(seconds)
                server.process.send_signal(number)
            assert server.process.wait(timeout=30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_before_anything_is_imported(number: signal.Signals) -> None:
    code = (
        "import os, time\n"
        "from renderd import cli\n"
        "def importing(name):\n"
        f"    os.kill(os.getpid(), {number})\n"
        "    time.sleep(30)\n"
        "cli.import_module = importing\n"
        "cli.main(['serve'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_while_it_starts_leave_nobody(number: signal.Signals) -> None:
    for seconds in (0.5, 1.0, 1.5, 2.0):
        command = [sys.executable, "-m", "renderd", "serve", str(model_path("qwen3"))]
        process = subprocess.Popen(
            [*command, "--port", "0", "--probe-port", "0"], stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(seconds)
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        with pytest.raises(ProcessLookupError):
            for _ in range(200):  # one that has ended is there until init looks
                os.killpg(process.pid, 0)
                time.sleep(0.05)


def test_keys_from_the_environment() -> None:
    with running(env={"VLLM_API_KEY": "one"}) as server:
        assert server.get("/v1/models").status_code == 401
        assert server.get("/v1/models", authorization="Bearer one").status_code == 200
    with running("--api-key", "two", env={"VLLM_API_KEY": "one"}) as server:
        assert server.get("/v1/models", authorization="Bearer one").status_code == 401
        assert server.get("/v1/models", authorization="Bearer two").status_code == 200


def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for _ in range(2):  # the second finds what the first left behind
        with running("--uds", str(path)) as server:
            assert server.url == f"unix:{path}"
            with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as client:
                assert client.get("http://renderd/health").status_code == 200


def test_tls(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    key.write_bytes((DATA / "key.pem").read_bytes())
    cert.write_bytes((DATA / "cert.pem").read_bytes())
    trust = ssl.create_default_context(cafile=str(cert))
    files = ("--ssl-keyfile", str(key), "--ssl-certfile", str(cert))
    with running(*files, "--enable-ssl-refresh") as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert httpx2.get(server.url + "/health", verify=trust).status_code == 200
        cert.write_bytes(cert.read_bytes())
        deadline = time.monotonic() + 20
        while "loaded the TLS files again" not in "".join(server.log):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert httpx2.get(server.url + "/health", verify=trust).status_code == 200
    with running(*files, "--ssl-cert-reqs", "2", "--ssl-ca-certs", str(cert)) as server:
        with pytest.raises(httpx2.TransportError):
            httpx2.get(server.url + "/health", verify=trust)
        trust.load_cert_chain(cert, key)
        assert httpx2.get(server.url + "/health", verify=trust).status_code == 200


def test_access_lines() -> None:
    with running("--disable-access-log-for-endpoints", "/health") as server:
        for path in ("/health", "/health?x=1", "/version"):
            server.get(path)
        server.stop()
        lines = [line for line in server.log if "GET /" in line]
        assert len(lines) == 1 and '"GET /version HTTP/1.1" 200' in lines[0]
    with running("--disable-uvicorn-access-log") as server:
        server.get("/version")
        server.stop()
        assert not [line for line in server.log if "GET /" in line]


def test_idle_connections_are_closed_after_the_keep_alive_time() -> None:
    with running(env={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "1"}) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"GET /load HTTP/1.1\r\nhost: x\r\n\r\n")
            received = connection.recv(65536)
            start = time.monotonic()
            while connection.recv(65536):
                pass
            assert 0.5 < time.monotonic() - start < 5
        assert json.loads(received.partition(b"\r\n\r\n")[2] or b'{"server_load":0}') == {"server_load": 0}


def test_threads_do_not_meddle_with_each_other() -> None:
    def render(number: int) -> dict[str, Any]:
        text = f"{number} words and more " * (50 * (number % 4) + 1)
        body = CHAT | {"messages": [{"role": "user", "content": text}], "truncate_prompt_tokens": 20 + number}
        answer: dict[str, Any] = server.post("/v1/chat/completions/render", body | {"request_id": "r"}).json()
        return answer

    with running(str(model_path("qwen3")), "--renderer-num-workers", "4") as server:
        alone = [render(number) for number in range(16)]
        assert [len(answer["token_ids"]) for answer in alone[1:4]] == [21, 22, 23]
        with ThreadPoolExecutor(8) as pool:
            for _ in range(5):
                assert list(pool.map(render, range(16))) == alone


def test_clients_that_vanish_do_no_harm() -> None:
    with running() as server:
        host, port = server.url.removeprefix("http://").split(":")
        head = b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        for sent, length in (
            (b"", 100),
            (b'{"prompt": "a', 100),
            (b'{"prompt": "' + b"a" * 200_000 + b'"}', 200_014),
        ):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(head + b"content-length: %d\r\n\r\n" % length + sent)
        assert server.post("/tokenize", {"prompt": "a"}).json()["count"] == 1
        assert server.stop() == 0
        assert "a defect of renderd" not in "".join(server.log)


@pytest.mark.parametrize("size", ["99999999999", "0" * 5000 + "5"])
def test_a_declared_size_that_is_too_large_is_refused_at_once(size: str) -> None:
    with running() as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(
                b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                b"content-length: " + size.encode() + b"\r\n\r\n"
            )
            assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
