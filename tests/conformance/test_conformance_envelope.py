"""What stands around the news of a chunk."""

from __future__ import annotations

from typing import Any

import pytest

from renderd.conformance.envelope import differing_frames, differing_usage, faults, provisional, usage_fault

CHUNK: dict[str, Any] = {
    "id": "x",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "a"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
NAMED = {"id": "x", "model": "m"}


def test_a_right_chunk_has_no_fault() -> None:
    assert list(faults([CHUNK], "m", "x")) == []
    for event in ({"type": "message_stop"}, {"message": NAMED}, {"response": NAMED | {"created_at": 1}}):
        assert list(faults([event], "m", "x")) == []


@pytest.mark.parametrize(
    "change",
    [
        {"id": "y"},
        {"model": "n"},
        {"created": "now"},
        {"created": -1},
        {"foo": 1},
        {"usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": -3}},
        {"choices": [{"index": 0, "bar": 1}]},
        {"choices": [{"index": 0, "stop_reason": 7}]},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "a"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "input": {}}]}}]},
    ],
)
def test_each_fault_is_one_sentence(change: dict[str, Any]) -> None:
    assert len(list(faults([CHUNK | change], "m", "x"))) == 1


@pytest.mark.parametrize(
    "event",
    [
        {"message": NAMED | {"id": "y"}},
        {"message": NAMED | {"model": "n"}},
        {"response": NAMED | {"id": "y", "created_at": 1}},
        {"response": NAMED | {"created_at": "now"}},
        {"response": NAMED},
    ],
)
def test_events_name_the_answer_as_chunks_do(event: dict[str, Any]) -> None:
    assert len(list(faults([event], "m", "x"))) == 1


def counted(tokens: int, prompt: int = 3, **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    return CHUNK | {"usage": usage | more}


def reasoned(tokens: int, reasoning: Any) -> dict[str, Any]:
    return counted(tokens, completion_tokens_details={"reasoning_tokens": reasoning})


def usages(recorded: list[dict[str, Any]], own: list[dict[str, Any]], whole: Any = None) -> list[str]:
    return [kind for kind, _ in differing_usage(recorded, [CHUNK] * len(own), own, whole)]


def test_counts_are_those_recorded_after_as_many_tokens() -> None:
    none = CHUNK | {"usage": None}
    assert usages([CHUNK], [CHUNK]) == []
    assert usages([CHUNK], [counted(2)]) == []
    assert len(usages([CHUNK], [counted(1, prompt=7)])) == 2
    assert len(usages([CHUNK], [counted(2, prompt=7)])) == 2
    assert len(usages([CHUNK], [none])) == 1
    assert usages([none], [counted(1, prompt=7)]) == []
    assert list(differing_usage([CHUNK], [none], [none], None)) == []


@pytest.mark.parametrize(
    "wrong", [reasoned(2, 0), reasoned(2, 2), reasoned(2, None), counted(2), reasoned(3, 3)]
)
def test_tokens_of_reasoning_are_those_recorded(wrong: dict[str, Any]) -> None:
    theirs = [reasoned(1, 1), reasoned(2, 1), reasoned(4, 2)]
    whole = theirs[-1]["usage"]
    assert usages(theirs, [reasoned(1, 1), reasoned(2, 1), reasoned(3, 2)], whole) == []
    assert len(usages(theirs, [wrong], whole)) == 1


@pytest.mark.parametrize("wrong", [reasoned(4, 3), reasoned(4, None), counted(4), reasoned(1, 2)])
def test_tokens_counted_otherwise_are_no_more_than_in_the_end(wrong: dict[str, Any]) -> None:
    whole = reasoned(4, 2)["usage"]
    assert usages([counted(1), counted(4)], [reasoned(1, 1), reasoned(3, 0), reasoned(4, 2)], whole) == []
    assert [*usages([counted(1), counted(4)], [wrong], whole), *faults([wrong], "m", "x")]


def test_counts_of_reasoning_may_differ_on_the_way_where_that_is_declared() -> None:
    path = ("usage", "completion_tokens_details", "reasoning_tokens")
    assert provisional("plamo3/call-in-reasoning", path)
    assert not provisional("qwen3-hermes/call-in-reasoning", path)
    assert not provisional("plamo3/call-in-reasoning", ("usage", "prompt_tokens"))


def test_tokens_that_nobody_counts_are_not_told_of() -> None:
    assert usages([counted(1)], [reasoned(1, 1)], counted(4)["usage"])


ROLE = CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant"}}], "metrics": None}
FINISH = CHUNK | {
    "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 7}],
    "system_fingerprint": "f",
}
START = {
    "type": "message_start",
    "message": NAMED | {"type": "message", "content": [], "usage": {"input_tokens": 3, "output_tokens": 0}},
}
BLOCK = {
    "type": "content_block_start",
    "index": 0,
    "content_block": {"type": "tool_use", "id": "a", "name": "b", "input": {}},
}
THINKING = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
END = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
    "usage": {"input_tokens": 3, "output_tokens": 9},
}
ITEM = {
    "type": "response.output_item.added",
    "output_index": 0,
    "sequence_number": 2,
    "item": {"type": "message", "id": "a", "role": "assistant", "status": "in_progress", "content": []},
}
PART = {
    "type": "response.content_part.added",
    "content_index": 0,
    "output_index": 0,
    "item_id": "a",
    "part": {"type": "output_text", "text": "", "logprobs": []},
}
TEXT = {
    "type": "response.output_text.delta",
    "content_index": 0,
    "item_id": "a",
    "delta": "x",
    "logprobs": [],
}
RECORDED: list[dict[str, Any]] = [ROLE, CHUNK, FINISH, START, BLOCK, THINKING, END, ITEM, PART, TEXT]


def changed(event: dict[str, Any], key: str, **change: Any) -> dict[str, Any]:
    return event | {key: event[key] | change}


def chosen(chunk: dict[str, Any], **change: Any) -> dict[str, Any]:
    return chunk | {"choices": [chunk["choices"][0] | change]}


def differing(own: dict[str, Any], recorded: list[dict[str, Any]] = RECORDED) -> list[str]:
    return [kind for kind, _ in differing_frames(recorded, [own])]


@pytest.mark.parametrize(
    "own",
    [
        *RECORDED,
        CHUNK | {"choices": [{"index": 2, "delta": {"content": "b"}, "logprobs": None}], "metrics": None},
        FINISH | {"system_fingerprint": None},
        changed(BLOCK, "content_block", id="c", name="d") | {"index": 4},
        changed(THINKING, "content_block", signature=""),
        changed(ITEM, "item", id="c") | {"output_index": 3, "sequence_number": 9},
        TEXT | {"delta": "y", "logprobs": [{"token": "y"}], "item_id": "c"},
        {"type": "of no kind that was recorded", "zzz": 1},
    ],
)
def test_what_stands_around_the_news_may_name_the_answer(own: dict[str, Any]) -> None:
    assert differing(own) == []


@pytest.mark.parametrize(
    "own",
    [
        *(event | {"zzz": "extra"} for event in RECORDED),
        *(CHUNK | {key: "banana"} for key in ("kv_transfer_params", "metrics", "prompt_text")),
        CHUNK | {"system_fingerprint": "banana"},
        FINISH | {"system_fingerprint": ["banana"]},
        chosen(CHUNK, weight_versions="banana"),
        changed(START, "message", type="banana"),
        changed(START, "message", usage={"input_tokens": 4, "output_tokens": 0}),
        changed(START, "message", stop_sequence="banana"),
        changed(START, "message", stop_details="banana"),
        changed(THINKING, "content_block", signature="banana"),
        changed(THINKING, "content_block", thinking=None),
        changed(END, "delta", stop_details="banana"),
        END | {"usage": {"output_tokens": 9}},
        changed(ITEM, "item", status="banana"),
        changed(ITEM, "item", role="banana"),
        changed(PART, "part", text=None),
        PART | {"content_index": 99},
        TEXT | {"content_index": 99},
        TEXT | {"logprobs": None},
        ITEM | {"output_index": 0.0},
        BLOCK | {"index": None},
    ],
)
def test_what_is_the_same_whatever_is_said_is_as_recorded(own: dict[str, Any]) -> None:
    assert len(differing(own)) == 1


def test_chunks_of_a_kind_that_was_not_recorded_have_nothing_around_their_news() -> None:
    usage = CHUNK | {"choices": []}
    for chunk in (CHUNK, FINISH, usage, usage | {"system_fingerprint": "f"}):
        assert differing(chunk, []) == []
    for chunk in (CHUNK | {"metrics": 1}, usage | {"metrics": 1}, chosen(FINISH, weight_versions=1)):
        assert len(differing(chunk, [])) == 1


@pytest.mark.parametrize(
    "details", ["x", {"reasoning_tokens": 2}, {"reasoning_tokens": "a"}, {"a": "banana"}]
)
def test_details_are_counts_of_some_of_the_tokens(details: Any) -> None:
    assert usage_fault(CHUNK["usage"] | {"completion_tokens_details": details})
    assert not usage_fault(CHUNK["usage"] | {"completion_tokens_details": {"reasoning_tokens": 1}})
