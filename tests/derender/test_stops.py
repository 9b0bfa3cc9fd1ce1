"""Stop tokens and stop strings (contract E.4), finished and streamed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.events import Marker
from renderd.derender.detokenizer import Rest
from renderd.derender.stops import StopSearch
from tests.derender.support import (
    CHAT,
    TOOL_CHAT,
    Json,
    Streamer,
    chat,
    chunk,
    chunks,
    completion,
    derenderer,
    encode,
    put_together,
    refusal,
    response,
    shape,
)

EOS, END_OF_TEXT = 151645, 151643
HELLO = encode("hello")


def finished(ids: list[int], request: Json | None = None, **choice: Any) -> tuple[str | None, Any]:
    answer = chat(
        derenderer(), generate_response=response(ids, **choice), chat_request={**CHAT, **(request or {})}
    )
    choice = answer["choices"][0]
    return choice["message"]["content"], choice["stop_reason"]


@pytest.mark.parametrize(
    ("last", "request_", "choice", "expected"),
    [
        (EOS, {}, {"finish_reason": "stop"}, ("hello", None)),
        (EOS, {}, {}, ("hello", None)),
        (END_OF_TEXT, {}, {}, ("hello", END_OF_TEXT)),
        (END_OF_TEXT, {}, {"stop_reason": 5}, ("hello<|endoftext|>", 5)),
        (EOS, {"ignore_eos": True}, {}, ("hello<|im_end|>", None)),
        (EOS, {"ignore_eos": True, "stop_token_ids": [EOS]}, {}, ("hello", EOS)),
        (1052, {"stop_token_ids": [1052]}, {}, ("hello", 1052)),
        (1052, {"stop_token_ids": [1052]}, {"finish_reason": "length"}, ("hello there", None)),
        (EOS, {"include_stop_str_in_output": True}, {}, ("hello<|im_end|>", None)),
        (EOS, {}, {"finish_reason": "length"}, ("hello<|im_end|>", None)),
        (EOS, {}, {"stop_reason": "zzz"}, ("hello<|im_end|>", "zzz")),
        (EOS, {}, {"finish_reason": None}, ("hello", None)),  # vLLM keeps the token's text here
    ],
)
def test_stop_tokens(last: int, request_: Json, choice: Json, expected: tuple[str, Any]) -> None:
    assert finished([*HELLO, last], {"skip_special_tokens": False, **request_}, **choice) == expected


@pytest.mark.parametrize(
    ("text", "request_", "choice", "expected"),
    [
        ("a STOP b", {"stop": "STOP"}, {}, ("a ", "STOP")),
        ("a STOP b", {"stop": "STOP"}, {"finish_reason": "length"}, ("a ", "STOP")),
        ("a STOP b", {"stop": "STOP", "include_stop_str_in_output": True}, {}, ("a STOP", "STOP")),
        ("a STOP b", {"stop": ["STOP"]}, {"stop_reason": "b"}, ("a STOP ", "b")),
        ("a STOP b", {}, {"stop_reason": "STOP"}, ("a ", "STOP")),
        ("a STOP b STOP", {"stop": "STOP", "min_tokens": 3}, {}, ("a STOP b ", "STOP")),
        ("a STOP b", {"stop": "STOP", "min_tokens": 3}, {}, ("a STOP b", None)),
        ("x foobar y", {"stop": ["bar", "foo"]}, {}, ("x ", "foo")),
        ("nothing", {"stop": ["STOP", ""]}, {}, ("nothing", None)),
    ],
)
def test_stop_strings(text: str, request_: Json, choice: Json, expected: tuple[str, Any]) -> None:
    assert finished(encode(text), request_, **choice) == expected


def test_a_stop_string_before_the_end_token() -> None:
    assert finished([*encode("a STOP b"), EOS], {"stop": "STOP"}) == ("a ", "STOP")


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_streamed_stop_string(size: int) -> None:
    request = {**CHAT, "stop": "STOP"}
    stream = Streamer(derenderer(), chat_request=request)
    sent = stream.send_all(chunks([*encode("a STICK, a STOP b"), EOS], [size] * 99))
    answers = [choice for part in sent for choice in part["choices"]]
    assert "".join(answer["delta"]["content"] or "" for answer in answers) == "a STICK, a "
    ends = [(answer["finish_reason"], answer["stop_reason"]) for answer in answers]
    assert [end for end in ends if end != (None, None)] == [("stop", "STOP")]


def test_after_a_stop_string_nothing_comes() -> None:
    request = {**CHAT, "stop": "STOP", "return_token_ids": True, "logprobs": True}
    stream = Streamer(derenderer(), chat_request=request)
    stream.send(chunk(encode("a STOP")))
    late = stream.send(chunk(encode("b"), logprobs={"content": [{"token_id": 65, "logprob": -1.0}]}))
    end = stream.send(chunk([EOS], finish_reason="stop"))
    for part in (late, end):
        assert part["choices"] == []


def test_held_text_comes_with_the_finish() -> None:
    stream = Streamer(derenderer(), chat_request={**CHAT, "stop": "STOP"})
    sent = stream.send_all(chunks(encode("a ST"), [1] * 9, "length"))
    assert put_together(sent)["choices"][0]["message"]["content"] == "a ST"
    assert sent[-1]["choices"][0]["finish_reason"] == "length"


def test_a_stop_string_that_the_request_does_not_know() -> None:
    stream = Streamer(derenderer(), chat_request=CHAT)
    sent = stream.send_all(chunks(encode("a STOP"), [1], stop_reason="STOP"))
    assert put_together(sent)["choices"][0] | {"message": None} == {
        "index": 0,
        "message": None,
        "logprobs": None,
        "finish_reason": "stop",
        "stop_reason": "STOP",
        "token_ids": None,
    }


def test_streamed_completion() -> None:
    body = {"prompt": "x", "stop": ["STOP"]}
    stream = Streamer(derenderer(), "completion", completion_request=body)
    sent = stream.send_all(chunks(encode("a STOP b"), [1] * 9))
    assert "".join(choice["text"] for part in sent for choice in part["choices"]) == "a "
    whole = completion(
        derenderer(), generate_responses=[response(encode("a STOP b"))], completion_request=body
    )
    assert whole["choices"][0]["text"] == "a "


def test_a_plain_stream_with_stop_strings_needs_its_memory() -> None:
    stream = Streamer(derenderer(), chat_request={**CHAT, "stop": "STOP"})
    stream.send(chunk(encode("a ST")))
    assert stream.state is not None
    lost = {**stream.state, "parser_state": None}
    error = refusal(
        derenderer(), stream=True, generate_chunk=chunk([9707]), stream_state=lost, **stream.requests
    )
    assert error.status == 400
    assert "parser_state" in error.message


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("stop", ["</think>", "tool", ' "get', "there", "\n\nhello", "call>\n{"])
def test_stop_strings_are_looked_for_in_the_markup(stop: str, include: bool) -> None:
    server = derenderer(reasoning="qwen3", tools="hermes")
    text = (
        "<think>\nab\n</think>\n\nhello there<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    )
    requests: Json = {
        "chat_request": {**TOOL_CHAT, "stop": stop, "include_stop_str_in_output": include},
        "prompt_token_ids": encode("<|im_start|>assistant\n"),
    }
    ids = [*encode(text), EOS]
    whole = chat(server, generate_response=response(ids), **requests)
    assert whole["choices"][0]["stop_reason"] == stop
    for size in (1, 2, 3, 7, 99):
        sent = Streamer(server, **requests).send_all(chunks(ids, [size] * 99))
        assert put_together(sent)["choices"] == shape(whole)["choices"]


ALPHABET = st.text(alphabet="ab", max_size=3)


def reference(pieces: list[str], stops: list[str], min_tokens: int) -> tuple[str, str | None]:
    """Contract E.4, step 2, to the letter."""
    head, text = len("".join(pieces[:min_tokens])), "".join(pieces)
    if head == len(text):
        return text, None
    found = []
    for stop in stops:
        start = text.find(stop, max(head - len(stop) + 1, 0))
        if start >= 0:
            found.append((start + len(stop), stops.index(stop), stop))
    if not found:
        return text, None
    end, _, stop = min(found)
    return text[: end - len(stop)], stop


@settings(max_examples=400, deadline=None)
@given(
    pieces=st.lists(ALPHABET, max_size=9),
    stops=st.lists(ALPHABET.filter(bool), min_size=1, max_size=3),
    min_tokens=st.integers(0, 4),
    sizes=st.lists(st.integers(1, 4), max_size=9),
    markers=st.sets(st.integers(0, 8)),
)
def test_any_grouping_finds_the_same(
    pieces: list[str], stops: list[str], min_tokens: int, sizes: list[int], markers: set[int]
) -> None:
    lexemes = [Marker(piece) if at in markers and piece else piece for at, piece in enumerate(pieces)]
    groups, start = [], 0
    for size in sizes:
        groups.append(lexemes[start : start + size])
        start += size
    groups.append(lexemes[start:])
    kept: list[str] = []
    held: list[str] = []
    before, matched = 0, None
    for number, group in enumerate(groups):
        search = StopSearch(stops, min_tokens=min_tokens, held=held)
        kept += search.feed(group, tokens_before=before, final=number == len(groups) - 1)
        held, matched = search.held, search.matched
        before += len(group)
        if matched is not None:
            break
    assert ("".join(kept), matched) == reference(pieces, stops, min_tokens)
    if matched is None:
        whole = [lexeme for lexeme in kept if not isinstance(lexeme, Rest)]
        assert len(whole) == len(lexemes)  # one lexeme a token
        assert [x for x in kept if isinstance(x, Marker)] == [x for x in lexemes if isinstance(x, Marker)]


def test_the_models_own_end_token_is_no_stop_reason() -> None:
    """An engine that loads no tokenizer reports it as one."""
    eos = 151645
    assert finished([*encode("done"), eos], {}, stop_reason=eos) == ("done", None)
    assert finished([*encode("done"), eos], {"ignore_eos": True}, stop_reason=eos) == ("done", eos)
