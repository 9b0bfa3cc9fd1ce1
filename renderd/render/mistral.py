"""Prompts of Mistral's models, written by mistral-common: no chat template is involved (contract C.8)."""

from __future__ import annotations

import json
from typing import Any

from renderd.model.mistral_tokenizer import MistralTokenizer
from renderd.render.response_items import conversation
from renderd.render.writer import Chat
from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request
from renderd.wire.responses import ResponsesRequest

_ID_LENGTH = 9


class MistralWriter:
    """Writes chats with control tokens that no text can spell."""

    about = "prompts by mistral-common"
    templated = True
    needs_tool_parser = False

    def __init__(self, tokenizer: MistralTokenizer) -> None:
        self._tokenizer = tokenizer

    def check(self, template: Any, kwargs: Any) -> None:
        """Raises ApiError 400 for a request that brings a template or variables for one."""
        if template is not None or kwargs is not None:
            raise rule_error("chat_template is not supported for Mistral tokenizers.", "chat_template")

    def read(self, request: ResponsesRequest, effort: str | None) -> list[dict[str, Any]]:
        """Messages as chat requests have them. Raises ApiError 400."""
        return conversation(request)

    def write(self, chat: Chat) -> list[int]:
        """The prompt's token ids. Raises ApiError 400 with mistral-common's reason."""
        continued = bool(chat.kwargs.get("continue_final_message"))
        prompted = bool(chat.kwargs.get("add_generation_prompt"))
        if not chat.messages:
            raise bad_request("list index out of range")
        if prompted and chat.messages[-1].get("role") == "assistant":
            raise bad_request(
                "Cannot set `add_generation_prompt` to True when the last message is from the assistant. "
                "Consider using `continue_final_message` instead."
            )
        options = {"add_generation_prompt": prompted, "continue_final_message": continued}
        try:
            return self._tokenizer.write_chat([_message(m) for m in chat.messages], chat.tools, options)
        except Exception as error:  # it has its own classes, pydantic's and Python's for what it refuses
            raise bad_request(str(error)) from None


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """A message as mistral-common takes it: ids of calls cut to the nine characters that it wants, arguments
    that are no JSON object replaced by an empty one."""
    result = dict(message)
    if isinstance(result.get("tool_call_id"), str):
        result["tool_call_id"] = result["tool_call_id"][-_ID_LENGTH:]
    if result.get("tool_calls"):
        result["tool_calls"] = [_call(call) for call in result["tool_calls"]]
    return result


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = {}
    if not isinstance(arguments, dict):
        arguments = {}
    function["arguments"] = json.dumps(arguments, ensure_ascii=False)
    return {**call, "id": call["id"][-_ID_LENGTH:], "function": function}
