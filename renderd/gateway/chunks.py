"""Chunks of OpenAI's event streams as the coupled server writes them (contract F.1, F.3): bytes, put together
of constant parts, because one is written for every token."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from renderd.derender.live import ChatNews, TextNews
from renderd.gateway.prepared import Prepared
from renderd.wire.answers import Delta
from renderd.wire.generate import GenerateUsage

_ENCODER = msgspec.json.Encoder()
_encode = _ENCODER.encode

_NOTHING = b'{"content":""}'


class Chunks:
    """Writes the chunks of one answer.

    `kind`: their `object`. `created`: Unix time in seconds. `fingerprint`: None where answers have none. The
    chunk of the whole usage says it, or else those that end a choice. `usage` of a chunk: see there.
    """

    def __init__(self, prepared: Prepared, kind: str, created: int, fingerprint: str | None) -> None:
        named = {"id": prepared.request_id, "object": kind, "created": created, "model": prepared.model}
        self._head = b"data: " + _encode(named)[:-1] + b',"choices":['
        self._start = self._head + b'{"index":'
        self._named = {} if fingerprint is None else {"system_fingerprint": fingerprint}
        self._include_usage = prepared.include_usage
        self._last = b""
        if self._named and not prepared.include_usage:
            self._last = b"," + _encode(self._named)[1:-1]

    def role(self, index: int, role: str, prompt_ids: bytes, prompt_text: str | None, usage: bytes) -> bytes:
        """The first chunk of a choice of a chat. `prompt_ids`: as JSON."""
        return b'%b%d,"delta":{"role":%b,"content":""},"logprobs":null,"finish_reason":null}]%b%b\n\n' % (
            self._start,
            index,
            _encode(role),
            usage,
            b',"prompt_token_ids":%b,"prompt_text":%b}' % (prompt_ids, _encode(prompt_text)),
        )

    def echo(self, index: int, text: str, usage: bytes) -> bytes:
        """A chunk of the message that a chat goes on with."""
        delta = b'{"content":%b}' % _encode(text)
        return b'%b%d,"delta":%b,"logprobs":null,"finish_reason":null}]%b}\n\n' % (
            self._start,
            index,
            delta,
            usage,
        )

    def chat(self, index: int, news: ChatNews, parsed: bool, weights: Any, usage: bytes) -> bytes:
        """The chunk of an event of a chat; empty where a parser made nothing of it that clients see."""
        delta = _delta(news.delta)
        if not delta:
            if not parsed:
                delta = _NOTHING
            elif news.finish_reason is None and news.logprobs is None and news.token_ids is None:
                return b""
            else:
                delta = b"{}"
        logprobs = b"null" if news.logprobs is None else _encode(news.logprobs)
        token_ids = b"null" if news.token_ids is None else _encode(news.token_ids)
        if news.finish_reason is None:
            end, last = b',"finish_reason":null,"token_ids":%b}]' % token_ids, b""
        else:
            end = b',"finish_reason":%b,"stop_reason":%b,"token_ids":%b,"weight_versions":%b}]' % (
                _encode(news.finish_reason),
                _encode(news.stop_reason),
                token_ids,
                _encode(weights),
            )
            last = self._last
        return b'%b%d,"delta":%b,"logprobs":%b%b%b%b,"kv_transfer_params":null}\n\n' % (
            self._start,
            index,
            delta,
            logprobs,
            end,
            usage,
            last,
        )

    def text(
        self, index: int, news: TextNews, echo: str, prompt_ids: bytes, weights: Any, usage: bytes
    ) -> bytes:
        """The chunk of an event of a completion. `echo`: text that it begins with."""
        return (
            b'%b%d,"text":%b,"logprobs":%b,"finish_reason":%b,"stop_reason":%b,"prompt_token_ids":%b,'
            b'"token_ids":%b,"weight_versions":%b}]%b%b,"kv_transfer_params":null}\n\n'
        ) % (
            self._start,
            index,
            _encode(echo + news.text if echo else news.text),
            b"null" if news.logprobs is None else _encode(news.logprobs),
            b"null" if news.finish_reason is None else _encode(news.finish_reason),
            b"null" if news.stop_reason is None else _encode(news.stop_reason),
            prompt_ids,
            b"null" if news.token_ids is None else _encode(news.token_ids),
            b"null" if weights is None else _encode(weights),
            usage,
            b"" if news.finish_reason is None else self._last,
        )

    @staticmethod
    def usage(prompt_tokens: int, tokens: int, details: bytes = b"") -> bytes:
        """The usage of a choice so far, for a chunk of it."""
        return b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d%b}' % (
            prompt_tokens,
            prompt_tokens + tokens,
            tokens,
            details,
        )

    def total(self, usage: GenerateUsage, metrics: dict[str, Any]) -> bytes:
        """The chunk of the whole usage and of what else is known in the end; empty where nobody wants it."""
        said: dict[str, Any] = {}
        if self._include_usage:
            counted = msgspec.structs.asdict(usage).items()
            said["usage"] = {name: value for name, value in counted if value is not None}
            said |= self._named
        if metrics:
            said["metrics"] = metrics
        return b"%b],%b\n\n" % (self._head, _encode(said)[1:]) if said else b""


def _delta(delta: Delta) -> bytes:
    """What a delta says; empty for nothing. What is not said is left out."""
    if delta.tool_calls is UNSET:
        if delta.reasoning is None:
            return b"" if delta.content is None else b'{"content":%b}' % _encode(delta.content)
        if delta.content is None:
            return b'{"reasoning":%b}' % _encode(delta.reasoning)
    said = {
        name: value
        for name, value in (
            ("content", delta.content),
            ("reasoning", delta.reasoning),
            ("tool_calls", delta.tool_calls),
        )
        if value is not None and value is not UNSET
    }
    return _encode(said)
