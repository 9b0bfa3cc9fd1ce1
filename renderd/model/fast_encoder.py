"""A faster encoder, used for a tokenizer on which it proves exact.

fastokens reads the same tokenizer.json and gives the ids of `tokenizers`, some fifteen times faster, on most
tokenizers. No list says on which: both encode a corpus of the places where encoders go wrong, and the fast
one is taken only if no text of it differs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import fastokens  # type: ignore[import-untyped]

from renderd.model.tokenizer import Tokenizer

logger = logging.getLogger("renderd.model")

_CONTRACTIONS = ("'s", "'S", "'ſ", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'d", "’s")
_LETTERS = ("a", "A", "x", "é", "ß", "ı", "K", "ǅ", "ª", "Ⅷ", "Σ", "ﬁ", "א", "ع", "漢", "か", "ა", "𝔸", "𞤀")
_JOINED = (
    "\u0301",
    "\u030f",
    "\u093e",
    "\u0e33",
    "\u0652",
    "\ufe0f",
    "\u200d",
    "\u20e3",
    "🇩🇪",
    "👩‍👩‍👧",
    "👍🏽",
)
_BLANKS = (
    "",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    " \n",
    "\n ",
    "\u00a0",
    "\u2028",
    "\u3000",
    "\x00",
    "\x1f",
)
_NUMBERS = ("1", "12", "123", "1234", "1234567", "3.14", "-1e9", "٣٤", "१२३", "½", "②")
_SIGNS = (
    "!",
    "?!",
    "...",
    "--",
    "_",
    "/",
    "\\",
    '"',
    "{",
    "}",
    "<",
    ">",
    "</",
    "<|",
    "|>",
    "()",
    "¿",
    "。",
    "«",
)
_WORDS = (
    "Hello",
    " world",
    "camelCase",
    "ALLCAPS",
    "naïve",
    "Straße",
    "안녕하세요",
    "สวัสดี",
    "def f(x):",
    "http://a.b/c?d=1",
)


def corpus(special_tokens: Sequence[str]) -> Iterator[str]:
    """Texts on which encoders are known to differ, and neighbours of each kind beside each other."""
    for first, second, letter in product(_CONTRACTIONS, _CONTRACTIONS, _LETTERS):
        yield f"x{first}{second}{letter}"
    pieces = (*_CONTRACTIONS, *_LETTERS, *_JOINED, *_BLANKS, *_NUMBERS, *_SIGNS, *_WORDS)
    for left, right in product(pieces, pieces):
        yield f"{left}{right}"
        yield f"a {left}{right}\n"
    for token, piece in product(special_tokens, pieces):
        yield f"{piece}{token}{piece}{token[:-1]}"
    for piece in pieces:
        yield piece * 40
        yield " ".join(pieces) + piece


def prove(encode: Callable[[str], list[int]], tokenizer: Tokenizer) -> str | None:
    """The first text that `encode` gives other ids than the tokenizer itself, None if there is none."""
    for text in corpus(tokenizer.added_tokens[:64]):
        if encode(text) != tokenizer.encode_whole(text):
            return text
    return None


def speed_up(tokenizer: Tokenizer) -> None:
    """Let a tokenizer encode with fastokens, if that is exact. Takes seconds, in which it can be used."""
    encode, outcome = _load(tokenizer)
    if encode is not None:
        tokenizer.encoder.encode_text = encode
    logger.info("%s", outcome)


def _load(tokenizer: Tokenizer) -> tuple[Callable[[str], list[int]] | None, str]:
    """The fast encoder, or None, and a sentence that says which encoder it is to be."""
    try:
        fast = fastokens.Tokenizer.from_file(str(tokenizer.path))
    except Exception as error:  # whatever the library says, there is another one
        return None, f"encoding with tokenizers: fastokens cannot read this tokenizer ({error})"

    def encode(text: str) -> list[int]:
        try:
            ids: list[int] = fast.encode(text).ids
        except Exception:  # the reference knows what is wrong with the text
            return tokenizer.encode_whole(text)
        return ids

    wrong = prove(encode, tokenizer)
    if wrong is not None:
        return None, f"encoding with tokenizers: fastokens gives other ids for {wrong!a}"
    return encode, "encoding with fastokens, which proved exact on this tokenizer"
