"""Server-sent events: the same whatever the pieces they come in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderd.engine.events import EventReader

STREAM = (
    b"data: one\n\n: a comment\n\ndata:two\ndata: more\nid: 7\n\n\nevent: x\n\n"
    b'data: {"text":"a\\r\\nb"}\r\n\r\ndata: \xe2\x80\xa8\r\nretry: 5\r\n\r\ndata: [DONE]\n\ndata: cut'
)
EVENTS = [b"one", b"two\nmore", b'{"text":"a\\r\\nb"}', b"\xe2\x80\xa8", b"[DONE]"]


def read(pieces: Iterator[bytes]) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize("size", range(1, len(STREAM)))
def test_pieces_of_one_size(size: int) -> None:
    assert read(STREAM[at : at + size] for at in range(0, len(STREAM), size)) == EVENTS


@given(st.lists(st.integers(0, len(STREAM))))
def test_any_pieces(cuts: list[int]) -> None:
    at = sorted({0, *cuts, len(STREAM)})
    assert read(STREAM[a:b] for a, b in pairwise(at)) == EVENTS


def test_a_large_event_takes_linear_time() -> None:
    piece = b"x" * 1000
    began = process_time()
    assert len(read(iter([b"data: ", *[piece] * 20_000, b"\n\n"]))[0]) == 20_000_000
    assert process_time() - began < 5


def test_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("renderd.engine.events.LARGEST", 100)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        EventReader().feed(b"data: " + b"x" * 100)
