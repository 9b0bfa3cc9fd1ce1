"""The HTTP surface: routes, errors, content types, documentation, metrics (contract A.1 to A.6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from renderd.server.app import create_app
from renderd.server.config import ServerConfig
from renderd.server.long_work import LongWork
from renderd.server.metrics import Metrics
from renderd.server.routes import POSTS
from renderd.server.services import Services
from renderd.wire.errors import bad_request

from .conftest import FakeModel, Fakes

ClientOf = Callable[..., TestClient]

CARD_KEYS = ["id", "object", "created", "owned_by", "root", "parent", "max_model_len", "permission"]
PERMISSION_KEYS = [
    "id",
    "object",
    "created",
    "allow_create_engine",
    "allow_sampling",
    "allow_logprobs",
    "allow_search_indices",
    "allow_view",
    "allow_fine_tuning",
    "organization",
    "group",
    "is_blocking",
]
JSON = {"content-type": "application/json"}
CALLS = {
    "/v1/chat/completions/render": "render.chat",
    "/v1/completions/render": "render.completion",
    "/v1/chat/completions/derender": "derender.chat",
    "/v1/completions/derender": "derender.completion",
    "/v1/messages/render": "render.messages",
    "/v1/messages/derender": "derender.messages",
    "/v1/responses/render": "render.responses",
    "/v1/responses/derender": "derender.responses",
    "/tokenize": "render.tokenize",
    "/detokenize": "render.detokenize",
}


@pytest.mark.parametrize(("path", "called"), CALLS.items())
@pytest.mark.parametrize("size", [2, 100_000])
def test_posts_hand_the_body_over_as_it_came(
    client: TestClient, fakes: Fakes, path: str, called: str, size: int
) -> None:
    body = b"{" + b" " * (size - 2) + b"}"
    answer = client.post(path, content=body, headers=JSON | {"X-Request-Id": "rid"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["called"] == called
    assert (fakes.render.bodies + fakes.derender.bodies) == [body]
    renders = path.startswith("/v1") and path.endswith("/render")
    assert answer.json()["id"] == ("('rid',)" if renders else "()")


def test_every_post_route_is_tried() -> None:
    assert {post.path for post in POSTS} == set(CALLS)


def test_large_bodies_leave_the_event_loop(fakes: Fakes) -> None:
    """They are long work: test_admission.py has what becomes of that."""
    services = Services(FakeModel(), fakes.render, fakes.derender)  # type: ignore[arg-type]
    done: list[int] = []

    class Elsewhere(LongWork):
        async def do(self, path: str, body: bytes, request_id: str | None) -> bytes:
            done.append(len(body))
            return b"{}"

    config = ServerConfig()
    client = TestClient(create_app(config, services, Metrics(), long_work=Elsewhere(config, {})))
    for size in (10, 100_000):
        assert client.post("/v1/chat/completions/derender", content=b" " * size, headers=JSON).is_success
    assert done == [100_000]
    assert [len(body) for body in fakes.derender.bodies] == [10]


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/vnd.api+json", "application/json ;x=1", ""]
)
def test_other_content_types_are_refused(
    client: TestClient, fakes: Fakes, path: str, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = client.post(path, content=b"{}", headers=headers)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "message": "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
            "type": "Bad Request",
            "param": None,
            "code": 400,
        }
    }
    assert not fakes.render.bodies + fakes.derender.bodies


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_parameters_and_case_of_the_content_type_do_not_matter(client: TestClient, content_type: str) -> None:
    answer = client.post("/tokenize", content=b"{}", headers={"content-type": content_type})
    assert answer.status_code == 200


def test_errors_of_the_rooms_become_the_envelope(client: TestClient, fakes: Fakes) -> None:
    fakes.render.error = bad_request("no /home/me/file.json here", "messages")
    answer = client.post("/v1/chat/completions/render", content=b"{}", headers=JSON)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "error": {
            "message": "no <path> here",
            "type": "BadRequestError",
            "param": "messages",
            "code": 400,
        }
    }


@pytest.mark.parametrize(
    "error",
    [
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"),
        OverflowError("big"),
    ],
)
def test_values_that_cannot_be_used_are_the_clients_fault(
    client: TestClient, fakes: Fakes, error: Exception
) -> None:
    fakes.render.error = error
    answer = client.post("/v1/chat/completions/render", content=b"{}", headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("The request holds a value that cannot be used: ")


def test_work_that_goes_deeper_than_reading_did_is_the_clients_fault(
    client: TestClient, fakes: Fakes
) -> None:
    fakes.render.error = RecursionError()
    answer = client.post("/v1/chat/completions/render", content=b"{}", headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "The request is nested too deeply to be used."


@pytest.mark.parametrize("size", [2, 100_000])
def test_defects_are_logged_and_say_nothing(
    client: TestClient, fakes: Fakes, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    fakes.derender.error = RuntimeError("secret")
    answer = client.post("/v1/chat/completions/derender", content=b" " * size, headers=JSON)
    assert answer.status_code == 500
    assert answer.json()["error"] == {
        "message": "Internal server error",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
    assert "secret" in caplog.text


def test_too_large_bodies_are_refused(client_of: Callable[..., TestClient], fakes: Fakes) -> None:
    client = client_of(max_body_bytes=1000)

    def pieces() -> Iterator[bytes]:
        for _ in range(3):
            yield b" " * 400

    for content in (b" " * 1001, pieces()):
        answer = client.post("/tokenize", content=content, headers=JSON)
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "RequestEntityTooLargeError"
    assert client.post("/tokenize", content=b" " * 1000, headers=JSON).status_code == 200
    assert len(fakes.render.bodies) == 1


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/health", 200, ""),
        ("GET", "/ping", 200, ""),
        ("POST", "/ping", 200, ""),
        ("GET", "/load", 200, '{"server_load":0}'),
        (
            "GET",
            "/version",
            200,
            '{"version":"0.33.0","renderd":"0.1.0","fingerprint":"00ff","fingerprint_parts":{"state":"01"}}',
        ),
        ("GET", "/nope", 404, '{"detail":"Not Found"}'),
        ("GET", "/v1/chat/completions", 404, '{"detail":"Not Found"}'),
        ("GET", "/tokenize", 405, '{"detail":"Method Not Allowed"}'),
        ("PUT", "/health", 405, '{"detail":"Method Not Allowed"}'),
        ("HEAD", "/health", 405, ""),
        ("OPTIONS", "/v1/models", 405, '{"detail":"Method Not Allowed"}'),
    ],
)
def test_small_routes_and_wrong_ones(
    client: TestClient, method: str, path: str, status: int, body: str
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.text) == (status, body)
    if status == 405:
        assert answer.headers["allow"] in ("GET", "POST")
    if body:
        assert answer.headers["content-type"] == "application/json"
    elif status == 200:
        assert "content-type" not in answer.headers


def test_a_trailing_slash_is_redirected(client: TestClient) -> None:
    answer = client.post("/tokenize/", content=b"{}", headers=JSON)
    assert answer.status_code == 307
    assert answer.headers["location"] == "http://testserver/tokenize"


def test_models(client: TestClient) -> None:
    answer = client.get("/v1/models").json()
    assert answer["object"] == "list"
    assert [card["id"] for card in answer["data"]] == ["first", "second"]
    card = answer["data"][0]
    assert list(card) == CARD_KEYS
    assert (card["owned_by"], card["root"], card["parent"]) == ("vllm", "some/model", None)
    assert card["max_model_len"] == 4096
    permission = card["permission"][0]
    assert list(permission) == PERMISSION_KEYS
    assert permission["id"].startswith("modelperm-") and len(permission["id"]) == len("modelperm-") + 16


def test_the_document_describes_every_route(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path in CALLS:
        operation = document["paths"][path]["post"]
        assert operation["requestBody"]["content"]["application/json"]["schema"]
        assert operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert operation["responses"]["400"]["content"]["application/json"]["schema"]
    for path in ("/v1/models", "/health", "/ping", "/version", "/load", "/metrics"):
        assert document["paths"][path]["get"]
    schemas = document["components"]["schemas"]
    assert "messages" in schemas["ChatCompletionRequest"]["required"]
    assert set(schemas["GenerateRequest"]["required"]) >= {"token_ids", "sampling_params"}
    assert "ChatCompletionRequest" in str(schemas["DerenderChatRequest"]["properties"]["chat_request"])


def test_every_reference_of_the_document_resolves(client: TestClient) -> None:
    document = client.get("/openapi.json").json()

    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    found = set(references(document))
    assert found
    for reference in found:
        prefix, _, name = reference.rpartition("/")
        assert prefix == "#/components/schemas"
        assert name in document["components"]["schemas"]


def test_documentation_pages(client: TestClient, client_of: ClientOf) -> None:
    paths = ("/docs", "/redoc", "/openapi.json")
    for path in paths:
        assert client.get(path).status_code == 200
        assert client.head(path).status_code == 200
    without = client_of(disable_fastapi_docs=True)
    assert [without.get(path).status_code for path in paths] == [404, 404, 404]


def test_methods_that_no_route_has_are_one_in_the_metrics(client: TestClient) -> None:
    for method in ("PUT", "DELETE", "PROPFIND", "PURGE", "HEAD"):
        client.request(method, "/tokenize")
    text = client.get("/metrics").text
    assert 'http_requests_total{handler="/tokenize",method="other",status="4xx"} 4.0' in text
    assert 'http_request_duration_seconds_count{handler="/tokenize",method="other"} 4.0' in text
    assert set(re.findall(r'method="(\w+)"', text)) == {"HEAD", "other"}


def test_metrics(client: TestClient, fakes: Fakes) -> None:
    client.post("/tokenize", content=b"{}", headers=JSON)
    client.post("/tokenize", content=b"{}")
    client.get("/v1/models")
    for path in ("/health", "/ping", "/version", "/load", "/nope"):
        client.get(path)
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    lines = answer.text.splitlines()
    totals = {line for line in lines if line.startswith("http_requests_total{")}
    assert totals == {
        'http_requests_total{handler="/tokenize",method="POST",status="2xx"} 1.0',
        'http_requests_total{handler="/tokenize",method="POST",status="4xx"} 1.0',
        'http_requests_total{handler="/v1/models",method="GET",status="2xx"} 1.0',
        'http_requests_total{handler="none",method="GET",status="4xx"} 1.0',
    }
    for family in (
        "http_request_size_bytes",
        "http_response_size_bytes",
        "http_request_duration_seconds",
        "http_request_duration_highr_seconds",
    ):
        assert any(line.startswith(f"# TYPE {family} ") for line in lines)
        assert any(line.startswith(f"{family}_created") for line in lines)
    for name in ("process_cpu_seconds_total", "python_info", "python_gc_collections_total"):
        assert any(line.startswith(name) for line in lines)


def test_tokenizer_info_is_there_by_flag_only(client_of: ClientOf, fakes: Fakes) -> None:
    assert client_of().get("/tokenizer_info").status_code == 404
    fakes.render.tokenizer_info = lambda: {"tokenizer_class": "X", "model_max_length": 10**30}  # type: ignore[attr-defined]
    answer = client_of(enable_tokenizer_info_endpoint=True).get("/tokenizer_info")
    assert answer.json() == {"tokenizer_class": "X", "model_max_length": 10**30}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/nope", "/tokenize"])
def test_every_answer_names_the_fingerprint(client: TestClient, path: str) -> None:
    assert client.get(path).headers["x-renderd-fingerprint"] == "00ff"
    assert client.post(path, json={}).headers["x-renderd-fingerprint"] == "00ff"
