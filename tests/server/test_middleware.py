"""API keys, request ids, CORS, root path and the operator's own middleware (contract A.7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from fastapi import Request, Response
from fastapi.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from renderd.server.config import StartupError

ClientOf = Callable[..., TestClient]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": key}


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer one", 200),
        ("bearer two", 200),
        ("Bearer  two", 401),
        ("Bearer three", 401),
        ("Bearer", 401),
        ("Basic one", 401),
        ("one", 401),
        ("", 401),
        ("Bearer one two", 401),
    ],
)
def test_keys(client_of: ClientOf, authorization: str, status: int) -> None:
    client = client_of(api_key=["one", "two"])
    answer = client.get("/v1/models", headers=bearer(authorization))
    assert answer.status_code == status
    if status == 401:
        assert answer.text == '{"error":"Unauthorized"}'
        assert "vary" not in answer.headers


def test_keys_guard_prefixes_before_routing(client_of: ClientOf) -> None:
    client = client_of(api_key=["one"], root_path="/rp")
    for path in (
        "/v1/nope",
        "/v1",
        "/rp/v1/models",
        "/v2/x",
        "/inference/v1/generate",
        "/cohere",
        "/%761/models",
    ):
        assert client.get(path).status_code == 401, path
    for path in ("/health", "/version", "/metrics", "/openapi.json", "/rp/health"):
        assert client.get(path).status_code == 200, path
    assert client.post("/tokenize", content=b"{}", headers={"content-type": "application/json"}).is_success
    assert client.get("/v1/models", headers={"x-api-key": "one"}).status_code == 401
    assert client.options("/v1/models").status_code == 405


def test_a_key_of_any_bytes_is_compared(client_of: ClientOf) -> None:
    client = client_of(api_key=["schlüssel"])
    for key, status in ((b"\xff\xfe", 401), ("schlüssel".encode(), 200)):
        assert client.get("/v1/models", headers=[(b"authorization", b"Bearer " + key)]).status_code == status


def test_the_root_path_may_be_there_or_not(client_of: ClientOf) -> None:
    client = client_of(root_path="/rp")
    assert client.get("/rp/v1/models").status_code == 200
    assert client.get("/v1/models").status_code == 200
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/rp"}]


def test_request_id_header(client_of: ClientOf) -> None:
    client = client_of(enable_request_id_headers=True, api_key=["one"])
    assert client.get("/health", headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    fresh = [client.get(path).headers["x-request-id"] for path in ("/health", "/nope", "/v1/models")]
    assert all(len(value) == 32 and int(value, 16) for value in fresh)
    assert len(set(fresh)) == 3
    assert "x-request-id" not in client_of().get("/health", headers={"x-request-id": "mine"}).headers


def test_cors(client_of: ClientOf) -> None:
    client = client_of(allowed_origins=["https://a.example"])
    good, bad = {"origin": "https://a.example"}, {"origin": "https://b.example"}
    assert client.get("/health", headers=good).headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in client.get("/health", headers=bad).headers
    assert client.get("/health").headers["vary"] == "Origin"
    asks = {"access-control-request-method": "POST"}
    answer = client.options("/tokenize", headers=good | asks)
    assert (answer.status_code, answer.text) == (200, "OK")
    answer = client.options("/tokenize", headers=bad | asks)
    assert (answer.status_code, answer.text) == (400, "Disallowed CORS origin")


def test_no_origin_is_allowed_unless_named(client_of: ClientOf) -> None:
    answer = client_of().get("/health", headers={"origin": "https://a.example"})
    assert "access-control-allow-origin" not in answer.headers


class Stamp:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path"] = "/version"
        await self.app(scope, receive, send)


async def mark(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers["x-mark"] = "here"
    return response


def test_own_middleware(client_of: ClientOf) -> None:
    client = client_of(middleware=[f"{__name__}.Stamp", f"{__name__}.mark"])
    answer = client.get("/health")
    assert answer.headers["x-mark"] == "here"
    assert "renderd" in answer.json()


@pytest.mark.parametrize("path", ["nope.Nope", "nope", f"{__name__}.nope", f"{__name__}.bearer"])
def test_middleware_that_cannot_be_used(client_of: ClientOf, path: str) -> None:
    with pytest.raises(StartupError, match="--middleware"):
        client_of(middleware=[path])
