"""Ids of logprobs become text (contract E.5)."""

from __future__ import annotations

from typing import Any

from renderd.derender.logprobs import LogprobDecoder
from renderd.wire.generate import ChoiceLogprobs, TokenLogprob, TopLogprob
from tests.derender.support import (
    CHAT,
    Json,
    Streamer,
    chat,
    chunk,
    completion,
    derenderer,
    encode,
    model,
    response,
)

GLOBE = [64, *encode(" 🌍")]


def entries(ids: list[int], tops: int = 0) -> Json:
    return {
        "content": [
            {
                "token_id": i,
                "logprob": -0.5,
                "rank": 1,
                "top_logprobs": [{"token_id": i, "logprob": -0.5, "rank": 1}] * tops,
            }
            for i in ids
        ]
    }


def chat_logprobs(ids: list[int], request: Json | None = None, tops: int = 0) -> Any:
    body: Json = {"generate_response": response(ids, logprobs=entries(ids, tops))}
    if request is not None:
        body["chat_request"] = {**CHAT, **request}
    return chat(derenderer(), **body)["choices"][0]["logprobs"]


def test_a_split_character_belongs_to_its_last_token() -> None:
    found = chat_logprobs(GLOBE)["content"]
    assert [entry["token"] for entry in found] == ["a", "", "", " 🌍"]
    assert [entry["bytes"] for entry in found] == [[97], [], [], [32, 240, 159, 140, 141]]
    assert list(found[0]) == ["token", "logprob", "bytes", "top_logprobs"]


def test_special_and_unknown_ids() -> None:
    found = chat_logprobs([151645, 10**7])["content"]
    assert [(entry["token"], entry["bytes"]) for entry in found] == [
        ("<|im_end|>", list(b"<|im_end|>")),
        ("", None),
    ]


def test_how_many_candidates_are_shown() -> None:
    def count(request: Json | None) -> int:
        return len(chat_logprobs([64], request, tops=5)["content"][0]["top_logprobs"])

    assert count(None) == 5
    assert count({}) == 5
    assert count({"logprobs": True}) == 0
    assert count({"logprobs": True, "top_logprobs": 2}) == 2
    assert count({"logprobs": True, "top_logprobs": -1}) == 5
    assert count({"logprobs": True, "top_logprobs": 2, "logprob_token_ids": [1]}) == 5


def test_completion_shape() -> None:
    def ask(request: Json | None) -> Any:
        generated = response([9707, 289], logprobs={"content": [entry, {"token_id": 289, "logprob": -1.0}]})
        body: Json = {"generate_responses": [generated]}
        if request:
            body["completion_request"] = {"prompt": "p", **request}
        return completion(derenderer(), **body)["choices"][0]["logprobs"]

    tops = [{"token_id": i, "logprob": -float(i)} for i in (64, 65, 66)]
    entry = {"token_id": 9707, "logprob": -0.5, "top_logprobs": tops}
    found = ask(None)
    assert found["text_offset"] == [0, 5]
    assert found["tokens"] == ["Hello", " w"]
    assert found["token_logprobs"] == [-0.5, -1.0]
    assert found["top_logprobs"] == [{"a": -64.0, "b": -65.0, "c": -66.0}, None]
    assert ask({"logprobs": 1})["top_logprobs"] == [{"a": -64.0, "b": -65.0}, None]


def test_no_content() -> None:
    nothing = {"content": None}
    answer = chat(derenderer(), generate_response=response([64], logprobs=nothing))
    assert answer["choices"][0]["logprobs"] == {"content": None}
    answer = completion(derenderer(), generate_responses=[response([64], logprobs=nothing)])
    empty: Json = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    assert answer["choices"][0]["logprobs"] == empty


def test_the_stream_carries_four_tokens_of_context() -> None:
    stream = Streamer(derenderer())
    sent = [stream.send(chunk([i], logprobs=entries([i]))) for i in GLOBE]
    assert [part["choices"][0]["logprobs"]["content"][0]["token"] for part in sent] == ["a", "", "", " 🌍"]
    assert stream.state is not None
    assert stream.state["logprob_context_token_ids"] == GLOBE


def test_offsets_of_a_completion_stream() -> None:
    stream = Streamer(derenderer(), "completion")
    first = stream.send(chunk(encode("Hello there"), logprobs=entries(encode("Hello there"))))
    assert first["choices"][0]["logprobs"]["text_offset"] == [0, 5]
    assert stream.state is not None
    assert stream.state["logprob_text_offset"] == 11
    stream.send(chunk(encode(" you")))
    assert stream.state["logprob_text_offset"] == 15
    last = stream.send(chunk([151645], logprobs=entries([151645]), finish_reason="stop"))
    assert last["choices"][0]["logprobs"]["text_offset"] == [15]
    assert stream.state["logprob_text_offset"] == 25


def test_hidden_reasoning_hides_logprobs() -> None:
    request = {**CHAT, "logprobs": True, "include_reasoning": False}
    body: Json = {"chat_request": request, "prompt_token_ids": [1]}
    server = derenderer(reasoning="qwen3")
    generated = response([64], logprobs=entries([64]))
    assert chat(server, generate_response=generated, **body)["choices"][0]["logprobs"] is None
    sent = Streamer(server, **body).send(chunk([64], logprobs=entries([64])))
    assert sent["choices"][0]["logprobs"] is None


def test_leading_blanks_of_a_metaspace_tokenizer() -> None:
    decoder = LogprobDecoder(model("gemma3").tokenizer)
    ids = encode("a b  c", "gemma3")
    found = decoder.chat(
        ChoiceLogprobs([TokenLogprob(i, 0.0, None, [TopLogprob(i, 0.0)]) for i in ids]), None, ()
    )
    assert found is not None
    assert found.content is not None
    assert "".join(entry.token for entry in found.content) == "a b  c"
