"""The routes that answer with a message: how their bodies carry the request, and what else they remember."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from msgspec import Raw

from parsers import PromptVerdict
from renderd.derender.context import Context
from renderd.derender.requests import read_chat_request, read_completion_request
from renderd.derender.setup import Setup
from renderd.wire.chat import ChatCompletionRequest
from renderd.wire.completion import CompletionRequest
from renderd.wire.derender import FinishedMessage, StreamedEvent

T = TypeVar("T")


class Route(Protocol):
    """What a stream that goes on has to know of its route."""

    @property
    def name(self) -> str:
        """As states have it."""

    @property
    def field(self) -> str:
        """Of the bodies, that holds the request."""

    def compile(self, setup: Setup, body: StreamedEvent, verdict: PromptVerdict, tokens: int) -> Context:
        """The request in a body, compiled. `tokens`: of the prompt. Raises ApiError 400."""


@dataclass(frozen=True)
class MessageRoute(Generic[T]):
    """How a route that answers with a message reads the request in its bodies.

    Attributes:
        api: as the names of its bodies have it.
        field: of the bodies, that holds the request.
        read: the request in the field, None if there is none.
        as_chat: the chat request that asks for the same answer.
        complete: what else the route remembers of a request, with the number of prompt tokens.
    """

    api: str
    field: str
    read: Callable[[Raw, str], T | None]
    as_chat: Callable[[T], ChatCompletionRequest]
    complete: Callable[[Setup, Context, T, int], Context] = lambda setup, context, request, tokens: context

    @cached_property
    def name(self) -> str:
        """As states have it."""
        return self.api.lower()

    def body(self, stream: bool) -> str:
        """The dotted place of a body."""
        return f"body.Derender{self.api}{'Stream' if stream else ''}Request"

    def request(self, body: object, stream: bool) -> T | None:
        """The request in a body, decoded. Raises ApiError 400."""
        return self.read(getattr(body, self.field), f"{self.body(stream)}.{self.field}")

    def context(self, setup: Setup, request: T | None, verdict: PromptVerdict, prompt_tokens: int) -> Context:
        """The compiled request."""
        if request is None:
            return setup.chat_context(None, verdict)
        context = setup.chat_context(self.as_chat(request), verdict)
        return self.complete(setup, context, request, prompt_tokens)

    def compile(self, setup: Setup, body: StreamedEvent, verdict: PromptVerdict, tokens: int) -> Context:
        """See `Route`."""
        return self.context(setup, self.request(body, stream=True), verdict, tokens)


class CompletionRoute:
    """How the completion route reads the request in the bodies of its streams."""

    name = "completion"
    field = "completion_request"
    body = "body.DerenderCompletionStreamRequest"

    def request(self, body: StreamedEvent) -> CompletionRequest | None:
        """The request in a body, decoded. Raises ApiError 400."""
        return read_completion_request(getattr(body, self.field), f"{self.body}.{self.field}")

    def compile(self, setup: Setup, body: StreamedEvent, verdict: PromptVerdict, tokens: int) -> Context:
        """See `Route`."""
        return setup.completion_context(self.request(body))


COMPLETION = CompletionRoute()
CHAT: MessageRoute[ChatCompletionRequest] = MessageRoute(
    "Chat", "chat_request", read_chat_request, lambda request: request
)


def finished_prompt_tokens(body: FinishedMessage) -> int:
    """Tokens of the prompt of a finished answer: as the body says, else as many as came with it."""
    if body.prompt_tokens is not None:
        return body.prompt_tokens
    ids = (
        body.prompt_token_ids
        if body.prompt_token_ids is not None
        else body.generate_response.prompt_token_ids
    )
    return len(ids or ())


def streamed_prompt_tokens(body: StreamedEvent, known: int) -> int:
    """Tokens of the prompt of a stream: as the body says, else as many as came with it, else as the engine
    counted."""
    if body.prompt_tokens is not None:
        return body.prompt_tokens
    usage = body.generate_chunk.usage
    return known or (usage.prompt_tokens if usage else 0)
