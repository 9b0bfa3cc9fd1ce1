"""Which values are compared otherwise than by equality, by route."""

from __future__ import annotations

from typing import Any

from renderd.conformance.compare import (
    Rule,
    Rules,
    anything,
    by_token,
    call_id,
    differences,
    form,
    identifier,
    logprob,
    message,
    number,
    text,
    timestamp,
    unless_null,
)

_LOGPROBS: dict[str, Rule] = {
    f"choices[*].logprobs.content[*]{inner}.logprob": logprob for inner in ("", ".top_logprobs[*]")
}

_MESSAGES: dict[str, Rule] = {"content[*].id": call_id, "content[*].signature": identifier}
"""Of the messages API: random ids, and signatures that nobody can check."""

_RESPONSES: dict[str, Rule] = {
    "created_at": timestamp,
    "output[*].id": identifier,
    "output[*].call_id": call_id,
    **{f"output[*].content[*].logprobs[*]{inner}.logprob": logprob for inner in ("", ".top_logprobs[*]")},
}
"""Of the responses API."""

RENDER = Rules(
    {
        "request_id": identifier,
        "[*].request_id": identifier,
        "prompt_text": anything,  # vLLM's render has no such field, whatever is asked for
        "[*].prompt_text": anything,
    },
    absent_is_null=False,
)

BATCH = Rules(
    {
        # The first two are checked on their own, the fingerprint is the engine's (contract F).
        "id": anything,
        "model": anything,
        "system_fingerprint": anything,
        "created": timestamp,
        "choices[*].message.tool_calls[*].id": call_id,
        **_LOGPROBS,
        **_MESSAGES,
        **_RESPONSES,
    },
    absent_is_null=True,
)

_STREAM: dict[str, Rule] = {
    "choices[*].message.content": text,
    "choices[*].message.reasoning": text,
    "choices[*].message.tool_calls[*].id": call_id,
    **_LOGPROBS,
    **_MESSAGES,
    **_RESPONSES,
}


def stream_rules(choices: int, own: bool) -> Rules:
    """Of a stream against the server's own batch answer, or against a recorded stream."""
    rules = dict(_LOGPROBS if own else _STREAM)
    if choices > 1:
        # A sum over all choices, each of which is a stream of its own that knows nothing of the others.
        rules["usage.completion_tokens_details"] = unless_null
    return Rules(rules, absent_is_null=True)


def hop_rules() -> Rules:
    """Of a stream that another server began, against that server's own: it may count nothing."""
    return Rules({**_STREAM, "usage.completion_tokens_details": anything}, absent_is_null=True)


_STATE = Rules({"last_tool_call_ids[*]": call_id}, absent_is_null=False)


def _stream_state(want: Any, got: Any) -> bool:
    """Equal, or of the kind that only the server that made it reads."""
    own = isinstance(got, dict) and bool(got.get("parser_state"))
    return own or not any(differences(want, got, _STATE))


HTTP = Rules(
    {
        "created": timestamp,
        "id": identifier,
        "request_id": identifier,
        "choices[*].message.tool_calls[*].id": call_id,
        "stream_state": _stream_state,
        "chunk.created": timestamp,
        "chunk.id": identifier,
        "chunk.choices[*].delta.tool_calls[*].id": call_id,
        "data[*].created": timestamp,
        "data[*].permission[*].created": timestamp,
        "data[*].permission[*].id": form,
        "data[*].root": form,  # where the files lie
        "version": form,
        **_LOGPROBS,
        **{f"chunk.{path}": rule for path, rule in _LOGPROBS.items()},
    },
    absent_is_null=False,
)
"""Of the routes that "http" cases ask."""

_ENGINE: dict[str, Rule] = {
    "request_id": identifier,
    "choices[*].logprobs.content[*].logprob": number,
    "choices[*].logprobs.content[*].rank": form,
    "choices[*].logprobs.content[*].top_logprobs": form,
}
ENGINE = Rules(
    {
        "created": timestamp,
        "prompt_logprobs": by_token,
        "data[*].created": timestamp,
        "data[*].permission[*].created": timestamp,
        "data[*].permission[*].id": form,
        "data[*].root": form,
        "version": form,
        **_ENGINE,
        # An event stream: the events of each choice.
        **{f"*[*].{path}": rule for path, rule in _ENGINE.items()},
    },
    absent_is_null=False,
)
"""Of an engine's routes: which tokens were likely, and how likely, is the engine's affair."""

ERROR = Rules({"message": message}, absent_is_null=False)


def _location(want: Any, got: Any) -> bool:
    """Where a body breaks its schema: the place recorded, or one that says more of the way to it."""
    if not isinstance(want, str) or not isinstance(got, str):
        return bool(want == got)
    # The reference drops some segments (`body.0.function`), and names the member of a union that it tried
    # (`body.DerenderChatRequest.stream`).
    way = iter(got.split("."))
    return all(segment in way for segment in want.split(".") if not segment[:1].isupper())


SCHEMA_ERROR = Rules({"param": _location, "message": anything}, absent_is_null=False)
"""Of errors that both call a schema error: their prose is each server's own (contract A.3)."""
