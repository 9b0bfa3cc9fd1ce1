"""A faster encoder, used for a tokenizer on which it proves exact.

fastokens reads the same tokenizer.json and gives the ids of `tokenizers`, some fifteen times faster, on most
tokenizers. No list says on which: both encode a corpus of the places where encoders go wrong, and the fast
one is taken only if no text of it differs.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from threading import Event, Thread

import fastokens  # type: ignore[import-untyped]

from renderd.model.tokenizer import Tokenizer

logger = logging.getLogger("renderd.model")

Encode = Callable[[str], list[int]]
"""The token ids of a text, without special tokens at its ends."""

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


def prove(
    encode: Encode, tokenizer: Tokenizer, unwanted: Callable[[], bool] = lambda: False
) -> tuple[bool, str | None]:
    """Whether `encode` gave the tokenizer's own ids, and the first text where it did not.

    Nobody waits for the answer any more once it is `unwanted`: then False and None."""
    for text in corpus(tokenizer.added_tokens[:64]):
        if unwanted():
            return False, None
        if encode(text) != tokenizer.encode_whole(text):
            return False, text
    return True, None


class SpeedUp(Thread):
    """Lets a tokenizer encode with fastokens, if that proves exact.

    Making one reads the tokenizer: a second or more in which no other thread can run, so it is done before
    anybody waits for an answer. The proof, once started, takes about as long beside other work. `stop` it
    before the process ends: Python aborts where a thread is in native code at its end.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(name="speed-up")
        self._tokenizer = tokenizer
        self._encode = _read(tokenizer)
        self._stopping = Event()

    def run(self) -> None:
        """Prove, and take the faster encoder if it is exact."""
        if self._encode is not None:
            exact, wrong = prove(self._encode, self._tokenizer, self._stopping.is_set)
            if exact:
                self._tokenizer.encoder.encode_text = self._encode
                self._tokenizer.encoder.brief_chars = 15_000
                logger.info("encoding with fastokens, which proved exact on this tokenizer")
            elif wrong is not None:
                logger.info("encoding with tokenizers: fastokens gives other ids for %s", ascii(wrong))
            self._encode = None
        _trim()

    def stop(self) -> None:
        """Return when no thread proves anything any more, at once or nearly so."""
        self._stopping.set()
        if self.is_alive():
            self.join()


def _trim() -> None:
    """Let the C library, where it is glibc, give back what loading took and freed: a quarter of all."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _read(tokenizer: Tokenizer) -> Encode | None:
    """The fast encoder of a tokenizer, None where there is none."""
    if tokenizer.path is None:
        logger.info("encoding with the tokenizer's own library: fastokens reads nothing but tokenizer.json")
        return None
    try:
        fast = fastokens.Tokenizer.from_file(str(tokenizer.path))
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
