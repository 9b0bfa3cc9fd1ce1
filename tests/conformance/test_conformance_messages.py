"""Streams of the messages API put together, and what is wrong with the order of their events."""

from __future__ import annotations

from typing import Any

import pytest

from renderd.conformance.formats import assembly, outline

Json = dict[str, Any]

MESSAGE: Json = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "x",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 0},
}
START: Json = {"type": "message_start", "message": MESSAGE}
END: Json = {
    "type": "message_delta",
    "delta": {"stop_reason": "tool_use", "stop_sequence": None},
    "usage": {"output_tokens": 7},
}
STOP: Json = {"type": "message_stop"}
THINKING: Json = {"type": "thinking", "thinking": "", "signature": ""}
CALL: Json = {"type": "tool_use", "id": "t", "name": "ping", "input": {}}


def begin(index: int, block: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **said: str) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **said}}


def end(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


WHOLE = [
    START,
    begin(0, THINKING),
    delta(0, "thinking_delta", thinking="H"),
    delta(0, "thinking_delta", thinking="m"),
    delta(0, "signature_delta", signature="s"),
    end(0),
    begin(1, CALL),
    delta(1, "input_json_delta", partial_json='{"a": '),
    delta(1, "input_json_delta", partial_json="1}"),
    end(1),
    END,
    STOP,
]


def test_a_stream_is_what_the_message_says() -> None:
    made = assembly(WHOLE)
    content = [{**THINKING, "thinking": "Hm", "signature": "s"}, {**CALL, "input": {"a": 1}}]
    usage = {"input_tokens": 3, "output_tokens": 7}
    assert made.answer() == outline(MESSAGE | {"content": content, "stop_reason": "tool_use", "usage": usage})
    assert made.faults == []


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        (WHOLE[1:], "content_block_start where the message has not started"),
        ([START, *WHOLE], "message_start where the message has started"),
        (WHOLE[:-1], "never stopped"),
        ([*WHOLE, STOP], "message_stop after message_stop"),
        ([*WHOLE[:-1], begin(2, CALL), STOP], "content_block_start after message_delta"),
        ([*WHOLE[:9], *WHOLE[10:]], "message_delta in a content block"),
        ([*WHOLE[:5], *WHOLE[6:]], "content block 1 started behind 1"),
        ([*WHOLE[:6], *WHOLE[7:]], "input_json_delta for content block 1"),
        ([*WHOLE[:2], WHOLE[4], WHOLE[2], *WHOLE[5:]], "thinking_delta behind the signature"),
        ([*WHOLE[:2], delta(0, "text_delta", text="x"), *WHOLE[5:]], "text_delta for content block 0"),
        ([START, begin(0, {**THINKING, "thinking": "x"}), *WHOLE[2:]], "content block 0 starts with content"),
        ([*WHOLE[:6], end(0), *WHOLE[6:]], "content block 0 stopped"),
        ([*WHOLE[:1], {"type": "ping"}, *WHOLE[1:]], "type is 'ping'"),
    ],
)
def test_faults(events: list[Json], fault: str) -> None:
    made = assembly(events) if events[0] is START else assembly([START])
    if events[0] is not START:
        made = type(made)()
        for event in events:
            made.add(event)
    made.answer()
    assert fault in made.faults
