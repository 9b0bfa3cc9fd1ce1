"""Prompt text -> token ids, by segments whose ids are remembered.

A chat repeats itself: each turn sends the turns before it, and all users share a system prompt. Some added
tokens are anchors: what stands on either side of one is encoded on its own, so the text between two anchors
always has the same ids. Where a tokenizer's rules make that untrue there are no anchors, and a text is one
segment.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple, overload

import msgspec
from cachetools import LRUCache

CACHE_BYTES = 64 * 1024 * 1024
"""Of the texts and ids that a process remembers."""


class _Segment(NamedTuple):
    """The ids of a text, how JSON writes them between the brackets, and the bytes that all three take."""

    ids: array[int]
    json: bytes
    size: int


class TokenIds(Sequence[int]):
    """Token ids whose JSON text is known. They become a list when one of them is asked for."""

    def __init__(self, segments: Sequence[_Segment]) -> None:
        self._segments = segments
        self._length = sum(len(segment.ids) for segment in segments)

    @cached_property
    def _ids(self) -> list[int]:
        return list(self)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(segment.ids for segment in self._segments)

    def __reversed__(self) -> Iterator[int]:
        return chain.from_iterable(reversed(segment.ids) for segment in reversed(self._segments))

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        return self._ids[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._ids == list(other)

    def __repr__(self) -> str:
        return repr(self._ids)

    def json(self) -> bytes:
        """The JSON array."""
        return b"[%b]" % b",".join([segment.json for segment in self._segments if segment.json])


class _Segments(LRUCache[str, _Segment]):
    """Evicts what was not used for longest, and counts it."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, getsizeof=lambda segment: segment.size)
        self.evictions = 0

    def popitem(self) -> tuple[str, _Segment]:
        self.evictions += 1
        return super().popitem()


class Encoder:
    """Encodes texts. May be called from many threads.

    `encode_text`: the tokenizer's encoding of a text, without special tokens at its ends; it may be replaced
    by another that gives the same ids. `anchors`: of `find_anchors`. `hits`, `misses`: segments so far.
    """

    def __init__(
        self, encode_text: Callable[[str], list[int]], anchors: Sequence[str], max_bytes: int = CACHE_BYTES
    ) -> None:
        ordered = sorted(anchors, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, ordered))})").split if ordered else None
        self._lock = Lock()
        self._cache = _Segments(max_bytes)
        self.encode_text = encode_text
        self.hits = 0
        self.misses = 0

    @property
    def evictions(self) -> int:
        """Segments that were forgotten for others."""
        return self._cache.evictions

    @property
    def cached_bytes(self) -> int:
        """About what the remembered segments take."""
        return int(self._cache.currsize)

    def encode(self, text: str) -> TokenIds:
        """The ids of a text: those that the tokenizer gives for the whole of it."""
        pieces = [piece for piece in self._split(text) if piece] if self._split else [text]
        with self._lock:
            known = [self._cache.get(piece) for piece in pieces]
        segments: list[_Segment] = []
        new: dict[str, _Segment] = {}
        for piece, segment in zip(pieces, known, strict=True):
            if segment is None and (segment := new.get(piece)) is None:
                segment = new[piece] = self._encode(piece)
            segments.append(segment)
        with self._lock:
            self.hits += len(pieces) - len(new)
            self.misses += len(new)
            for piece, segment in new.items():
                if segment.size <= self._cache.maxsize:
                    self._cache[piece] = segment
        return TokenIds(segments)

    def _encode(self, text: str) -> _Segment:
        encoded = self.encode_text(text)
        ids, json = array("I", encoded), msgspec.json.encode(encoded)[1:-1]
        return _Segment(ids, json, 250 + sys.getsizeof(text) + sys.getsizeof(ids) + sys.getsizeof(json))


class _AddedToken(msgspec.Struct):
    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


class _Model(msgspec.Struct):
    dropout: float | None = None


class _TokenizerFile(msgspec.Struct):
    """What matters of tokenizer.json."""

    model: _Model
    added_tokens: list[_AddedToken] = []
    truncation: Any = None
    padding: Any = None
    normalizer: Any = None
    pre_tokenizer: Any = None


def find_anchors(tokenizer_json: bytes) -> list[str]:
    """The special tokens at which a text may be cut.

    Such a token is found wherever its text stands, takes nothing from its sides, and no other added token can
    lie over one of its ends. None are given where the first piece of a text is encoded unlike the others, or
    where encoding is random, cut or padded. Raises ValueError for a malformed file.
    """
    file = msgspec.json.decode(tokenizer_json, type=_TokenizerFile)
    if file.truncation or file.padding or file.model.dropout:
        return []
    if any(part.get("prepend_scheme") == "first" for part in _parts(file.pre_tokenizer, file.normalizer)):
        return []
    texts = {token.content for token in file.added_tokens if token.content}
    beginnings = Counter(text[:size] for text in texts for size in range(1, len(text)))
    ends = Counter(text[size:] for text in texts for size in range(1, len(text)))
    joined = "\0".join(texts)
    return [
        token.content
        for token in file.added_tokens
        if token.special
        and not (token.lstrip or token.rstrip or token.single_word or token.normalized)
        and joined.count(token.content) == 1
        and not _shared(token.content, beginnings, ends)
    ]


def _parts(*waiting: Any) -> Iterator[Mapping[str, Any]]:
    """Pre-tokenizers and normalizers, taken apart."""
    for part in waiting:
        if isinstance(part, dict):
            yield part
            yield from _parts(*part.get("pretokenizers", ()), *part.get("normalizers", ()))


def _shared(text: str, beginnings: Mapping[str, int], ends: Mapping[str, int]) -> bool:
    """Whether another token can begin inside `text`, or end inside it."""
    for size in range(1, len(text)):
        first, last = text[:size], text[-size:]
        if beginnings.get(last, 0) > (first == last) or ends.get(first, 0) > (first == last):
            return True
    return False
