"""Tokenizers without a tokenizer.json, through transformers, which is imported for them alone.

SentencePiece models, tiktoken files, vocabularies with merges and whatever else transformers can turn into a
fast tokenizer is turned into one at load; from then on nothing differs from a tokenizer.json. Classes that
are written in Python run as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from renderd.model.hurry import takes_long
from renderd.model.segments import Encoder
from renderd.model.tokenizer import FastTokenizer, Tokenizer, digest_of


def load_with_transformers(model_dir: Path, trust_remote_code: bool) -> Tokenizer:
    """The tokenizer that transformers makes of a directory's files. `trust_remote_code`: code among them may
    run.

    Raises ValueError if it can make none.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it would miss PyTorch, and say so
    try:
        from transformers import AutoTokenizer

        hf = AutoTokenizer.from_pretrained(
            str(model_dir), trust_remote_code=trust_remote_code, local_files_only=True
        )
    except Exception as error:  # whatever goes wrong in there, there is no tokenizer
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
        if any(said in str(error) for said in ("trust_remote_code", "contains custom code")):
            reason = "they contain code, which runs only with --trust-remote-code"
        raise ValueError(
            f"The tokenizer of '{model_dir}' has no tokenizer.json, and transformers cannot read its other "
            f"files: {reason}"
        ) from error
    if hf.is_fast:
        return FastTokenizer(tokenizers.Tokenizer.from_str(hf.backend_tokenizer.to_str()), _roles(hf))
    return SlowTokenizer(hf)


def _roles(hf: Any) -> dict[str, Any]:
    """The special tokens of a transformers tokenizer, as a tokenizer_config.json would list them."""
    named = {role: str(token) for role, token in hf.special_tokens_map.items() if isinstance(token, str)}
    return {
        **named,
        "extra_special_tokens": {role: text for role, text in named.items() if hasattr(hf, role)},
        "additional_special_tokens": [str(token) for token in hf.all_special_tokens],
    }


class SlowTokenizer(Tokenizer):
    """A tokenizer class of transformers that is written in Python."""

    def __init__(self, hf: Any) -> None:
        self._hf = hf
        self.special_tokens = {
            role: str(token) for role, token in hf.special_tokens_map.items() if isinstance(token, str)
        }
        vocabulary: dict[str, int] = hf.get_vocab()
        self.digest = digest_of(repr((type(hf).__name__, sorted(vocabulary.items()))).encode())
        self.size = len(hf)
        self.max_id = max(vocabulary.values(), default=-1)
        self.max_piece_chars = max(map(len, vocabulary), default=1)
        self.special_ids = frozenset(hf.all_special_ids)
        self.added_tokens = tuple(str(token) for token in hf.added_tokens_decoder.values())
        self.eos_token_id = hf.eos_token_id
        self._frame = _frame(lambda text, framed: hf.encode(text, add_special_tokens=framed))
        self._apart = frozenset(hf.get_added_vocab())
        self.encoder = Encoder(self.encode_whole, ())

    def encode_whole(self, text: str) -> list[int]:
        """The ids of a text, all of it encoded anew. Raises TypeError if it holds a lone surrogate."""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise TypeError("the text holds a lone surrogate") from None
        takes_long()
        return list(self._hf.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of token ids; ids outside the vocabulary give nothing."""
        known = [token_id for token_id in ids if self.piece(token_id) is not None]
        return str(self._hf.decode(known, skip_special_tokens=skip_special_tokens))

    def token_id(self, text: str) -> int | None:
        """The id of `text` if it is exactly one vocabulary entry."""
        token_id = self._hf.convert_tokens_to_ids(text)
        return token_id if self.piece(token_id) == text else None

    def piece(self, token_id: int | None) -> str | None:
        """The vocabulary entry of an id as the vocabulary spells it; None for an unknown id."""
        if token_id is None or not 0 <= token_id <= self.max_id:
            return None
        piece = self._hf.convert_ids_to_tokens(token_id)
        return None if piece is None else str(piece)

    def join(self, pieces: list[str]) -> str:
        """Text of vocabulary entries, with spaces around those that were added to the vocabulary."""
        return " ".join(self._parts(pieces))

    def join_unspaced(self, pieces: list[str]) -> str:
        """Text of vocabulary entries."""
        return "".join(self._parts(pieces))

    def _parts(self, pieces: list[str]) -> list[str]:
        """Texts of added tokens and of what stands between them."""
        parts: list[str] = []
        run: list[str] = []
        for piece in pieces:
            if piece not in self._apart:
                run.append(piece)
                continue
            if run:
                parts.append(self._hf.convert_tokens_to_string(run))
                run = []
            parts.append(piece)
        if run:
            parts.append(self._hf.convert_tokens_to_string(run))
        return parts


def _frame(encode: Callable[[str, bool], list[int]]) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and behind every text when it is asked to."""
    framed, bare = encode("a", True), encode("a", False)
    for start in range(len(framed) - len(bare) + 1):
        if framed[start : start + len(bare)] == bare:
            return framed[:start], framed[start + len(bare) :]
    return [], []
