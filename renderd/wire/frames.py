"""Chat requests that ask for the same as others.

A conversation sends the same tools and parameters with each turn, and most clients send the same ones always.
They stand before and behind the messages: the frame of a body. What a frame asks for is remembered, so that
of most bodies only the messages are read.
"""

from __future__ import annotations

import re
import secrets
from copy import copy
from itertools import count
from threading import Lock
from typing import Any

import msgspec

from renderd.wire.chat import ChatCompletionRequest, Tools, decode_chat_request, read_chat_messages
from renderd.wire.decode import parse_object
from renderd.wire.errors import ApiError

MOST = 16
"""Frames that a process remembers, unless it is to remember nothing."""
MOST_BYTES = 64 * 1024
"""Of one of them."""
_MESSAGES = re.compile(rb'"messages"\s*:\s*\[')
_MARK = secrets.token_hex(16)
"""Stands for the messages. No body can have it."""
_MARKED = b'"%b"' % _MARK.encode()
_JSON = msgspec.json.Decoder()


class _Text(msgspec.Struct):
    messages: msgspec.Raw


_TEXT = msgspec.json.Decoder(_Text)


class FramedRequest(ChatCompletionRequest, kw_only=True):
    """A request with a known frame. `found`: what was found out of one and is true of all with that frame."""

    found: dict[str, Any]


class _Frame:
    """What stands before the first message and behind the last one, and the request without messages that it
    makes. `used`: greater than that of frames which were used before."""

    __slots__ = ("before", "behind", "request", "used")

    def __init__(self, before: bytes, behind: bytes, request: FramedRequest, used: int) -> None:
        self.before = before
        self.behind = behind
        self.request = request
        self.used = used


class Frames:
    """Reads the bodies of chat requests. May be called from many threads. `most`: frames that are remembered,
    which may be 0."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._frames: list[_Frame] = []
        self._uses = count()
        self._lock = Lock()

    def read(self, body: bytes) -> ChatCompletionRequest:
        """The request in a body. Raises ApiError 400."""
        for frame in self._frames:
            if body.startswith(frame.before) and body.endswith(frame.behind):
                try:
                    return self._within(frame, body)
                except (ApiError, msgspec.DecodeError, UnicodeError, RecursionError):
                    break  # what is wrong, and where, is said of the whole
        request = decode_chat_request(parse_object(body))
        if self._most:
            self._learn(body, request)
        return request

    def _within(self, frame: _Frame, body: bytes) -> ChatCompletionRequest:
        # The one ends with a bracket that opens, the other begins with one that closes: they cannot overlap.
        between = memoryview(body)[len(frame.before) : len(body) - len(frame.behind)]
        messages = _JSON.decode(b"".join((b"[", between, b"]")))
        request = copy(frame.request)
        request.messages = read_chat_messages(messages)
        frame.used = next(self._uses)
        return request

    def _learn(self, body: bytes, request: ChatCompletionRequest) -> None:
        """Remember the frame, if it is found, for `request` and those to come."""
        found = _MESSAGES.search(body)
        if found is None:
            return
        try:
            messages = bytes(_TEXT.decode(body).messages)
            begin = found.end()
            before, behind = body[:begin], body[begin + len(messages) - 2 :]
            # What is found may stand inside of something else, or come again and count then.
            whole = body.startswith(messages, begin - 1) and len(before) + len(behind) <= MOST_BYTES
            if not whole or _JSON.decode(before + _MARKED + behind)["messages"] != [_MARK]:
                return
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        if request.tools:
            request.tools = Tools(request.tools)
        kept = FramedRequest(**{**msgspec.structs.asdict(request), "messages": []}, found={})
        with self._lock:
            frames = [*self._frames, _Frame(before, behind, kept, next(self._uses))]
            if len(frames) > self._most:
                frames.remove(min(frames, key=lambda frame: frame.used))
            # That with more behind the messages comes first: it may end as another one does.
            self._frames = sorted(frames, key=lambda frame: -len(frame.behind))
