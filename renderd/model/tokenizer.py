"""What the rest needs of a tokenizer, and tokenizer.json as `tokenizers` reads it, with the special tokens
that transformers would see. No transformers here."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import tokenizers

from renderd.model.files import read_json
from renderd.model.hurry import takes_long
from renderd.model.segments import Encoder, find_anchors

_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_CLASS_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "Llama": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "Gemma": {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
    },
    "Qwen2": {"eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    "GPT2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
}
"""Special tokens that a tokenizer class has when its config does not mention them."""


def digest_of(content: bytes) -> str:
    """Hash of what a tokenizer was made of."""
    return blake2b(content).hexdigest()


class Tokenizer(ABC):
    """Text to ids and back. Immutable after construction; truncation and padding are always off.

    `special_tokens`: the tokens with a role, by the name under which templates see them (`bos_token`, ...).
    `special_ids`: the ids that a detokenizer leaves out when it skips special tokens. `added_tokens`: texts
    of the tokens that were added to the vocabulary. `size`: number of ids. `max_id`: the greatest.
    `max_piece_chars`: length of the longest vocabulary entry. `path`: of tokenizer.json, if it was read from
    there. `silent_ids`: special tokens that give no text even where special tokens are not skipped.
    `digest`: hash of what it was made of.
    """

    special_tokens: dict[str, str]
    silent_ids: frozenset[int] = frozenset()
    special_ids: frozenset[int]
    added_tokens: tuple[str, ...]
    size: int
    max_id: int
    max_piece_chars: int
    eos_token_id: int | None
    encoder: Encoder
    digest: str
    path: Path | None = None
    _frame: tuple[list[int], list[int]] = ([], [])

    def __len__(self) -> int:
        return self.size

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        """Token ids of `text`. Raises TypeError if it holds a lone surrogate."""
        return self.encoder.encode(text).framed(*self.frame(add_special_tokens))

    def frame(self, add_special_tokens: bool) -> tuple[list[int], list[int]]:
        """The ids that `add_special_tokens` puts before and behind every text."""
        return self._frame if add_special_tokens else ([], [])

    def encode_with_offsets(
        self, text: str, add_special_tokens: bool
    ) -> tuple[Sequence[int], list[tuple[int, int]] | None]:
        """Token ids and the characters of `text` that each covers, None where the tokenizer cannot say."""
        return self.encode(text, add_special_tokens), None

    def plain_text(self, token_id: int) -> str | None:
        """The text that a token adds behind whatever whole text; None if that is not always the same."""
        return None

    @abstractmethod
    def encode_whole(self, text: str) -> list[int]:
        """The ids of a text, all of it encoded anew. Raises TypeError if it holds a lone surrogate."""

    @abstractmethod
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of token ids; ids outside the vocabulary give nothing."""

    @abstractmethod
    def token_id(self, text: str) -> int | None:
        """The id of `text` if it is exactly one vocabulary entry."""

    @abstractmethod
    def piece(self, token_id: int) -> str | None:
        """The vocabulary entry of an id as the vocabulary spells it; None for an unknown id."""

    def shown_piece(self, token_id: int) -> str:
        """The vocabulary entry of an id for people to read, empty for an unknown id."""
        return self.piece(token_id) or ""

    @abstractmethod
    def join(self, pieces: list[str]) -> str:
        """Text of vocabulary entries."""

    def join_unspaced(self, pieces: list[str]) -> str:
        """Text of vocabulary entries, without the spaces that a tokenizer sets around added tokens."""
        return self.join(pieces)


class FastTokenizer(Tokenizer):
    """One that the library `tokenizers` runs. `path`: of the tokenizer.json that `hf` was read from."""

    def __init__(self, hf: tokenizers.Tokenizer, config: Mapping[str, Any], path: Path | None = None) -> None:
        hf.no_truncation()
        hf.no_padding()
        self.hf = hf
        self.special_tokens = _special_tokens(config)
        listed = [*self.special_tokens.values(), *_extra_special_tokens(config)]
        _mark_special(hf, listed)
        vocabulary = hf.get_vocab(with_added_tokens=True)
        self.max_piece_chars = max(map(len, vocabulary), default=1)
        self.size = hf.get_vocab_size(with_added_tokens=True)
        self.max_id = max(vocabulary.values(), default=-1)
        self.eos_token_id = self.token_id(self.special_tokens.get("eos_token", ""))
        added = hf.get_added_tokens_decoder()
        self.added_tokens = tuple(token.content for token in added.values())
        self.special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        self._frame = _frame(hf)
        self._joins = _joins_without_regard(hf)
        self._plain: dict[int, str | None] = {}
        self.path = path
        description = path.read_bytes() if path else hf.to_str().encode()
        self.digest = digest_of(description)
        self.encoder = Encoder(self.encode_whole, find_anchors(description))

    def encode_whole(self, text: str) -> list[int]:
        """The ids of a text, all of it encoded anew. Raises TypeError if it holds a lone surrogate."""
        # Unlike `encode`, the batch call lets other threads run, and computes no offsets.
        return self.hf.encode_batch_fast([text], add_special_tokens=False)[0].ids

    def encode_with_offsets(
        self, text: str, add_special_tokens: bool
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids and the characters of `text` that each covers."""
        takes_long()
        encoding = self.hf.encode_batch([text], add_special_tokens=add_special_tokens)[0]
        return encoding.ids, encoding.offsets

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of token ids; ids outside the vocabulary give nothing."""
        return self.hf.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def token_id(self, text: str) -> int | None:
        """The id of `text` if it is exactly one vocabulary entry."""
        return self.hf.token_to_id(text)

    def piece(self, token_id: int) -> str | None:
        """The vocabulary entry of an id as the vocabulary spells it; None for an unknown id."""
        if not 0 <= token_id <= self.max_id:
            return None
        return self.hf.id_to_token(token_id)

    def plain_text(self, token_id: int) -> str | None:
        """The text that a token adds behind whatever whole text; None if that is not always the same."""
        try:
            return self._plain[token_id]
        except KeyError:
            text = self._plain_text(token_id)
            if 0 <= token_id <= self.max_id:
                self._plain[token_id] = text
            return text

    def _plain_text(self, token_id: int) -> str | None:
        piece = self.piece(token_id) if self._joins else None
        if piece is None or re.fullmatch("<0x[0-9A-Fa-f]{2}>", piece):
            return None
        text = self.join([piece])
        return text if text and "\ufffd" not in text else None

    def join(self, pieces: list[str]) -> str:
        """Text of vocabulary entries."""
        decoder = self.hf.decoder
        return " ".join(pieces) if decoder is None else decoder.decode(pieces)


def _frame(hf: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    if hf.num_special_tokens_to_add(is_pair=False) == 0:
        return [], []
    encoding = hf.encode("a")
    own = [i for i, added in enumerate(encoding.special_tokens_mask) if not added]
    return encoding.ids[: own[0]], encoding.ids[own[-1] + 1 :]


def _joins_without_regard(hf: tokenizers.Tokenizer) -> bool:
    """Whether the decoder joins whole pieces without regard to what stands beside them."""
    if hf.decoder is None:
        return False
    decoder = json.loads(hf.decoder.__getstate__())
    kinds = [part["type"] for part in decoder.get("decoders", [decoder])]
    return kinds == ["ByteLevel"] or kinds == ["Replace", "ByteFallback", "Fuse"]


def load_tokenizer(model_dir: Path) -> FastTokenizer:
    """The tokenizer.json of a directory. Raises ValueError if it cannot be read."""
    path = model_dir / "tokenizer.json"
    config = tokenizer_config(model_dir)
    try:
        return FastTokenizer(tokenizers.Tokenizer.from_file(str(path)), config, path)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises bare Exception, and panics that are not even that
        raise ValueError(f"tokenizer.json of '{model_dir}' cannot be read: {error}") from error


def tokenizer_config(model_dir: Path) -> dict[str, Any]:
    """tokenizer_config.json over special_tokens_map.json."""
    return {
        **read_json(model_dir / "special_tokens_map.json"),
        **read_json(model_dir / "tokenizer_config.json"),
    }


def _content(token: Any) -> str | None:
    """A special token is written as its text or as an object that holds it."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) and token else None


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    name = str(config.get("tokenizer_class") or "").removesuffix("Fast").removesuffix("Tokenizer")
    extra = config.get("extra_special_tokens")
    values = {
        **_CLASS_DEFAULTS.get(name, {}),
        **{role: config[role] for role in _ROLES if role in config},
        **(extra if isinstance(extra, dict) else {}),
    }
    order = [role for role in _ROLES if role in values] + [role for role in values if role not in _ROLES]
    return {role: text for role in order if (text := _content(values[role])) is not None}


def _extra_special_tokens(config: Mapping[str, Any]) -> list[str]:
    extra = config.get("additional_special_tokens") or config.get("extra_special_tokens")
    return [text for token in extra if (text := _content(token))] if isinstance(extra, list) else []


def _mark_special(hf: tokenizers.Tokenizer, texts: Sequence[str]) -> None:
    """A token with a role is a special token even where tokenizer.json does not flag it."""
    flagged = {token.content for token in hf.get_added_tokens_decoder().values() if token.special}
    missing = [text for text in dict.fromkeys(texts) if text not in flagged]
    if missing:
        hf.add_special_tokens(
            [tokenizers.AddedToken(text, special=True, normalized=False) for text in missing]
        )
