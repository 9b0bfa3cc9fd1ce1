"""Prompt text -> token ids, by segments whose ids are remembered.

A chat repeats itself: each turn sends the turns before it, and all users share a system prompt. Some added
tokens are anchors: what stands on either side of one is encoded on its own, so the text between two anchors
always has the same ids. Where a tokenizer's rules make that untrue there are no anchors, and a text is one
segment.
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, takewhile
from threading import Lock
from typing import Any, overload
from weakref import ReferenceType, ref

import msgspec

from renderd.model.hurry import takes_long

CACHE_BYTES = 64 * 1024 * 1024
"""Of the texts and ids that a process remembers, unless it is told another number."""
LEAST = 256
"""Characters after which a segment ends at the next anchor. To encode that much takes less than to look up
the segments that it could be taken apart into."""
_OVERHEAD = 450
"""Bytes of a segment beside its text and its ids, with its place in the cache."""
_IDS = msgspec.json.Decoder(list[int])


class _Segment:
    """A text and its ids. `json`: how JSON writes them, a comma before each. `size`: bytes of all of it.
    `next`: the segment that stood behind it last, if it is still remembered. `lacks`: ids that were looked
    for here and are not."""

    __slots__ = ("__weakref__", "count", "json", "lacks", "next", "size", "text")

    def __init__(self, text: str, ids: Sequence[int]) -> None:
        self.text = text
        self.count = len(ids)
        self.json = b"," + msgspec.json.encode(ids)[1:-1] if ids else b""
        self.size = _OVERHEAD + sys.getsizeof(text) + sys.getsizeof(self.json)
        self.next: ReferenceType[_Segment] | None = None
        self.lacks: frozenset[int] = frozenset()

    def ids(self) -> list[int]:
        return _IDS.decode(b"[%b]" % self.json[1:])


class TokenIds(Sequence[int]):
    """Token ids whose JSON text is known. They become integers when they are asked for."""

    def __init__(self, segments: Sequence[_Segment]) -> None:
        self._segments = segments
        self._length = sum([segment.count for segment in segments])

    @cached_property
    def _ids(self) -> list[int]:
        return _IDS.decode(self.json())

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __reversed__(self) -> Iterator[int]:
        return chain.from_iterable(reversed(segment.ids()) for segment in reversed(self._segments))

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

    def search(self, wanted: frozenset[int]) -> Iterator[tuple[int, int]]:
        """The places of the wanted ids from the last to the first, each with its id. Fast where the same
        object is wanted again: a segment remembers that it has none of them."""
        at = self._length
        for segment in reversed(self._segments):
            if segment.lacks is wanted:
                at -= segment.count
                continue
            found = False
            for token_id in reversed(segment.ids()):
                at -= 1
                if token_id in wanted:
                    found = True
                    yield at, token_id
            if not found:
                segment.lacks = wanted

    @classmethod
    def joined(cls, parts: Iterable[Sequence[int]]) -> TokenIds:
        """The ids of all parts. Those whose JSON text is known are not looked at."""
        segments: list[_Segment] = []
        for part in parts:
            segments += part._segments if isinstance(part, TokenIds) else [_Segment("", part)]
        return cls(segments)

    def framed(self, before: list[int], behind: list[int]) -> TokenIds:
        """The same ids between others."""
        return TokenIds.joined([before, self, behind]) if before or behind else self

    def shared(self, other: list[int]) -> int:
        """How many of the first ids are the first of another list, too."""
        text = b"," + msgspec.json.encode(other)[1:-1]
        at = count = 0
        for segment in self._segments:
            end = at + len(segment.json)
            if not text.startswith(segment.json, at) or text[end : end + 1] not in (b"", b","):
                pairs = zip(segment.ids(), other[count : count + segment.count], strict=False)
                return count + sum(1 for _ in takewhile(_alike, pairs))
            at = end
            count += segment.count
        return count

    def json(self) -> bytes:
        """The JSON array."""
        texts = [segment.json for segment in self._segments if segment.json]
        return b"".join([b"[", texts[0][1:], *texts[1:], b"]"]) if texts else b"[]"


def _alike(pair: tuple[int, int]) -> bool:
    return pair[0] == pair[1]


class Encoder:
    """Encodes texts. May be called from many threads.

    `encode_text`: the tokenizer's encoding of a text, without special tokens at its ends; it may be replaced
    by another that gives the same ids. `brief_chars`: how many take it a millisecond or
    less. `anchors`: of `find_anchors`. `max_bytes`: of the segments that are remembered; with 0 there
    are no segments. `least`: characters of a segment that ends at an anchor. `hits`, `misses`: segments so
    far; `evictions`: those that were forgotten for others; `cached_bytes`: about what the remembered ones
    take.
    """

    def __init__(
        self,
        encode_text: Callable[[str], list[int]],
        anchors: Sequence[str],
        max_bytes: int = CACHE_BYTES,
        least: int = LEAST,
    ) -> None:
        self._find = re.compile("|".join(map(re.escape, anchors))).search if anchors else None
        self._lock = Lock()
        self._cache: OrderedDict[str, _Segment] = OrderedDict()
        self._begin = _Segment("", [])
        self._least = least
        self.anchors = anchors
        self.max_bytes = max_bytes
        self.encode_text = encode_text
        self.brief_chars = 500
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self.cached_bytes = 0

    def encode(self, text: str) -> TokenIds:
        """The ids of a text: those that the tokenizer gives for the whole of it."""
        if not self.max_bytes:
            return TokenIds([self._encode(text, 0)])
        segments: list[_Segment] = []
        at, end, new, new_chars, last = 0, len(text), 0, 0, self._begin
        while at < end:
            # Most often comes what came before: comparing is ten times cheaper than to search and to hash.
            segment = last.next() if last.next else None
            if segment is None or not text.startswith(segment.text, at):
                anchor = self._find(text, at + self._least) if self._find else None
                piece = text[at : anchor.end()] if anchor else text[at:]
                segment = self._cache.get(piece)
                if segment is None:
                    segment = self._remember(self._encode(piece, new_chars))
                    new += 1
                    new_chars += len(piece)
                if anchor:  # the end of a text is no such place: the next one may go on there
                    last.next = ref(segment)
            segments.append(segment)
            at += len(segment.text)
            last = segment
        with self._lock:
            self.hits += len(segments) - new
            self.misses += new
            for segment in segments:
                if segment.text in self._cache:
                    self._cache.move_to_end(segment.text)
        return TokenIds(segments)

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """What is encoded inside is not remembered afterwards, nor counted."""
        counts = self.hits, self.misses, self.evictions, self.cached_bytes
        cache, self._cache = self._cache, OrderedDict()
        try:
            yield
        finally:
            self._cache, self._begin.next = cache, None
            self.hits, self.misses, self.evictions, self.cached_bytes = counts

    def _encode(self, text: str, before: int) -> _Segment:
        """`before`: characters that were encoded for the same text before."""
        if before + len(text) > self.brief_chars:
            takes_long()
        return _Segment(text, self.encode_text(text))

    def _remember(self, segment: _Segment) -> _Segment:
        with self._lock:
            if segment.size <= self.max_bytes and segment.text not in self._cache:
                self._cache[segment.text] = segment
                self.cached_bytes += segment.size
                while self.cached_bytes > self.max_bytes:
                    self.cached_bytes -= self._cache.popitem(last=False)[1].size
                    self.evictions += 1
        return segment


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
    beginnings = {text[:size] for text in texts for size in range(1, len(text))}
    ends = {text[size:] for text in texts for size in range(1, len(text))}
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


def _shared(text: str, beginnings: Set[str], ends: Set[str]) -> bool:
    """Whether a token, be it the same one again, can begin inside `text`, or end inside it."""
    for size in range(1, len(text)):
        first, last = text[:size], text[-size:]
        if last in beginnings or first in ends:
            return True
    return False
