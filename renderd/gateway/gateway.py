"""The APIs of a gateway, put together."""

from __future__ import annotations

from renderd.derender.batch import BatchDerenderer
from renderd.derender.setup import Setup
from renderd.derender.stream import StreamDerenderer
from renderd.gateway.chat import ChatFace
from renderd.gateway.completions import CompletionFace
from renderd.gateway.desk import Desk
from renderd.gateway.face import Face
from renderd.render.chat import Server


def desk_of(server: Server, setup: Setup, system_fingerprint: str | None) -> Desk:
    """What the APIs share."""
    return Desk(server, setup, StreamDerenderer(setup), BatchDerenderer(setup), system_fingerprint)


def faces(desk: Desk) -> dict[str, Face]:
    """The APIs, by path."""
    return {"/v1/chat/completions": ChatFace(desk), "/v1/completions": CompletionFace(desk)}
