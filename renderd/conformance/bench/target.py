"""A server that is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renderd.conformance.bench.cpu import serving_pids, settled
from renderd.conformance.client import Client
from renderd.conformance.runner import served_model

Json = dict[str, Any]

RENDER = "/v1/chat/completions/render"
DERENDER = "/v1/chat/completions/derender"


class Target:
    """A server. Raises ServerError, ProcessError, RuntimeError or OSError when it cannot be measured."""

    def __init__(self, name: str, url: str, pids: Sequence[int]) -> None:
        self.client = Client(url, timeout=600)
        self.url = url
        self.name = name
        self.model = served_model(self.client)
        self.limit: int | None = self.client.get("/v1/models").json()["data"][0].get("max_model_len")
        version = self.client.get("/version")
        self.version = version.json().get("version", "") if version.status == 200 else ""
        self.clock = settled(lambda: pids or serving_pids(url))

    def post(self, path: str, body: Any) -> Json:
        """The answer's body. RuntimeError for any status but 200."""
        answer = self.client.post(path, body)
        if answer.status != 200:
            raise RuntimeError(f"{self.client.url}{path}: status {answer.status}: {answer.body[:300]!r}")
        body = answer.json()
        return body if isinstance(body, dict) else {"answers": body}

    def fits(self, tokens: int) -> bool:
        """Whether a prompt of about that length fits the server's window."""
        return self.limit is None or tokens * 1.05 + 200 < self.limit
