"""Bounds of a derender call, in the order and words of contract E.2. All raise ApiError 400."""

from __future__ import annotations

from collections.abc import Sequence

from renderd.derender.setup import Setup
from renderd.wire.errors import bad_request
from renderd.wire.generate import GenerateChoice, GenerateResponse
from renderd.wire.state import size_of

_BYTES_AN_ID = 7

PROMPT_NEEDED = (
    "prompt_token_ids is required when a tool or reasoning parser is configured. Without it parse_delta "
    "cannot tell whether the prompt left reasoning open (e.g. a chat template that pre-opens <think>) and "
    "would misclassify reasoning content as plain content."
)


def request_needed(field: str) -> str:
    """The body's `field` is missing."""
    return (
        f"{field} is required when a tool or reasoning parser is configured because plain detokenization "
        "would leak raw parser markup into content."
    )


def check_response(setup: Setup, response: GenerateResponse, prompt_token_ids: Sequence[int] | None) -> None:
    """Sizes of a finished answer."""
    limit = setup.model.max_model_len
    name = response.request_id
    if len(response.choices) > setup.options.max_n:
        raise bad_request(
            f"choices count ({len(response.choices)}) in response '{name}' exceeds server maximum "
            f"({setup.options.max_n})."
        )
    for choice in response.choices:
        _check_choice(choice, limit, setup.options.max_logprobs)
    if response.prompt_logprobs is not None and len(response.prompt_logprobs) > limit:
        raise bad_request(
            f"prompt_logprobs length ({len(response.prompt_logprobs)}) in response '{name}' exceeds "
            f"max_model_len ({limit})."
        )
    check_prompt(setup, prompt_token_ids)


def _check_choice(choice: GenerateChoice, limit: int, max_logprobs: int) -> None:
    if choice.token_ids is not None and len(choice.token_ids) > limit:
        raise bad_request(
            f"token_ids length ({len(choice.token_ids)}) in choice {choice.index} exceeds "
            f"max_model_len ({limit})."
        )
    entries = (choice.logprobs.content if choice.logprobs else None) or []
    if len(entries) > limit:
        raise bad_request(
            f"logprobs.content length ({len(entries)}) in choice {choice.index} exceeds "
            f"max_model_len ({limit})."
        )
    # The engine sends the sampled token on top of the candidates asked for when it is none of them.
    count = max((len(entry.top_logprobs) for entry in entries), default=0)
    if max_logprobs >= 0 and count > max_logprobs + 1:
        raise bad_request(
            f"top_logprobs count ({count}) in choice {choice.index} exceeds max_logprobs ({max_logprobs})."
        )


def check_prompt(setup: Setup, prompt_token_ids: Sequence[int] | None) -> None:
    """Size of a prompt."""
    limit = setup.model.max_model_len
    if prompt_token_ids is not None and len(prompt_token_ids) > limit:
        raise bad_request(
            f"prompt_token_ids length ({len(prompt_token_ids)}) exceeds max_model_len ({limit})."
        )


def check_repeats(
    setup: Setup, responses: Sequence[GenerateResponse], echoes: Sequence[str], with_ids: bool
) -> None:
    """Size of a completion each of whose choices has its prompt, as text where there are `echoes`, as ids
    where `with_ids`."""
    size = 0
    for number, response in enumerate(responses):
        repeated = len(echoes[number]) if number < len(echoes) else 0
        if with_ids:
            repeated += _BYTES_AN_ID * len(response.prompt_token_ids or ())
        size += repeated * len(response.choices)
    check_repeated(setup, size)


def check_repeated(setup: Setup, size: int) -> None:
    """Bytes in which an answer repeats its prompts."""
    if size > setup.options.max_answer_bytes:
        raise bad_request(
            f"The answer would repeat the prompts in {size} bytes, once for each choice, and may have "
            f"{setup.options.max_answer_bytes} (--max-answer-bytes): send fewer choices at a time."
        )


def check_state(setup: Setup, parser_state: bytes) -> int:
    """Size of what travels with a stream, in bytes."""
    size = size_of(parser_state)
    if size > setup.options.max_state_bytes:
        raise bad_request(
            f"parser_state of stream_state has {size} bytes, and may have "
            f"{setup.options.max_state_bytes} (--max-state-bytes)."
        )
    return size


def check_total(setup: Setup, prompt: int, output: int, delta: int) -> None:
    """Tokens of a stream so far with those of its next chunk."""
    limit = setup.model.max_model_len
    if prompt + output + delta > limit:
        raise bad_request(
            f"prompt_token_ids length ({prompt}) plus output_token_ids length ({output}) plus delta "
            f"({delta}) exceeds max_model_len ({limit})."
        )
