"""How a conversation becomes a prompt: the one place where models differ in it (contract C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from renderd.model import Model
from renderd.model.foreign import foreign_template
from renderd.model.jinja import ChatTemplate, compile_template
from renderd.render.conversation import build_conversation
from renderd.render.prompt import render_text
from renderd.render.response_items import conversation
from renderd.wire.responses import ResponsesRequest


@dataclass(frozen=True)
class Chat:
    """What a prompt is made of. `messages` and `tools` as the wire has them; `effort`: the request's own
    reasoning effort, mapped. Only templates look at `template`, which is the request's own, and `kwargs`, its
    effective variables. `refuses_parts`: content parts that a role cannot have are an error; else Harmony
    leaves them out."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    effort: str | None = None
    template: Any = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    refuses_parts: bool = True


class Writer(Protocol):
    """Writes the chats of one model. May be called from many threads.

    `about`: what writes them, for the operator to read.
    `templated`: a chat template does it. Then requests may bring one, and variables for it, if the server
    trusts them; and what they ask for in tokens is checked before.
    `needs_tool_parser`: nobody knows whether the model's calls can be read without one, so a request that
    lets it call tools is refused where there is none.
    """

    about: str
    templated: bool
    needs_tool_parser: bool

    def check(self, template: Any, kwargs: Any) -> None:
        """Raises ApiError 400 if a request may not bring its template or its variables."""
        ...

    def read(self, request: ResponsesRequest, effort: str | None) -> list[dict[str, Any]]:
        """The messages that a Responses request's instructions and input are to this model. `effort`: what it
        asks for, mapped. Raises ApiError 400 for what no prompt is made of."""
        ...

    def write(self, chat: Chat) -> str | Sequence[int]:
        """The prompt as text, or as token ids where text does not say which of its tokens are special.

        Raises ApiError 400 for a chat that cannot be written.
        """
        ...


class TemplateWriter:
    """Writes with the model's chat template, or the server's, or the request's."""

    templated = True
    needs_tool_parser = True

    def __init__(self, model: Model) -> None:
        self._model = model
        templates = model.templates
        known = "of the tokenizer" if templates.named else "none"
        self.about = f"chat template {known if templates.server is None else '--chat-template'}"

    def check(self, template: Any, kwargs: Any) -> None:
        """Raises ApiError 400 if a request brings a template and this server does not trust requests."""
        self._model.templates.check_trust(template, kwargs)

    def read(self, request: ResponsesRequest, effort: str | None) -> list[dict[str, Any]]:
        """Messages as chat requests have them. Raises ApiError 400."""
        return conversation(request)

    def write(self, chat: Chat) -> str:
        """The prompt's text. Raises ApiError 400 when there is no template or it refuses."""
        model = self._model
        with_tools = bool(chat.kwargs.get("tools", chat.tools))
        source = model.templates.choose(chat.template, with_tools)
        own = source != chat.template or source == model.templates.default
        most = model.config.max_template_seconds
        template: ChatTemplate = compile_template(source) if own else foreign_template(source, most)
        wanted = model.config.chat_template_content_format
        content_format = template.content_format if wanted == "auto" else wanted
        conversation = build_conversation(
            chat.messages, content_format, template.mentions_developer, model.served_names[0]
        )
        return render_text(model, template, conversation, chat.tools, chat.kwargs)
