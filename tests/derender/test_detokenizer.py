"""The window of contract E.3, against its examples and against whole decoding."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.events import Marker, Special
from renderd.derender.detokenizer import MAX_PENDING, Detokenizer, Rest, Window
from tests.derender.support import encode, model

FAMILIES = ["qwen3", "llama3_1", "deepseek_v3", "gemma3", "gptoss"]


def detokenizer(name: str = "qwen3", skip_special: bool = True) -> Detokenizer:
    return Detokenizer(model(name).tokenizer, skip_special=skip_special)


def text(reader: Detokenizer, window: Window, ids: list[int]) -> str:
    return "".join(reader.read(window, ids))


def test_characters_wait_for_their_last_byte() -> None:
    reader, window = detokenizer(), Window()
    first = encode("Hello wö")
    globe = encode(" 🌍")
    assert len(globe) == 3
    assert text(reader, window, first) == "Hello wö"
    assert text(reader, window, globe[:1]) == ""
    assert (window.pieces, window.prefix, window.read) == (["Ã¶", "ĠðŁ"], 0, 1)
    assert text(reader, window, globe[1:2]) == ""
    assert text(reader, window, globe[2:]) == " 🌍"


def test_incomplete_characters() -> None:
    reader = detokenizer()
    assert text(reader, Window(), [11162, 9707]) == " \ufffdHello"
    assert text(reader, Window(), [9707, 11162]) == "Hello"


def test_a_character_begun_in_the_prompt_is_swallowed() -> None:
    reader, globe = detokenizer(), encode(" 🌍")
    window = reader.seed(globe[:2])
    assert text(reader, window, globe[2:]) == ""


def test_seed_is_the_end_of_the_prompt() -> None:
    window = detokenizer().seed(encode("one two three four five six seven eight"))
    assert (len(window.pieces), window.prefix, window.read) == (7, 2, 7)
    assert detokenizer().seed([]) == Window()


def test_seed_keeps_a_leading_blank() -> None:
    reader = detokenizer("gemma3")
    ids = encode(" world !", "gemma3")
    assert text(reader, reader.seed(encode("hello", "gemma3")), ids) == " world !"


def test_special_tokens_leave_the_window_alone() -> None:
    reader, window = detokenizer(), Window()
    assert text(reader, window, [9707, 151645]) == "Hello"
    assert reader.spelled(window).pieces == ["Hello"]
    assert text(detokenizer(skip_special=False), Window(), [9707, 151645]) == "Hello<|im_end|>"


def test_ids_outside_the_vocabulary_give_nothing() -> None:
    reader = detokenizer()
    assert text(reader, Window(), [9707, -1, 10**9, 2**70, 9707]) == "HelloHello"


def test_pending_text_is_bounded() -> None:
    reader, window = detokenizer(), Window()
    lexemes = reader.read(window, [11162] * (20 * MAX_PENDING))
    assert len(window.pieces) <= 2 * MAX_PENDING + 2
    assert set("".join(lexemes)) <= {" ", "\ufffd"}


def test_markers_are_passed_on_behind_what_they_cut_off() -> None:
    atoms = {151667: Marker("<think>"), 151645: Special("<|im_end|>")}
    reader = Detokenizer(model().tokenizer, skip_special=False, atoms=atoms)
    lexemes = reader.read(Window(), [9707, 11162, 151667, 9707, 151645])
    assert lexemes == ["Hello", "", " \ufffd", "<think>", "Hello", "<|im_end|>"]
    assert [type(lexeme) for lexeme in lexemes] == [str, str, Rest, Marker, str, Special]


SNIPPETS = [
    "Hello",
    " wörld",
    " 🌍",
    "👩‍👩‍👧",
    "  \n\n",
    "日本語",
    "e\u0301",
    "نص",
    "x = {'a': 1}\n",
    "\ufffd",
    "<b>",
]


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(parts=st.lists(st.sampled_from(SNIPPETS), max_size=8), cut=st.integers(0, 60))
def test_text_comes_out_whole(name: str, parts: list[str], cut: int) -> None:
    ids = encode("".join(parts), name)
    reader, window = detokenizer(name), Window()
    read = text(reader, window, ids[:cut]) + text(reader, window, ids[cut:])
    whole = model(name).tokenizer.decode(ids, skip_special_tokens=True)
    assert read == whole.rstrip("\ufffd") or read == whole


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(-2, 151_700), max_size=30), cut=st.integers(0, 30))
def test_any_cut_of_any_ids(ids: list[int], cut: int) -> None:
    reader, whole, window = detokenizer(), Window(), Window()
    assert reader.read(whole, ids) == reader.read(window, ids[:cut]) + reader.read(window, ids[cut:])
    assert whole == window


class _Neighbours:
    """A tokenizer of which no token's text is known alone."""

    def __init__(self, name: str) -> None:
        tokenizer = model(name).tokenizer
        self.special_ids, self.silent_ids = tokenizer.special_ids, tokenizer.silent_ids
        self.join_unspaced = tokenizer.join_unspaced
        self.piece, self.join, self._size = tokenizer.piece, tokenizer.join, len(tokenizer)

    def __len__(self) -> int:
        return self._size

    def plain_text(self, token_id: int) -> str | None:
        return None


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_text_of_a_token_alone_is_its_text_behind_others(name: str, data: st.DataObject) -> None:
    some = st.integers(0, len(model(name).tokenizer) + 3)
    bytes_and_marks = st.integers(0, 600)
    words = st.sampled_from(SNIPPETS).map(lambda snippet: encode(snippet, name)[0])
    ids = data.draw(st.lists(some | bytes_and_marks | words, max_size=40))
    prompt = data.draw(st.lists(bytes_and_marks | words, max_size=8))
    alone, slow = detokenizer(name, False), Detokenizer(_Neighbours(name), skip_special=False)
    window, same = alone.seed(prompt), slow.seed(prompt)
    assert alone.read(window, ids) == slow.read(same, ids)
    assert alone.spelled(window) == slow.spelled(same)
