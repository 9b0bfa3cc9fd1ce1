"""The application around fakes that answer at once, and a client of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi.testclient import TestClient

from renderd.server.app import create_app
from renderd.server.config import ServerConfig
from renderd.server.metrics import Metrics
from renderd.server.services import Services


@dataclass
class FakeModel:
    name: str = "some/model"
    served_names: list[str] = field(default_factory=lambda: ["first", "second"])
    max_model_len: int = 4096


class Fake:
    """Renders and derenders nothing: says which method was called with what, or raises `error`."""

    def __init__(self, direction: str) -> None:
        self.direction = direction
        self.error: Exception | None = None
        self.bodies: list[bytes] = []

    def __getattr__(self, name: str) -> Callable[..., bytes]:
        def call(body: bytes, *request_id: str | None) -> bytes:
            self.bodies.append(body)
            if self.error is not None:
                raise self.error
            return f'{{"called":"{self.direction}.{name}","bytes":{len(body)},"id":"{request_id}"}}'.encode()

        return call


@dataclass
class Fakes:
    render: Fake = field(default_factory=lambda: Fake("render"))
    derender: Fake = field(default_factory=lambda: Fake("derender"))


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def client_of(fakes: Fakes) -> Callable[..., TestClient]:
    """A client of the application with these flags."""

    def make(**flags: Any) -> TestClient:
        services = Services(
            FakeModel(),
            fakes.render,  # type: ignore[arg-type]
            fakes.derender,  # type: ignore[arg-type]
            fingerprint="00ff",
            fingerprint_parts={"state": "01"},
        )
        app = create_app(ServerConfig(**flags), services, Metrics())
        return TestClient(app, raise_server_exceptions=False, follow_redirects=False)

    return make


@pytest.fixture
def client(client_of: Callable[..., TestClient]) -> TestClient:
    return client_of()
