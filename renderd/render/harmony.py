"""Prompts of gpt-oss, in Harmony (contract C.7): messages with a channel, tools as types of TypeScript."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from renderd.model.harmony import Harmony
from renderd.model.segments import TokenIds
from renderd.model.templates import ChatTemplates
from renderd.render.harmony_items import Placed, harmony_messages
from renderd.render.typescript import namespace
from renderd.render.writer import Chat
from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request
from renderd.wire.messages import refuses_parts
from renderd.wire.responses import ResponsesRequest

Message = dict[str, Any]
Tools = Sequence[Mapping[str, Any]]
Parts = list[Sequence[int]]
"""Token ids, one behind the other."""

_IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."
_KNOWLEDGE = "Knowledge cutoff: 2024-06"
_CHANNELS = "# Valid channels: analysis, commentary, final. Channel must be included for every message."
_CALLS = "Calls to these tools must go to the commentary channel: 'functions'."
_EFFORTS = ("high", "medium", "low")
_ROLES = ("user", "assistant", "system", "developer", "tool")
_INSTRUCTING = ("system", "developer")


class HarmonyWriter:
    """Writes chats in Harmony. The environment says, as vLLM's, which day it is and who gives instructions:
    VLLM_SYSTEM_START_DATE, VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS."""

    about = "prompts in Harmony"
    templated = False
    needs_tool_parser = False

    def __init__(self, harmony: Harmony, templates: ChatTemplates) -> None:
        self._harmony = harmony
        self._templates = templates
        self._date = os.environ.get("VLLM_SYSTEM_START_DATE")
        self._system_instructs = os.environ.get("VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS", "0") in (
            "1",
            "true",
            "True",
        )

    def check(self, template: Any, kwargs: Any) -> None:
        """A request's template is not looked at."""

    def read(self, request: ResponsesRequest, effort: str | None) -> list[Message]:
        """A message an item. Raises ApiError 400, for a template among the variables too."""
        self._templates.check_trust(None, request.chat_template_kwargs)
        _check_effort(effort)
        return harmony_messages(request)

    def write(self, chat: Chat) -> Sequence[int]:
        """The prompt's token ids, up to where the assistant's header begins. Raises ApiError 400."""
        effort = _effort(chat.effort)
        messages = [
            _readable(message, chat.refuses_parts, first=n == 0) for n, message in enumerate(chat.messages)
        ]
        try:
            parts = self._parts(messages, chat.tools or [], effort)
            return TokenIds.joined(chain.from_iterable(parts))
        except (ValueError, RecursionError) as error:
            raise bad_request(f"The conversation cannot be written in Harmony: {error}") from None

    def _parts(self, messages: list[Message], tools: Tools, effort: str) -> Iterator[Parts]:
        first = None
        if messages and messages[0]["role"] in _INSTRUCTING:
            first = _instructions(messages.pop(0))
        yield self._system(first if self._system_instructs else None, effort, tools)
        told = None if self._system_instructs else first
        if tools or told:
            yield self._developer(told, tools)
        calls = [call for message in messages for call in _calls(message)]
        names = {call["id"]: call["function"]["name"] for call in calls}
        last_answer = max((n for n, message in enumerate(messages) if _answers(message)), default=-1)
        for n, message in enumerate(messages):
            role, texts = message["role"], _texts(message)
            if role == "assistant":
                yield from self._assistant(message, with_reasoning=n > last_answer)
            elif role == "tool":
                name = names.get(message.get("tool_call_id") or "", "")
                header = self._header(f"functions.{name}", channel="commentary", kind=" to=assistant")
                yield self._framed(header, ["".join(texts)])
            elif role == "user":
                yield self._framed(self._header("user"), texts)
            elif (later := _instructions(message)) is not None:
                yield self._later(role, later, tools)
        yield [self._header("assistant")]

    def _system(self, instructions: str | None, effort: str, tools: Tools) -> Parts:
        lines = [_IDENTITY, *([instructions] if instructions is not None else []), _KNOWLEDGE]
        lines.append(f"Current date: {self._date or datetime.now().strftime('%Y-%m-%d')}\n")
        lines += [f"Reasoning: {effort}\n", _CHANNELS, *([_CALLS] if tools else [])]
        return self._framed(self._header("system"), ["\n".join(lines)])

    def _developer(self, instructions: str | None, tools: Tools) -> Parts:
        sections = [f"# Instructions\n\n{instructions}"] if instructions is not None else []
        if tools:
            sections.append(f"# Tools\n\n## functions\n\n{namespace('functions', tools)}")
        return self._framed(self._header("developer"), ["\n\n".join(sections)])

    def _later(self, role: str, instructions: str, tools: Tools) -> Parts:
        """Instructions behind the first message."""
        if not self._system_instructs:
            return self._developer(instructions, ())
        if role == "system":
            return self._system(instructions, "medium", tools)
        return self._developer(None, ())  # what it said is lost, in vLLM too

    def _assistant(self, message: Message, with_reasoning: bool) -> Iterator[Parts]:
        calls, texts, reasoning = _calls(message), _texts(message), message.get("reasoning")
        said: list[tuple[str, list[str]]] = []
        if isinstance(message, Placed):
            if with_reasoning or message["channel"] != "analysis":
                yield self._framed(self._header("assistant", channel=message["channel"]), texts)
            return
        if calls and "".join(texts):
            said.append(("commentary", ["".join(texts)]))
        if reasoning and with_reasoning:
            said.append(("analysis", [reasoning]))
        if _answers(message):
            said.append(("final", texts))
        for channel, parts in said:
            yield self._framed(self._header("assistant", channel=channel), parts)
        for call in calls:
            recipient = f" to=functions.{call['function']['name']}"
            header = self._header("assistant", recipient, channel="commentary", kind=" json")
            yield self._framed(header, [call["function"]["arguments"]], end="<|call|>")

    def _header(self, *words: str, channel: str = "", kind: str = "") -> list[int]:
        """What a message begins with: whose it is, the channel, what kind of text follows."""
        encode, ids = self._harmony.encode, self._harmony.ids
        header = [ids["<|start|>"], *(i for word in words for i in encode(word))]
        if channel:
            header += [ids["<|channel|>"], *encode(channel), *encode(kind)]
        return header

    def _framed(self, header: list[int], texts: list[str], end: str = "<|end|>") -> Parts:
        ids = self._harmony.ids
        return [[*header, ids["<|message|>"]], *map(self._harmony.encode, texts), [ids[end]]]


def _effort(effort: str | None) -> str:
    """The effort that is meant. Raises ApiError 400."""
    if effort == "none":
        raise rule_error("Harmony does not support reasoning_effort='none'", "reasoning_effort")
    _check_effort(effort)
    return effort or "medium"


def _check_effort(effort: str | None) -> None:
    """Raises ApiError 400 for an effort that Harmony does not know."""
    if effort is not None and effort not in _EFFORTS:
        raise rule_error(
            f"reasoning_effort={effort!r} is not supported by Harmony. Supported values are: "
            f"{', '.join(_EFFORTS)}.",
            "reasoning_effort",
        )


def _readable(message: Message, refusing: bool, first: bool) -> Message:
    """The message; without content parts that its role cannot have, where nobody is `refusing` them: of
    instructions in front, and of tools, nobody is.

    Raises ApiError 400 for what no message of Harmony has.
    """
    role, content = message["role"], message.get("content")
    if role not in _ROLES:
        raise bad_request(f"validation error: the role {role!r} is none of {', '.join(_ROLES)}")
    if not isinstance(message.get("reasoning") or "", str):
        raise bad_request("validation error: the reasoning of a message should be a string")
    if refuses_parts(message):
        if refusing and role != "tool" and not (first and role in _INSTRUCTING):
            raise bad_request(f"validation error: content parts that a message of role {role!r} cannot have")
        return {**message, "content": None}
    parts = content if isinstance(content, list) else []
    if role == "user" and not all(isinstance(part, dict) for part in parts):
        raise bad_request("The content parts of a user's message should be objects.")
    return message


def _texts(message: Message) -> list[str]:
    """The text of each part of a message; a part of another kind has an empty one."""
    content = message.get("content")
    if not isinstance(content, list):
        return [content] if content else []
    return [_text(part) or "" for part in content]


def _instructions(message: Message) -> str | None:
    """What a system or developer message says; None where there is no text, be it an empty one."""
    content = message.get("content")
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [text for part in content if (text := _text(part)) is not None]
    return "".join(texts) if texts else None


def _text(part: Any) -> str | None:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _calls(message: Message) -> Sequence[Mapping[str, Any]]:
    return (message.get("tool_calls") or ()) if message["role"] == "assistant" else ()


def _answers(message: Message) -> bool:
    """Whether a message is an answer to the user: no call, and text, which its first part has to begin."""
    if isinstance(message, Placed):
        return bool(message["channel"] == "final")
    texts = _texts(message)
    return message["role"] == "assistant" and not _calls(message) and bool(texts and texts[0])
