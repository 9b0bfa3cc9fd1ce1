"""Token ids -> text, incrementally, with the window that vLLM's streams carry (contract E.3).

The window holds vocabulary pieces. The text of a new token is what its piece adds to the text of the pieces
before it; while that ends inside a character it is withheld. Both paths use it: a plain stream sends the
window's fields over the wire, a parsed one keeps it in `parser_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from parsers.events import Marker, Special

SEED_PIECES = 7
"""Prompt pieces that prime a window."""

SEED_CONTEXT = 5
"""Those of them that are read along with the first output token."""

MAX_PENDING = 64
"""Pieces without a whole character after which their text is let go, so that work per token is bounded."""

_INCOMPLETE = "\ufffd"


class Rest(str):
    """Text that belongs to a token whose lexeme has been passed on before."""

    __slots__ = ()


Lexeme = str
"""A `Marker`, a `Special`, a `Rest`, or plain text of one token (empty when the token gave none)."""


class Window(msgspec.Struct, array_like=True):
    """Pieces from `prefix` on give context, pieces from `read` on are not yet text. `last`: the token whose
    piece alone is the window, which is not spelled out in `pieces` before it is needed."""

    pieces: list[str] = []
    prefix: int = 0
    read: int = 0
    last: int | None = None


class PieceDecoder(Protocol):
    """What the window needs of a tokenizer."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of the tokens that are flagged special."""

    @property
    def silent_ids(self) -> frozenset[int]:
        """Ids of those that give no text even where special tokens are not skipped."""

    def __len__(self) -> int:
        """Number of ids."""

    def piece(self, token_id: int) -> str | None:
        """The vocabulary entry of an id."""

    def plain_text(self, token_id: int) -> str | None:
        """The text that a token adds behind whatever whole text; None if that is not always the same."""

    def join(self, pieces: list[str]) -> str:
        """The text of consecutive vocabulary entries."""

    def join_unspaced(self, pieces: list[str]) -> str:
        """The same without the spaces that some tokenizers set around added tokens."""


class Detokenizer:
    """Reads one output with one setting.

    `atoms`: tokens that are passed on as they are, under a kind of their own, whatever `skip_special` says.
    `skip_special`: other special tokens give no text. `spaces`: added tokens are set off by spaces, by the
    tokenizers that do so.
    """

    def __init__(
        self,
        tokenizer: PieceDecoder,
        *,
        skip_special: bool,
        spaces: bool = True,
        atoms: Mapping[int, Marker | Special] | None = None,
    ) -> None:
        self._join = tokenizer.join if spaces else tokenizer.join_unspaced
        self._piece = tokenizer.piece
        self._plain_text = tokenizer.plain_text
        self._size = len(tokenizer)
        self._atoms = dict(atoms or {})
        skipped = tokenizer.special_ids if skip_special else tokenizer.silent_ids
        self._skipped = skipped - self._atoms.keys()
        self._apart = self._skipped | self._atoms.keys()

    def seed(self, prompt_token_ids: Sequence[int]) -> Window:
        """The window of an output that follows this prompt."""
        tail = prompt_token_ids[-SEED_PIECES:]
        pieces = [self._entry(token_id) for token_id in tail if token_id not in self._skipped]
        return Window(pieces, max(len(pieces) - SEED_CONTEXT, 0), len(pieces))

    def read(self, window: Window, token_ids: Iterable[int]) -> list[Lexeme]:
        """One lexeme a token, in order, behind a `Rest` where a token cuts off the character before it."""
        lexemes: list[Lexeme] = []
        last, window.last = window.last, None
        for token_id in token_ids:
            whole = last is not None or window.read == len(window.pieces)
            if whole and token_id not in self._apart and (text := self._plain_text(token_id)) is not None:
                lexemes.append(text)
                last = token_id
                continue
            if last is not None:
                self._rest_on(window, last)
                last = None
            if (atom := self._atoms.get(token_id)) is not None:
                if rest := self._release(window):
                    lexemes.append(Rest(rest))
                window.pieces.append(str(atom))
                self._settle(window)
                lexemes.append(atom)
            elif token_id in self._skipped:
                self._rebase(window)
                lexemes.append("")
            else:
                lexemes.append(self._step(window, self._entry(token_id)))
        window.last = last
        return lexemes

    def spelled(self, window: Window) -> Window:
        """The same window, all in pieces."""
        if window.last is not None:
            self._rest_on(window, window.last)
            window.last = None
        return window

    def _rest_on(self, window: Window, token_id: int) -> None:
        """All is text up to this token, which is enough of a window."""
        window.pieces = [self._entry(token_id)]
        window.prefix, window.read = 0, 1

    def _entry(self, token_id: int) -> str:
        return (self._piece(token_id) or "") if 0 <= token_id < self._size else ""

    def _step(self, window: Window, piece: str) -> str:
        pieces = window.pieces
        known = self._join(pieces[window.prefix : window.read])
        pieces.append(piece)
        text = self._join(pieces[window.prefix :])
        withheld = len(text) <= len(known) or text.endswith(_INCOMPLETE)
        if withheld and len(pieces) - window.read <= MAX_PENDING:
            self._rebase(window)
            return ""
        self._settle(window)
        return text[len(known) :]

    def _release(self, window: Window) -> str:
        """The text of the pieces that are not yet text."""
        if window.read == len(window.pieces):
            return ""
        known = self._join(window.pieces[window.prefix : window.read])
        text = self._join(window.pieces[window.prefix :])[len(known) :]
        self._settle(window)
        return text

    def _settle(self, window: Window) -> None:
        """All pieces are text now."""
        window.prefix = window.read
        window.read = len(window.pieces)
        self._rebase(window)

    @staticmethod
    def _rebase(window: Window) -> None:
        if window.prefix:
            del window.pieces[: window.prefix]
            window.read -= window.prefix
            window.prefix = 0
