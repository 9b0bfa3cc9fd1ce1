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

Encode = Callable[[str], list[int]]
"""The token ids of a text, without special tokens at its ends."""

BRIEF_CHARS = 40_000
"""What fastokens encodes in a millisecond or less."""

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


def differing(encode: Encode, tokenizer: Tokenizer) -> str | None:
    """The first text where `encode` does not give the tokenizer's own ids."""
    for text in corpus(tokenizer.added_tokens[:64]):
        if encode(text) != tokenizer.encode_whole(text):
            return text
    return None


class SpeedUp:
    """Lets a tokenizer encode with fastokens, if that proves exact.

    Making one reads the tokenizer: a second or more in which no other thread can run, so it is done before
    anybody waits for an answer. The proof takes about as long, and may be done by another process.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._encode = _read(tokenizer)
        self.encoder = tokenizer.encoder

    @property
    def taken(self) -> bool:
        """Whether the tokenizer encodes with the faster encoder."""
        return self.encoder.encode_text is self._encode

    @property
    def found(self) -> bool:
        """Whether there is a faster encoder to prove."""
        return self._encode is not None

    def prove(self) -> bool:
        """Whether the faster encoder is exact, so that it may be taken. Logs the answer."""
        if self._encode is None:
            return False
        wrong = differing(self._encode, self._tokenizer)
        if wrong is None:
            logger.info("encoding with fastokens, which proved exact on this tokenizer")
        else:
            logger.info("encoding with tokenizers: fastokens gives other ids for %s", ascii(wrong))
        return wrong is None

    def take(self) -> None:
        """Let the tokenizer encode with the faster encoder from here on."""
        if self._encode is not None:
            self.encoder.encode_text = self._encode
            self.encoder.brief_chars = BRIEF_CHARS


def _read(tokenizer: Tokenizer) -> Encode | None:
    """The fast encoder of a tokenizer, None where there is none."""
    if tokenizer.path is None:
        logger.info("encoding with the tokenizer's own library: fastokens reads nothing but tokenizer.json")
        return None
    try:
        fast = fastokens.Tokenizer.from_file(str(tokenizer.path))
        fast.encode("a")  # what the first text takes, a tenth of a second, is not to be every worker's
    except Exception as error:  # whatever the library says, there is another one
        logger.info("encoding with tokenizers: fastokens cannot read this tokenizer (%s)", error)
        return None

    def encode(text: str) -> list[int]:
        try:
            ids: list[int] = fast.encode(text).ids
        except Exception:  # the reference knows what is wrong with the text
            return tokenizer.encode_whole(text)
        return ids

    return encode
