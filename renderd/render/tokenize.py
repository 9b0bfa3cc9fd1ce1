"""`/tokenize` and `/detokenize` (contract A.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renderd import telemetry
from renderd.model import Model
from renderd.render.chat import Server, check_rights, write
from renderd.render.prompt import encode
from renderd.render.writer import Chat
from renderd.wire.api import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeChatRequest,
    TokenizeCompletionRequest,
    TokenizeResponse,
)
from renderd.wire.chat import Tool, tool_dict
from renderd.wire.decode import convert, rule_error, validation_error
from renderd.wire.errors import ApiError, bad_request
from renderd.wire.messages import read_calls, read_messages

_MAX_ID = 2**63 - 1
_FILES = ("vocab_file", "merges_file", "tokenizer_file", "name_or_path")


def tokenize(server: Server, raw: dict[str, Any]) -> TokenizeResponse:
    """Token ids of a text or of a conversation, however long the model's context is. Raises ApiError 400 or
    404."""
    if raw.get("add_generation_prompt") and raw.get("continue_final_message"):
        raise rule_error("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    request = _read(raw)
    model = server.model
    model.check_name(request.model)
    written = _written(server, request)
    ids = encode(model, written, request.add_special_tokens)[0] if isinstance(written, str) else written
    pieces = [model.tokenizer.shown_piece(i) for i in ids] if request.return_token_strs else None
    return TokenizeResponse(len(ids), model.max_model_len, ids, pieces)


def detokenize(server: Server, raw: dict[str, Any]) -> DetokenizeResponse:
    """The text of token ids, special tokens included. Raises ApiError 400 or 404."""
    request = convert(raw, DetokenizeRequest)
    if len(request.tokens) > server.model.max_text_chars:
        raise bad_request(
            f"There are {len(request.tokens)} tokens, and this server detokenizes at most "
            f"{server.model.max_text_chars} at a time (--max-text-chars).",
            "tokens",
        )
    for index, token_id in enumerate(request.tokens):
        if not 0 <= token_id <= _MAX_ID:
            raise validation_error(f"body.tokens.{index}", f"Input should be from 0 to {_MAX_ID}")
    server.model.check_name(request.model)
    known = [i for i in request.tokens if i <= server.model.tokenizer.max_id]
    began = telemetry.clock()
    text = server.model.tokenizer.decode(known)
    telemetry.spent("detokenize", began)
    return DetokenizeResponse(text)


def tokenizer_info(model: Model) -> dict[str, Any]:
    """The tokenizer's configuration as its files give it, special tokens as plain texts (contract A.5).

    Paths and names of files say nothing to a client and are left out.
    """
    info: dict[str, Any] = {
        **model.tokenizer.special_tokens,
        **{key: value for key, value in model.tokenizer_config.items() if key not in _FILES},
        "truncation_side": "left",
    }
    if model.templates.server is not None or "chat_template" not in info:
        info["chat_template"] = model.templates.default
    return {key: _plain(value) for key, value in info.items()}


def _plain(value: Any) -> Any:
    """An added token as its text, wherever it stands."""
    if isinstance(value, dict):
        if "content" in value and "lstrip" in value:
            return value["content"]
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _read(raw: dict[str, Any]) -> TokenizeChatRequest | TokenizeCompletionRequest:
    """The chat form if the body can be read so."""
    if "messages" not in raw:
        return convert(raw, TokenizeCompletionRequest)
    try:
        request = convert(raw, TokenizeChatRequest)
        request.messages = read_calls(read_messages(request.messages, "body.messages"), "body.messages")
        return request
    except ApiError as error:
        try:
            return convert(raw, TokenizeCompletionRequest)
        except ApiError:
            raise error from None


def _written(server: Server, request: TokenizeChatRequest | TokenizeCompletionRequest) -> str | Sequence[int]:
    """The text, or the ids of a conversation that is none."""
    if isinstance(request, TokenizeCompletionRequest):
        return request.prompt
    check_rights(
        server,
        request.chat_template,
        request.chat_template_kwargs,
        request.media_io_kwargs,
        request.mm_processor_kwargs,
    )
    tools = request.tools and [tool_dict(tool) for tool in convert(request.tools, list[Tool], "body.tools")]
    kwargs: dict[str, Any] = dict(server.model.config.default_chat_template_kwargs)
    for layer in (
        request.chat_template_kwargs or {},
        {
            "add_generation_prompt": request.add_generation_prompt,
            "continue_final_message": request.continue_final_message,
        },
    ):
        kwargs.update((key, value) for key, value in layer.items() if value is not None and value != "auto")
    template = request.chat_template or kwargs.get("chat_template")
    chat = Chat(request.messages, tools or None, template=template, kwargs=kwargs, refuses_parts=False)
    return write(server, chat)
