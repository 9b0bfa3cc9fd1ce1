"""The APIs of a gateway, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from renderd.derender.batch import BatchDerenderer
from renderd.derender.setup import Setup
from renderd.derender.stream import StreamDerenderer
from renderd.gateway.chat import ChatFace
from renderd.gateway.completions import CompletionFace
from renderd.gateway.desk import Desk
from renderd.gateway.face import Face
from renderd.gateway.messages import MessagesFace
from renderd.gateway.prepared import packed, unpacked_finished
from renderd.render.chat import Server

Handler = Callable[[bytes, str | None], bytes]
"""Work that another process may do: a body and the header X-Request-Id -> bytes. Raises ApiError."""

COUNT_TOKENS = "/v1/messages/count_tokens"
"""The path of what `messages` counts. No engine is asked for it."""


@dataclass(frozen=True)
class Gateway:
    """One model, and the APIs by path."""

    desk: Desk
    faces: dict[str, Face]
    messages: MessagesFace

    @staticmethod
    def preparing(path: str) -> str:
        """What the handler is called that renders a request to `path`."""
        return f"prepare {path}"

    @staticmethod
    def finishing(path: str) -> str:
        """What the handler is called that writes the answer to a request to `path`."""
        return f"finish {path}"

    @property
    def paths(self) -> list[str]:
        """Of all that it answers."""
        return [*self.faces, COUNT_TOKENS]

    def handlers(self) -> dict[str, Handler]:
        """The work that may take long, by name."""
        found: dict[str, Handler] = {COUNT_TOKENS: self.messages.count}
        for path, face in self.faces.items():
            found[self.preparing(path)] = partial(_prepare, face)
            found[self.finishing(path)] = partial(_finish, face)
        return found


def _prepare(face: Face, body: bytes, request_id: str | None) -> bytes:
    return packed(face.prepare(body, request_id))


def _finish(face: Face, body: bytes, request_id: str | None) -> bytes:
    finished = unpacked_finished(body)
    return face.finish(finished.prepared, finished.responses())


def gateway_of(server: Server, setup: Setup, system_fingerprint: str | None) -> Gateway:
    """The gateway of one model. `system_fingerprint`: see Desk."""
    desk = Desk(server, setup, StreamDerenderer(setup), BatchDerenderer(setup), system_fingerprint)
    messages = MessagesFace(desk)
    faces: dict[str, Face] = {
        "/v1/chat/completions": ChatFace(desk),
        "/v1/completions": CompletionFace(desk),
        "/v1/messages": messages,
    }
    return Gateway(desk, faces, messages)
