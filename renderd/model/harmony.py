"""Text of messages in Harmony, the prompt format of gpt-oss, as token ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers

from renderd.model.tokenizer import Tokenizer

MODEL_TYPE = "gpt_oss"
"""Models of this `model_type` are spoken to in Harmony."""

_FRAME = ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|call|>")


class Harmony:
    """Encodes with a model's tokenizer, to which no text is special. `ids`: of the tokens that frame a
    message, by their text.

    Harmony's own library is not used for this: it needs time that grows with the square of a run without a
    break, minutes for the blanks that a request may hold.
    """

    def __init__(self, tokenizer: Tokenizer, path: Path, ids: Mapping[str, int]) -> None:
        self.ids = ids
        self._tokenizer = tokenizer
        self._path = path
        self._special = re.compile("|".join(map(re.escape, tokenizer.added_tokens)))

    def encode(self, text: str) -> Sequence[int]:
        """The ids of a text. Raises ValueError for what cannot be encoded: a lone surrogate, or millions of
        blanks in a row."""
        text.encode()
        try:
            if self._special.search(text):
                return self._plain.encode_batch_fast([text], add_special_tokens=False)[0].ids
            return self._tokenizer.encode(text, add_special_tokens=False)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of the tokenizer's pattern, and no Exception
                raise
            raise ValueError(f"the tokenizer cannot split this text: {error}") from None

    @cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        """The tokenizer once more, blind to special tokens. Loaded when it is wanted: that takes a second."""
        plain = tokenizers.Tokenizer.from_file(str(self._path))
        plain.encode_special_tokens = True
        return plain


def load_harmony(tokenizer: Tokenizer) -> Harmony:
    """Harmony with a model's own vocabulary. Raises ValueError if it lacks what frames a message."""
    ids = {text: tokenizer.token_id(text) for text in _FRAME}
    found = {text: token_id for text, token_id in ids.items() if token_id is not None}
    missing = ", ".join(text for text in _FRAME if text not in found)
    if tokenizer.path is None or missing:
        lacks = missing or "tokenizer.json"
        raise ValueError(
            f"Models of type {MODEL_TYPE} are spoken to in Harmony, which the tokenizer has no {lacks} for."
        )
    return Harmony(tokenizer, tokenizer.path, found)
