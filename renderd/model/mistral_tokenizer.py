"""Mistral's own tokenizer files, tekken.json and tokenizer.model.v*, through mistral-common (contract C.8).

Both libraries that this needs are imported for these files alone. Text never holds control tokens here: what
spells one is encoded as letters, and only the writer of a chat sets them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import decoders

from renderd.model.segments import Encoder
from renderd.model.tokenizer import Tokenizer, digest_of

_SHOWN = frozenset({"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"})
"""Control tokens that structure an answer: they stay in its text, for the parsers."""


def load_mistral_tokenizer(path: Path) -> MistralTokenizer:
    """The tokenizer in a file of Mistral's. Raises ValueError if it cannot be read, or nothing is installed
    that could."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it would miss PyTorch, and say so
    try:
        import mistral_common  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
        from transformers.tokenization_mistral_common import MistralCommonBackend
    except ImportError as error:
        raise ValueError(
            f"{path.name} of the model is read by mistral-common, which is not installed: "
            "pip install 'renderd[mistral]', or give --tokenizer-mode hf if there is a tokenizer.json."
        ) from error
    try:
        return MistralTokenizer(MistralCommonBackend(str(path)), digest_of(path.read_bytes()))
    except Exception as error:  # whatever the library says, there is no tokenizer
        raise ValueError(f"{path.name} of the model cannot be read by mistral-common: {error}") from error


class MistralTokenizer(Tokenizer):
    """One of mistral-common's. The pieces of tekken are spelled as byte-level vocabularies spell theirs, so
    that bytes which are no whole character survive in a stream's state."""

    def __init__(self, backend: Any, digest: str) -> None:
        self.digest = digest
        self._backend = backend
        inner = backend.tokenizer.instruct_tokenizer.tokenizer
        self._inner = inner
        self._bytes = hasattr(inner, "id_to_byte_piece") and type(inner).__name__ == "Tekkenizer"
        self._decoder = (
            decoders.ByteLevel()
            if self._bytes
            else decoders.Sequence(
                [
                    decoders.Replace("▁", " "),
                    decoders.ByteFallback(),
                    decoders.Fuse(),
                    decoders.Strip(" ", 1, 0),
                ]
            )
        )
        self.size = int(inner.n_words)
        self.max_id = self.size - 1
        special = {i: str(inner.id_to_piece(i)) for i in range(self.size) if inner.is_special(i)}
        self._pieces = [special.get(i) or self._spell(i) for i in range(self.size)]
        self._ids = {piece: i for i, piece in reversed(list(enumerate(self._pieces)))} | {
            piece: i for i, piece in special.items()
        }
        self.special_tokens = {"bos_token": special[inner.bos_id], "eos_token": special[inner.eos_id]}
        self.silent_ids = frozenset(i for i, piece in special.items() if piece not in _SHOWN)
        self.special_ids = self.silent_ids
        self.added_tokens = tuple(special.values())
        self.max_piece_chars = max(map(len, self._pieces))
        self.eos_token_id = int(inner.eos_id)
        self._frame = ([int(inner.bos_id)], [])
        self.encoder = Encoder(self.encode_whole, ())

    def _spell(self, token_id: int) -> str:
        """A piece of text as the window carries it."""
        if not self._bytes:
            return str(self._inner.id_to_piece(token_id))
        return "".join(_LETTERS[byte] for byte in self._inner.id_to_byte_piece(token_id))

    def write_chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, options: Mapping[str, Any]
    ) -> list[int]:
        """A chat's token ids. `options`: of the writer, such as add_generation_prompt. Raises what
        mistral-common raises for a chat that it refuses."""
        ids = self._backend.apply_chat_template(
            messages, tools=tools, tokenize=True, return_dict=False, **options
        )
        return list(ids)

    def encode_whole(self, text: str) -> list[int]:
        """The ids of a text, all of it encoded anew. Raises TypeError if it holds a lone surrogate."""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise TypeError("the text holds a lone surrogate") from None
        return list(self._inner.encode(text, bos=False, eos=False))

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of token ids; ids outside the vocabulary give nothing."""
        hidden = self.special_ids if skip_special_tokens else frozenset()
        pieces = [piece for i in ids if i not in hidden and (piece := self.piece(i)) is not None]
        return self.join(pieces)

    def token_id(self, text: str) -> int | None:
        """The id of `text` if it is exactly one vocabulary entry."""
        return self._ids.get(text)

    def piece(self, token_id: int) -> str | None:
        """The vocabulary entry of an id as the vocabulary spells it; None for an unknown id."""
        return self._pieces[token_id] if 0 <= token_id <= self.max_id else None

    def shown_piece(self, token_id: int) -> str:
        """The vocabulary entry of an id for people to read."""
        return str(self._inner.id_to_piece(token_id)) if 0 <= token_id <= self.max_id else ""

    def join(self, pieces: list[str]) -> str:
        """Text of vocabulary entries."""
        return self._decoder.decode(pieces)


def _letters() -> list[str]:
    """A printable character for each byte, as byte-level vocabularies have them."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256))
    return [chr(byte) if byte in printable else chr(256 + next(others)) for byte in range(256)]


_LETTERS = _letters()
