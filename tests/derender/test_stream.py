"""Streamed answers (contract E.2, E.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.derender.support import (
    CHAT,
    EOS,
    NOW,
    PROMPT,
    TOOL_CHAT,
    Json,
    Streamer,
    chat,
    chunk,
    chunks,
    derenderer,
    encode,
    model,
    put_together,
    received,
    refusal,
    response,
    text_of,
)

CALLS = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
)
CLOSED = "<think>\n\n</think>\n\n"


def parsing(request: Json | None = None, **body: Any) -> Streamer:
    requests = {"chat_request": request or TOOL_CHAT, "prompt_token_ids": PROMPT, **body}
    return Streamer(derenderer(reasoning="qwen3", tools="hermes"), **requests)


def deltas(sent: list[Json]) -> list[Json]:
    """What each chunk says, nulls left out."""
    return [{k: v for k, v in part["choices"][0]["delta"].items() if v is not None} for part in sent]


def test_the_worked_plain_stream() -> None:
    stream = Streamer(derenderer(), prompt_token_ids=[872, 198, 6023])
    sent = stream.send(chunk([9707, 289, 2956]))
    assert NOW < sent["created"] < NOW + 10_000
    assert json.dumps(sent | {"created": 1}) == json.dumps(
        {
            "id": "rq",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "qwen3",
            "choices": [
                {
                    "index": 0,
                    "delta": {"role": "assistant", "content": "Hello wö", "reasoning": None},
                    "logprobs": None,
                    "finish_reason": None,
                    "stop_reason": None,
                    "token_ids": None,
                    "weight_versions": None,
                }
            ],
            "usage": None,
            "system_fingerprint": None,
            "prompt_token_ids": None,
            "prompt_text": None,
            "metrics": None,
            "kv_transfer_params": None,
        }
    )
    assert stream.state is not None
    assert stream.state | {"parser_state": None} == {
        "prev_tokens": ["Ã¶"],
        "prefix_offset": 0,
        "read_offset": 1,
        "role_sent": True,
        "logprob_context_token_ids": [9707, 289, 2956],
        "logprob_text_offset": 0,
        "output_token_ids": [],
        "output_chunk_lens": [],
        "tools_streamed": False,
        "last_tool_call_ids": [],
        "parser_state": None,
    }
    before = stream.state
    end = stream.send(chunk([EOS], finish_reason="stop"))
    assert deltas([end]) == [{}]
    assert end["choices"][0]["finish_reason"] == "stop"
    assert stream.state is not None
    assert stream.state["prev_tokens"] == before["prev_tokens"]


def test_the_worked_parsed_stream() -> None:
    ids = [*encode("<think>\nab cd\n</think>\n\nhello there"), EOS]
    sent = parsing(CHAT).send_all(chunks(ids, [1] * 20))
    assert deltas(sent) == [
        {"role": "assistant"},
        {"reasoning": "\n"},
        {"reasoning": "ab"},
        {"reasoning": " cd"},
        {"reasoning": "\n"},
        {},
        {"content": "\n\n"},
        {"content": "hello"},
        {"content": " there"},
        {},
    ]
    assert [part["choices"][0]["finish_reason"] for part in sent] == [None] * 9 + ["stop"]


def test_completion_chunk() -> None:
    stream = Streamer(
        derenderer(), "completion", completion_request={"prompt": "p", "return_token_ids": True}
    )
    sent = stream.send({**chunk([9707]), "prompt_token_ids": [1, 2], "metrics": {"a": 1}})
    assert json.dumps(sent | {"created": 1}) == json.dumps(
        {
            "id": "rq",
            "object": "text_completion",
            "created": 1,
            "model": "qwen3",
            "choices": [
                {
                    "index": 0,
                    "text": "Hello",
                    "logprobs": None,
                    "finish_reason": None,
                    "stop_reason": None,
                    "prompt_token_ids": [1, 2],
                    "token_ids": [9707],
                    "weight_versions": None,
                }
            ],
            "usage": None,
            "system_fingerprint": None,
            "metrics": {"a": 1},
            "kv_transfer_params": None,
        }
    )
    assert stream.send(chunk([289], finish_reason="length"))["choices"][0]["finish_reason"] == "length"


def test_call_deltas() -> None:
    sent = parsing().send_all(chunks([*encode(CLOSED + CALLS), EOS], [1] * 99))
    calls = [call for part in sent for call in part["choices"][0]["delta"].get("tool_calls", ())]
    starts, rest = ([call for call in calls if ("id" in call) is begun] for begun in (True, False))
    assert [list(call) for call in starts] == [["id", "type", "index", "function"]] * 2
    assert [call["function"]["name"] for call in starts] == ["get_weather", "ping"]
    assert [call["type"] for call in starts] == ["function", "function"]
    assert all(
        list(call) == ["index", "function"] and list(call["function"]) == ["arguments"] for call in rest
    )
    assert sent[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("size", [1, 3, 999])
def test_the_client_of_openai_reads_a_stream_with_calls(size: int) -> None:
    """Its helper puts the news of a call together key by key."""
    ids = [*encode(CLOSED + "Look. " + CALLS), EOS]
    sent = parsing().send_all(chunks(ids, [size] * 999))
    said = chat(
        derenderer(reasoning="qwen3", tools="hermes"),
        chat_request=TOOL_CHAT,
        prompt_token_ids=PROMPT,
        generate_response=response(ids, finish_reason="stop"),
    )["choices"][0]["message"]
    message = received(sent)
    assert message.content == said["content"]
    calls = [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls or ()]
    for call in calls:
        call["function"] = {key: call["function"][key] for key in ("name", "arguments")}
    assert calls == said["tool_calls"]


@pytest.mark.parametrize("size", [1, 2, 999])
@pytest.mark.parametrize(("stop", "reason"), [(EOS, None), (151643, 151643)])
def test_the_finish_may_come_behind_the_stop_token(size: int, stop: int, reason: int | None) -> None:
    ids = [*encode(CLOSED + "Look."), stop]
    events = [*chunks(ids, [size] * 99, None), chunk([], finish_reason="stop")]
    sent = parsing().send_all(events)
    (choice,) = put_together(sent)["choices"]
    assert choice["message"]["content"] == "\n\nLook."
    assert sent[-1]["choices"][0]["stop_reason"] == reason


def test_a_stop_token_that_does_not_stop_is_text() -> None:
    ids = [*encode(CLOSED + "Look."), EOS]
    for finish in ([chunk([], finish_reason="length")], [chunk(encode("!"), finish_reason="length")]):
        sent = parsing().send_all([*chunks(ids, [1] * 99, None), *finish])
        text = "\n\nLook.<|im_end|>" + ("!" if finish[0]["choices"][0]["token_ids"] else "")
        assert text_of(sent) == text


@pytest.mark.parametrize("route", ["chat", "completion"])
def test_each_choice_has_a_state_of_its_own(route: str) -> None:
    stream = Streamer(derenderer(), route)
    stream.send(chunk(encode("Hi")))
    other = {"stream": True, "stream_state": stream.state, "generate_chunk": chunk(encode("Ho"), index=1)}
    error = refusal(derenderer(), route, **other)
    assert (error.status, "choice 0, not of choice 1" in error.message) == (400, True)
    stream.send({"request_id": "rq", "choices": []})
    stream.send(chunk(encode("Ha"), finish_reason="stop"))


def test_news_of_one_call_in_one_chunk_are_one_entry() -> None:
    (sent,) = parsing().send_all(chunks([*encode(CLOSED + CALLS), EOS], [999]))
    first, second = sent["choices"][0]["delta"]["tool_calls"]
    assert first["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert second["function"] == {"name": "ping", "arguments": "{}"}
    assert (first["index"], second["index"]) == (0, 1)


def test_parallel_tool_calls_off() -> None:
    sent = parsing({**TOOL_CHAT, "parallel_tool_calls": False}).send_all(
        chunks([*encode(CLOSED + CALLS), EOS], [1] * 99)
    )
    message = put_together(sent)["choices"][0]["message"]
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["get_weather"]
    assert all("tool_calls" not in delta or delta["tool_calls"] for delta in deltas(sent))


@pytest.mark.parametrize(
    ("choice", "finish"),
    [
        ("none", "stop"),
        ({"type": "function", "function": {"name": "ping"}}, "stop"),
        ("required", "tool_calls"),
    ],
)
def test_tool_choice_and_finish(choice: Any, finish: str) -> None:
    stream = parsing({**TOOL_CHAT, "tool_choice": choice})
    sent = stream.send_all(chunks([*encode(CLOSED + CALLS), EOS], [1] * 99))
    assert sent[-1]["choices"][0]["finish_reason"] == finish
    assert stream.state is not None
    assert stream.state["tools_streamed"] == (choice != "none")
    called = any("tool_calls" in delta for delta in deltas(sent))
    assert called == (choice != "none")


def test_hidden_reasoning() -> None:
    stream = parsing({**CHAT, "include_reasoning": False, "return_token_ids": True})
    sent = stream.send_all(chunks([*encode("<think>\nab</think>c"), EOS], [1] * 99))
    assert not any("reasoning" in delta for delta in deltas(sent))
    assert all(part["choices"][0]["token_ids"] is None for part in sent)
    assert "".join(delta.get("content", "") for delta in deltas(sent)) == "c"


def test_the_role_comes_with_the_first_choice() -> None:
    stream = Streamer(derenderer())
    usage = {"prompt_tokens": 1, "total_tokens": 1, "completion_tokens": 0}
    assert stream.send({"request_id": "rq", "choices": [], "usage": usage})["choices"] == []
    assert deltas([stream.send(chunk([]))]) == [{"role": "assistant"}]
    assert deltas([stream.send(chunk(None, finish_reason="stop"))]) == [{}]


def test_a_finish_without_ids() -> None:
    stream = parsing()
    assert deltas([stream.send(chunk([], finish_reason="abort"))]) == [{"role": "assistant"}]
    stream = parsing(tools=None)
    ids = encode(CLOSED + "a <tool")
    sent = [*stream.send_all([chunk(ids)]), stream.send(chunk([], finish_reason="length"))]
    assert "".join(delta.get("content", "") for delta in deltas(sent)).strip() == "a <tool"


def test_usage() -> None:
    usage = {"prompt_tokens": 9, "total_tokens": 19, "completion_tokens": 10}
    stream = parsing(CHAT, prompt_tokens=5)
    ids = [*encode("<think>\nab cd\n</think>\n\nhello there"), EOS]
    sent = stream.send_all([*chunks(ids, [3] * 9), {"request_id": "rq", "choices": [], "usage": usage}])
    assert all(part["usage"] is None for part in sent[:-1])
    assert sent[-1]["usage"] == {
        "prompt_tokens": 5,
        "total_tokens": 15,
        "completion_tokens": 10,
        "prompt_tokens_details": None,
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    plain = Streamer(derenderer()).send({**chunk([9707]), "usage": usage})
    assert plain["usage"]["prompt_tokens"] == 9
    assert plain["usage"]["completion_tokens_details"] is None


def test_reasoning_tokens_of_several_choices_are_not_known() -> None:
    usage = {"prompt_tokens": 9, "total_tokens": 19, "completion_tokens": 10}
    stream = parsing({**CHAT, "n": 2})
    own = stream.send({**chunk(encode("<think>\nab")), "usage": usage})
    assert own["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    total = stream.send({"request_id": "rq", "choices": [], "usage": usage})
    assert total["usage"]["completion_tokens_details"] is None


def test_returned_ids() -> None:
    stream = Streamer(derenderer(), chat_request={**CHAT, "return_token_ids": True})
    sent = stream.send({**chunk([9707]), "prompt_token_ids": [1]})
    assert (sent["prompt_token_ids"], sent["choices"][0]["token_ids"]) == ([1], [9707])


@pytest.mark.parametrize("route", ["chat", "completion"])
def test_one_choice_a_chunk(route: str) -> None:
    two = {"request_id": "rq", "choices": [{"index": 0}, {"index": 1}]}
    error = refusal(derenderer(), route, stream=True, generate_chunk=two)
    end = " (got 2)." if route == "chat" else ""
    assert error.message == f"derender_{route}_stream expects at most one choice per chunk{end}"


def test_parsers_need_request_and_prompt() -> None:
    server = derenderer(reasoning="qwen3", tools="hermes")
    error = refusal(server, stream=True, generate_chunk=chunk([1]), prompt_token_ids=[1])
    assert error.message.startswith("chat_request is required when a tool or reasoning parser is configured")
    error = refusal(server, stream=True, generate_chunk=chunk([1]), chat_request=CHAT)
    assert error.message.startswith(
        "prompt_token_ids is required when a tool or reasoning parser is configured"
    )


@pytest.mark.parametrize("route", ["chat", "completion"])
def test_length(route: str) -> None:
    stream = Streamer(derenderer(), route, prompt_token_ids=[1] * 4090)
    stream.send(chunk([9707] * 4))
    body: Json = {"stream": True, "stream_state": stream.state, **stream.requests}
    error = refusal(derenderer(), route, generate_chunk=chunk([9707] * 10), **body)
    assert error.message == (
        "prompt_token_ids length (4090) plus output_token_ids length (4) plus delta (10) exceeds "
        "max_model_len (4096)."
    )


def test_prompt_longer_than_the_window() -> None:
    error = refusal(
        derenderer(), "completion", stream=True, generate_chunk=chunk([1]), prompt_token_ids=[1] * 4097
    )
    assert error.message == "prompt_token_ids length (4097) exceeds max_model_len (4096)."


def test_unknown_model() -> None:
    error = refusal(derenderer(), stream=True, generate_chunk=chunk([1]), model="other")
    assert error.status == 404
    stream = Streamer(derenderer(), model="qwen3")
    assert stream.send(chunk([1]))["model"] == model().served_names[0]
