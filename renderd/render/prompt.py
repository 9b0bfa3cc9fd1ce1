"""Conversation -> prompt text -> token ids (contract C.3 to C.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct

from renderd import telemetry
from renderd.model import Model
from renderd.model.jinja import ChatTemplate
from renderd.wire.decode import rule_error
from renderd.wire.errors import bad_request

T = TypeVar("T")
Offsets = list[tuple[int, int]]

_APPLY = "safe_apply_chat_template() got multiple values for argument"
_RESERVED = {
    "conversation": f"{_APPLY} 'conversation'",
    "tokenizer": f"{_APPLY} 'tokenizer'",
    "model_config": f"{_APPLY} 'model_config'",
    "self": f"{_APPLY} 'self'",
    "messages": "jinja2.environment.Template.render() got multiple values for keyword argument 'messages'",
}
"""Kwargs that the reference uses up itself, and what it says to a request that sets them."""
_NOT_VARIABLES = frozenset(
    {
        "tools",
        "documents",
        "chat_template",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
        "padding",
        "truncation",
        "max_length",
        "return_tensors",
        "return_dict",
        "return_assistant_tokens_mask",
        "tokenizer_kwargs",
    }
)
"""Kwargs that steer the rendering; a template never sees them under these names, or sees them from
elsewhere."""
_SENTINEL = "CONTINUE_FINAL_MESSAGE_TAG "


class Truncation(Struct, frozen=True):
    """How a prompt is cut (contract C.5). `limit`: tokens to keep, None for all; `side`: the end that is
    kept away, None for the tokenizer's own truncation, which cuts on the left and keeps the special tokens
    that it adds."""

    limit: int | None = None
    side: Literal["left", "right"] | None = None


def render_text(
    model: Model,
    template: ChatTemplate,
    conversation: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    kwargs: Mapping[str, Any],
) -> str:
    """The prompt's text. `kwargs`: effective template kwargs. Raises ApiError 400 when the template
    refuses."""
    for name, refusal in _RESERVED.items():
        if name in kwargs:
            raise bad_request(refusal)
    if kwargs.get("return_assistant_tokens_mask"):
        raise bad_request(
            "`return_assistant_tokens_mask=True` requires `return_dict=True` and `tokenize=True`"
        )
    if not conversation:
        raise bad_request(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    documents = kwargs.get("documents")
    if documents is not None and not hasattr(documents, "__iter__"):
        raise bad_request(f"'{type(documents).__name__}' object is not iterable")
    if documents is not None and not all(isinstance(d, dict) for d in documents):
        raise bad_request("Documents should be a list of dicts with 'title' and 'text' keys!")
    variables: dict[str, Any] = {
        **model.tokenizer.special_tokens,
        **{k: v for k, v in kwargs.items() if k in template.variables and k not in _NOT_VARIABLES},
        "messages": conversation,
        "tools": kwargs.get("tools", tools),
        "documents": documents,
        "add_generation_prompt": bool(kwargs.get("add_generation_prompt")),
    }
    if kwargs.get("continue_final_message"):
        return _continued(template, variables)
    return template.render(variables)


def _continued(template: ChatTemplate, variables: dict[str, Any]) -> str:
    """The text up to the end of the last message's content (contract C.4)."""
    if variables["add_generation_prompt"]:
        raise bad_request(
            "continue_final_message and add_generation_prompt are not compatible. Use "
            "continue_final_message when you want the model to continue the final message, and "
            "add_generation_prompt when you want to add a header that will prompt it to start a new "
            "assistant message instead."
        )
    if not template.mentions_content:
        raise bad_request(
            'continue_final_message is set to "content" but this is not an accepted field in the '
            "chat_template"
        )
    conversation = variables["messages"]
    last, content = dict(conversation[-1]), ""
    if isinstance(last["content"], str):
        content = last["content"]
        last["content"] = content + _SENTINEL
    else:
        parts = list(last["content"])
        index = next((i for i in reversed(range(len(parts))) if "text" in parts[i]), None)
        if index is None:
            raise bad_request(
                "continue_final_message is set but we could not find any text to continue in the final "
                "message!"
            )
        content = parts[index]["text"]
        parts[index] = {**parts[index], "text": content + _SENTINEL}
        last["content"] = parts
    text = template.render({**variables, "messages": [*conversation[:-1], last]})
    end = text.rfind(_SENTINEL.strip())
    if end < 0 or content.strip() not in text:
        raise bad_request(
            "continue_final_message is set but the final message does not appear in the chat after applying "
            "the chat template! This can happen if the chat template deletes portions of the final message. "
            "Please verify the chat template and final message in your chat to ensure they are compatible."
            f"Final message to continue: {content.strip()}\nRendered chat:\n{text}"
        )
    kept = text[:end]
    return kept if text.startswith(_SENTINEL, end) else kept.rstrip()


def tokenize_text(
    model: Model, text: str, add_special_tokens: bool, truncation: Truncation, with_offsets: bool
) -> tuple[Sequence[int], Offsets | None]:
    """Token ids of a prompt text and, if asked for, the characters that each covers.

    Raises ApiError 400 for a text that cannot fit or cannot be encoded.
    """
    most = model.max_model_len * model.tokenizer.max_piece_chars
    if truncation.limit is None and len(text) > most:
        raise rule_error(
            f"This model's maximum context length is {model.max_model_len} tokens. However, your prompt "
            f"contains {len(text)} characters (more than {most} characters, which is the upper bound for "
            f"{model.max_model_len} input tokens). Please reduce the length of the input prompt.",
            "input_text",
            value=len(text),
        )
    if truncation.limit is not None and truncation.side is not None:
        text = text[-most:] if truncation.side == "left" else text[:most]
    framed = add_special_tokens and not (truncation.limit is not None and truncation.side is None)
    ids, offsets = encode(model, text, framed, with_offsets)
    if truncation.limit is not None:
        if truncation.side is None:
            before, behind = model.tokenizer.frame(add_special_tokens)
            room = max(truncation.limit - len(before) - len(behind), 0)
            ids = [*before, *_last(ids, room), *behind][: truncation.limit]
            if offsets is not None:
                pad: Offsets = [(0, 0)]
                offsets = [*pad * len(before), *_last(offsets, room), *pad * len(behind)][: truncation.limit]
        else:
            ids = cut(ids, truncation)
            offsets = offsets and cut(offsets, truncation)
    check_length(model, min(len(ids), model.max_model_len + 1))
    return ids, offsets


def encode(
    model: Model, text: str, add_special_tokens: bool, with_offsets: bool = False
) -> tuple[Sequence[int], Offsets | None]:
    """Token ids of a text of up to Model.max_text_chars. Raises ApiError 400 for text that cannot be
    encoded."""
    check_chars(model, len(text))
    began = telemetry.clock()
    try:
        if with_offsets:
            return model.tokenizer.encode_with_offsets(text, add_special_tokens)
        return model.tokenizer.encode(text, add_special_tokens), None
    except TypeError:
        raise bad_request(
            "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]"
        ) from None
    except BaseException as error:
        # A panic of the tokenizer is no Exception. Its pattern gives up on millions of blanks in a row.
        if type(error).__name__ != "PanicException":
            raise
        raise bad_request(f"The tokenizer cannot split this text: {error}") from None
    finally:
        telemetry.spent("tokenize", began)


def check_chars(model: Model, count: int) -> None:
    """Raises ApiError 400 for text that would take too long to tokenize."""
    if count > model.max_text_chars:
        raise bad_request(
            f"The text has {count} characters, and this server tokenizes at most {model.max_text_chars} at a "
            "time (--max-text-chars).",
            "input_text",
        )


def tokenize_ids(model: Model, ids: Sequence[int], truncation: Truncation) -> Sequence[int]:
    """A prompt given as token ids, cut and checked."""
    if truncation.limit is not None:
        ids = cut(ids, truncation)
    check_length(model, len(ids))
    return ids


def check_length(model: Model, count: int) -> None:
    """Raises ApiError 400 for a prompt of more tokens than the context holds."""
    limit = model.max_model_len
    if count > limit:
        at_least = "at least " if count == limit + 1 else ""
        raise rule_error(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains "
            f"{at_least}{count} input tokens, which exceeds this limit even without any output tokens. "
            "Please reduce the length of the input prompt.",
            "input_tokens",
            value=count,
        )


def cut(items: Sequence[T], truncation: Truncation) -> list[T]:
    """The end of the sequence that truncation keeps; the tokenizer's own side is left."""
    limit = truncation.limit
    if limit is None:
        return list(items)
    return list(items[:limit]) if truncation.side == "right" else _last(items, limit)


def _last(items: Sequence[T], count: int) -> list[T]:
    return list(items[max(len(items) - count, 0) :])
