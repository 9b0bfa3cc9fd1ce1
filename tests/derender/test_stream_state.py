"""What travels between two chunks (contract E.7): small, repeatable, the client's, and vLLM's too."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from renderd.derender import DerenderOptions
from renderd.derender.derenderer import Derenderer
from renderd.wire.errors import ApiError
from renderd.wire.state import pack
from tests.derender.support import (
    CHAT,
    EOS,
    PING,
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
    refusal,
    response,
    shape,
    text_of,
)

OUTPUT = [
    *encode(
        "<think>\nLet me see 🌍.\n</think>\n\nOf course.\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich 🏔", "days": 3}}\n</tool_call>'
        '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    ),
    EOS,
]
REQUESTS: Json = {"chat_request": TOOL_CHAT, "prompt_token_ids": PROMPT}
REPLAYABLE = DerenderOptions(replayable=True)


def server(options: DerenderOptions | None = None) -> Derenderer:
    return derenderer("qwen3", "qwen3", "hermes", options or DerenderOptions())


def whole(requests: Json = REQUESTS) -> Json:
    return chat(server(), generate_response=response(OUTPUT), **requests)


def resend(body: bytes, to: Derenderer, **changes: Any) -> Json:
    answer: Json = json.loads(to.chat(json.dumps({**json.loads(body), **changes}).encode()))
    return answer


def test_later_chunks_need_neither_request_nor_prompt() -> None:
    stream = Streamer(server(), **REQUESTS)
    first, *rest = chunks(OUTPUT, [1] * 200)
    sent = [stream.send(first)]
    stream.requests = {}
    sent += stream.send_all(rest)
    assert put_together(sent)["choices"] == shape(whole())["choices"]


def test_what_is_not_needed_is_not_looked_at() -> None:
    stream = Streamer(server(), **REQUESTS)
    first, second, *_ = chunks(OUTPUT, [1] * 200)
    stream.send(first)
    stream.requests = {"chat_request": {"messages": 7}, "prompt_token_ids": ["x", -1]}
    stream.send(second)


def test_the_same_call_gives_the_same_bytes() -> None:
    stream = Streamer(server(), **REQUESTS)
    stream.send_all(chunks(OUTPUT, [2] * 200))
    for body, answer in list(zip(stream.bodies, stream.answers, strict=True))[1:]:
        assert server().chat(body) == answer
    again = json.loads(server().chat(stream.bodies[0]))
    first = json.loads(stream.answers[0])
    assert again["chunk"] | {"created": 0} == first["chunk"] | {"created": 0}


def test_created_stays() -> None:
    sent = Streamer(server(), **REQUESTS).send_all(chunks(OUTPUT, [1] * 200))
    assert len({part["created"] for part in sent}) == 1


def test_any_replica_will_do() -> None:
    replicas = [derenderer.__wrapped__("qwen3", "qwen3", "hermes") for _ in range(3)]
    stream = Streamer(replicas[0], **REQUESTS)
    sent = []
    for at, event in enumerate(chunks(OUTPUT, [1] * 200)):
        stream.server = replicas[at % 3]
        sent.append(stream.send(event))
    assert put_together(sent)["choices"] == shape(whole())["choices"]


def test_the_state_stays_small() -> None:
    words = encode(" word 🌍") * 300
    text = [*encode("<think>\n"), *words, *encode("</think>"), *words, *OUTPUT[-60:]]
    stream = Streamer(server(), **REQUESTS)
    for event in chunks(text, [1] * len(text)):
        stream.send(event)
        assert len(json.dumps(stream.state)) < 2048


def test_the_history_is_kept_when_vllm_may_take_over() -> None:
    stream = Streamer(server(REPLAYABLE), **REQUESTS)
    stream.send_all(chunks(OUTPUT, [3] * 200))
    assert stream.state is not None
    assert stream.state["output_token_ids"] == OUTPUT
    lens = stream.state["output_chunk_lens"]
    assert set(lens[:-1]) == {3}
    assert stream.state["last_tool_call_ids"] == [
        call["id"] for call in whole()["choices"][0]["message"]["tool_calls"]
    ]
    assert stream.state["tools_streamed"] is True


@pytest.mark.parametrize("fresh", [False, True], ids=["same process", "another"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_client_that_drops_what_it_does_not_know(size: int, fresh: bool) -> None:
    replicas = [derenderer.__wrapped__("qwen3", "qwen3", "hermes", REPLAYABLE) for _ in range(2)]
    stream = Streamer(replicas[0], **REQUESTS)
    sent = []
    for at, event in enumerate(chunks(OUTPUT, [size] * 200)):
        if stream.state is not None:
            stream.state.pop("parser_state")
        stream.server = replicas[at % 2 if fresh else 0]
        sent.append(stream.send(event))
    created = [part.pop("created") for part in sent]
    for part in sent:
        part["created"] = 0
    assert put_together(sent)["choices"] == shape(whole())["choices"]
    assert fresh or len(set(created)) == 1


@pytest.mark.parametrize("size", [1, 3, 40])
def test_an_answer_that_ended_at_a_stop_string_stays_ended_when_its_history_is_replayed(size: int) -> None:
    replicas = [derenderer.__wrapped__("qwen3", "qwen3", "hermes", REPLAYABLE) for _ in range(2)]
    ids = encode("</think>\n\nhello world STOP after it and more STOP")
    stream = Streamer(replicas[0], chat_request={**TOOL_CHAT, "stop": ["STOP"]}, prompt_token_ids=PROMPT)
    sent = []
    for at, event in enumerate([*chunks(ids, [size] * 200, finish=None), chunk(encode(" again"))]):
        if stream.state is not None:
            stream.state.pop("parser_state")
        stream.server = replicas[at % 2]
        sent.append(stream.send(event))
    ended = [choice["finish_reason"] for part in sent for choice in part["choices"]]
    assert text_of(sent).strip() == "hello world"
    assert [reason for reason in ended if reason is not None] == ["stop"] == ended[-1:]


def test_a_history_is_taken_over_at_every_place() -> None:
    """The history of the first chunks is replayed; the calls in it keep the ids that they were given."""
    calls = shape(whole())["choices"][0]["message"]["tool_calls"]
    stream = Streamer(server(REPLAYABLE), **REQUESTS)
    before: list[Json] = []
    for cut, event in enumerate(chunks(OUTPUT, [1] * 200)):
        if stream.state is not None:
            pinned = [f"chatcmpl-tool-{n}" for n, _ in enumerate(stream.state["last_tool_call_ids"])]
            state = {**stream.state, "last_tool_call_ids": pinned}
            del state["parser_state"]
            taken = Streamer(server(), **REQUESTS)
            taken.state = state
            after = taken.send_all([event, *chunks(OUTPUT, [1] * 200)[cut + 1 :]])
            assert taken.state is not None
            assert taken.state["output_token_ids"] == OUTPUT
            said = [call for part in after for call in part["choices"][0]["delta"].get("tool_calls", ())]
            assert [call["id"] for call in said if "id" in call] == [
                call["id"] for call in calls[len(pinned) :]
            ]
            for part in [*before, *after]:
                part["created"] = 0
            assert put_together([*before, *after])["choices"] == shape(whole())["choices"]
        before.append(stream.send(event))


def test_a_call_that_vllm_has_not_announced_yet_is_news() -> None:
    cut = len(OUTPUT) - 40
    stream = Streamer(server(), **REQUESTS)
    stream.state = {
        "role_sent": True,
        "logprob_context_token_ids": OUTPUT[cut - 4 : cut],
        "output_token_ids": OUTPUT[:cut],
        "output_chunk_lens": [cut],
    }
    first, *_ = sent = stream.send_all(chunks(OUTPUT[cut:], [1] * 99))
    calls = [call for part in sent for call in part["choices"][0]["delta"].get("tool_calls", ())]
    assert [call["function"]["name"] for call in calls if "id" in call] == ["get_weather", "ping"]
    assert json.loads(stream.answers[0])["chunk"] == first == resend(stream.bodies[0], server())["chunk"]


def made_by_vllm(ids: list[int], calls: int = 0) -> Json:
    """The state that vLLM returns after these ids, one a chunk."""
    return {
        "role_sent": True,
        "logprob_context_token_ids": ids[-4:],
        "output_token_ids": ids,
        "output_chunk_lens": [1] * len(ids),
        "tools_streamed": calls > 0,
        "last_tool_call_ids": [f"chatcmpl-tool-{n}" for n in range(calls)],
    }


def test_whitespace_that_vllm_has_sent_is_not_sent_again() -> None:
    stream = Streamer(server(), **REQUESTS)
    stream.state = made_by_vllm(encode("<think>\n\n</think>\n\n"))
    sent = stream.send_all(chunks([*encode("\nHello\n\n"), EOS], [1] * 9))
    assert text_of(sent) == "\nHello\n\n"


def test_a_name_that_vllm_has_sent_is_not_sent_again() -> None:
    llama = derenderer("llama3_1", None, "llama3_json")
    text = '{"name": "get_weather", "parameters": {"city": "Oslo"}}'
    ids = encode(text, "llama3_1")
    cut = len(encode('{"name": "get_weather", "', "llama3_1"))
    stream = Streamer(llama, **REQUESTS)
    stream.state = made_by_vllm(ids[:cut], 1)
    sent = stream.send_all(chunks(ids[cut:], [1] * 99))
    calls = [call for part in sent for call in part["choices"][0]["delta"].get("tool_calls", ())]
    assert all("id" not in call and "name" not in call["function"] for call in calls)
    assert "".join(call["function"]["arguments"] for call in calls) == '{"city": "Oslo"}'
    assert sent[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_state_that_lost_its_memory_and_has_no_history() -> None:
    stream = Streamer(server(), **REQUESTS)
    stream.send(chunk(OUTPUT[:3]))
    assert stream.state is not None
    stream.state.pop("parser_state")
    error = refusal(server(), stream=True, generate_chunk=chunk([1]), stream_state=stream.state, **REQUESTS)
    assert (error.status, error.type) == (400, "BadRequestError")
    assert "--stream-state replayable" in error.message


def test_an_empty_state_is_a_beginning() -> None:
    stream = Streamer(server(), **REQUESTS)
    stream.state = {}
    assert put_together(stream.send_all(chunks(OUTPUT, [1] * 200)))["choices"] == shape(whole())["choices"]


GLOBE = encode("Hello wörld 🌍, 🏔!")


def test_a_plain_stream_hops_at_every_place() -> None:
    """vLLM's fields alone carry a plain stream, in the middle of a character too."""
    straight = Streamer(derenderer())
    text = text_of(straight.send_all([chunk([i]) for i in GLOBE]))
    assert text == "Hello wörld 🌍, 🏔!"
    for keep in range(1, 4):
        hopping = Streamer(derenderer())
        sent = []
        for at, token_id in enumerate(GLOBE):
            if hopping.state is not None and at % keep == 0:
                del hopping.state["parser_state"]
            sent.append(hopping.send(chunk([token_id])))
        assert text_of(sent) == text


def test_an_empty_state_does_not_seed_a_plain_stream() -> None:
    ids = encode(" world", "gemma3")
    gemma = derenderer("gemma3")
    seeded = Streamer(gemma, prompt_token_ids=encode("hello", "gemma3"))
    assert text_of([seeded.send(chunk(ids))]) == " world"
    unseeded = Streamer(gemma, prompt_token_ids=encode("hello", "gemma3"))
    unseeded.state = {}
    unseeded.send(chunk(ids))
    assert unseeded.state is not None
    assert len(unseeded.state["prev_tokens"]) == 1


def big_request() -> Json:
    properties = {f"parameter_{n}": {"type": "integer"} for n in range(900)}
    big = {
        "type": "function",
        "function": {"name": "big", "parameters": {"type": "object", "properties": properties}},
    }
    return {**CHAT, "tools": [big, PING]}


def test_a_large_request_stays_with_the_client() -> None:
    coder = derenderer("qwen3", "qwen3", "qwen3_coder")
    requests: Json = {"chat_request": big_request(), "prompt_token_ids": PROMPT}
    ids = [
        *encode(
            "<think>\n</think><tool_call>\n<function=big>\n<parameter=parameter_7>\n12\n</parameter>\n"
            "</function>\n</tool_call>"
        ),
        EOS,
    ]
    stream = Streamer(coder, **requests)
    sent = [stream.send(chunk(ids[:3]))]
    assert len(json.dumps(stream.state)) < 2048
    missing = {"stream": True, "generate_chunk": chunk(ids[3:]), "stream_state": stream.state}
    assert "send the request with every chunk" in refusal(coder, **missing).message
    another = derenderer.__wrapped__("qwen3", "qwen3", "qwen3_coder")
    error = refusal(another, **missing, chat_request=TOOL_CHAT)
    assert "not the one that this stream_state began with" in error.message
    stream.server = another
    sent += stream.send_all(chunks(ids[3:], [1] * 99))
    message = put_together(sent)["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"parameter_7": 12}'


def corrupted(text: str) -> list[str]:
    data = base64.b64decode(text)
    flipped = bytes([*data[:-3], data[-3] ^ 1, *data[-2:]])
    return [
        "",
        "x",
        "é",
        "AAAA",
        "!" + text,
        text[:-1],
        text[: len(text) // 2],
        text + "AAAA",
        base64.b64encode(flipped).decode(),
        base64.b64encode(b"\x07" + data[1:]).decode(),
    ]


def test_a_damaged_state() -> None:
    stream = Streamer(server(), **REQUESTS)
    stream.send(chunk(OUTPUT[:20]))
    assert stream.state is not None
    for text in corrupted(stream.state["parser_state"]):
        state = {**stream.state, "parser_state": text}
        error = refusal(server(), stream=True, generate_chunk=chunk([1]), stream_state=state, **REQUESTS)
        assert error.status == 400
        assert "stream_state" in error.message


@pytest.mark.parametrize("offsets", [(0, 9), (3, 9), (2, 1)])
@pytest.mark.parametrize("route", ["chat", "completion"])
def test_offsets_outside_the_window(route: str, offsets: tuple[int, int]) -> None:
    state = {"prev_tokens": ["a"], "prefix_offset": offsets[0], "read_offset": offsets[1]}
    error = refusal(derenderer(), route, stream=True, generate_chunk=chunk([1]), stream_state=state)
    assert error.message.startswith("invalid stream_state: ")


def test_a_state_of_another_server() -> None:
    stream = Streamer(server(), **REQUESTS)
    stream.send(chunk(OUTPUT[:5]))
    others = {"None None": derenderer(), "qwen3 qwen3_coder": derenderer("qwen3", "qwen3", "qwen3_coder")}
    for has, other in others.items():
        error = refusal(other, stream=True, generate_chunk=chunk([1]), stream_state=stream.state, **REQUESTS)
        made, read = (f"qwen3 {parsers}".encode().hex() for parsers in ("qwen3 hermes", has))
        assert f"made under the fingerprint {made}, and this server has {read}:" in error.message


def test_a_state_of_another_route() -> None:
    stream = Streamer(server(), **REQUESTS)
    stream.send(chunk(OUTPUT[:5]))
    body = {"stream": True, "generate_chunk": chunk([1]), "stream_state": stream.state}
    error = refusal(server(), "completion", **body)
    assert error.message == "invalid stream_state: it is that of a stream of the route chat, not completion"


def test_a_plain_state_that_vllm_handed_on_is_taken_whoever_made_it() -> None:
    """It has lost what would tell."""
    stream = Streamer(derenderer())
    stream.send(chunk(encode("Hello")))
    other = replace(DerenderOptions(), fingerprint="00")
    stream.server = Derenderer(model(), None, other)
    assert stream.state is not None
    body = {"stream": True, "generate_chunk": chunk([1]), "stream_state": dict(stream.state)}
    assert "has 00" in refusal(stream.server, **body).message
    del stream.state["parser_state"]
    assert text_of([stream.send(chunk(encode(" world")))]) == " world"


def packed(values: list[Any]) -> str:
    """Any list, packed as the codec packs a struct."""
    names = [f"f{at}" for at, _ in enumerate(values)]
    return base64.b64encode(pack(msgspec.defstruct("Forged", names, array_like=True)(*values))).decode()


def test_forged_states() -> None:
    """Well-packed nonsense: 400 or an answer, never an exception of another kind."""
    stream = Streamer(server(), **REQUESTS)
    stream.send(chunk(OUTPUT[:35]))
    assert stream.state is not None
    data = base64.b64decode(stream.state["parser_state"])
    honest = msgspec.msgpack.decode(data[5:])
    values: list[Any] = [None, -1, 0, 2**63, "", "x", [], {}, [[]], True, b"", 1.5, ["reasoning"], "content"]
    pick = random.Random(7)

    def forge(value: Any) -> Any:
        if isinstance(value, list) and value and pick.random() < 0.8:
            at = pick.randrange(len(value))
            return [*value[:at], forge(value[at]), *value[at + 1 :]]
        return pick.choice(values)

    refused = 0
    for _ in range(600):
        forged = honest
        for _ in range(pick.randint(1, 2)):
            forged = forge(forged)
        text = packed(forged) if isinstance(forged, list) else "x"
        body = {"stream": True, "stream_state": {**stream.state, "parser_state": text}, **REQUESTS}
        for part in (chunk(OUTPUT[35:40]), chunk([EOS], finish_reason="stop")):
            try:
                server().chat(json.dumps({**body, "generate_chunk": part}).encode())
            except ApiError as error:
                assert error.status == 400
                refused += 1
    assert refused > 100
