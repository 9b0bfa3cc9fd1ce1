"""A scripted engine on the carried model: in process, and on a port of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi.testclient import TestClient

from renderd.demo import model_dir
from renderd.engine.app import ScriptedEngine, create_app
from renderd.model import Model, ModelConfig, load_model


@pytest.fixture(scope="session")
def model() -> Model:
    return load_model(ModelConfig(model=str(model_dir()), served_model_name=["demo", "second"]))


@pytest.fixture
def http(model: Model) -> TestClient:
    return TestClient(create_app(ScriptedEngine(model)))


@pytest.fixture
def slow_url(model: Model) -> Iterator[str]:
    """An engine that takes 10 ms a token, by its URL."""
    config = uvicorn.Config(create_app(ScriptedEngine(model, delay=0.01)), port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join()
