"""What derender needs of a request, compiled once: it travels in the stream state in place of the request."""

from __future__ import annotations

from typing import Any

import msgspec

from parsers import RequestContext
from renderd.wire.chat import ChatCompletionRequest, ToolChoiceKind
from renderd.wire.completion import CompletionRequest

Request = ChatCompletionRequest | CompletionRequest


class Context(msgspec.Struct, array_like=True, frozen=True):
    """One request, as derender sees it. The defaults are those of a call without a request.

    Attributes:
        parser: how the output is parsed; None for plain text.
        skip_special_tokens: special tokens give no text.
        stop, stop_token_ids, include_stop, ignore_eos, min_tokens: where the text ends (contract E.4).
        candidates: top_logprobs entries kept of a token, None for all (contract E.5).
        return_token_ids: ids are part of the answer.
        single: one choice was asked for.
        include_reasoning: of a parsed answer; False hides logprobs and token ids too.
        role: of the message (contract F).
        tool_choice: its kind.
        keeps_calls: tool calls are part of the answer (contract E.6, message assembly).
        parallel: all of them, not only the first.
        first_call: number of the first call where ids count calls, None where they are hashed (contract E.8).
        nine: hashed ids are nine letters and digits.
        spaces: added tokens are set off by spaces, by the tokenizers that do so.
        told: what else a route remembers of the request, encoded.
        with_logprobs: of a response, whose text has none otherwise.
    """

    parser: RequestContext | None = None
    skip_special_tokens: bool = True
    stop: list[str] = []
    stop_token_ids: list[int] = []
    include_stop: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    candidates: int | None = None
    return_token_ids: bool = False
    single: bool = True
    include_reasoning: bool = True
    role: str = "assistant"
    tool_choice: ToolChoiceKind | None = None
    keeps_calls: bool = False
    parallel: bool = True
    first_call: int | None = None
    nine: bool = False
    spaces: bool = True
    told: bytes = b""
    with_logprobs: bool = False

    @property
    def hidden(self) -> bool:
        """Logprobs and token ids are not shown."""
        return self.parser is not None and not self.include_reasoning

    @property
    def forced(self) -> bool:
        """The request insists on a call."""
        return self.tool_choice in ("required", "named")


def common_fields(request: Request, candidates: int | None, skip_special_tokens: bool) -> dict[str, Any]:
    """The fields of a Context that chat and completion requests fill alike."""
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    return {
        "skip_special_tokens": skip_special_tokens,
        "spaces": request.spaces_between_special_tokens,
        "stop": [text for text in stop if text],
        "stop_token_ids": request.stop_token_ids or [],
        "include_stop": request.include_stop_str_in_output,
        "ignore_eos": request.ignore_eos,
        "min_tokens": request.min_tokens,
        "candidates": candidates,
        "return_token_ids": bool(request.return_token_ids),
        "single": request.n in (None, 1),
    }


def chat_candidates(request: ChatCompletionRequest) -> int | None:
    """How many top_logprobs a chat answer shows a token."""
    if not request.logprobs or request.top_logprobs == -1 or request.logprob_token_ids:
        return None
    return request.top_logprobs or 0


def completion_candidates(request: CompletionRequest) -> int | None:
    """How many top_logprobs a completion shows a token: the sampled one comes on top."""
    if request.logprobs is None or request.logprobs == -1 or request.logprob_token_ids:
        return None
    return request.logprobs + 1
