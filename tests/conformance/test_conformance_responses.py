"""Streams of the responses API put together, and what is wrong with what their events repeat."""

from __future__ import annotations

from typing import Any

import pytest

from renderd.conformance.formats import assembly, outline

Json = dict[str, Any]

RESPONSE: Json = {
    "id": "r",
    "created_at": 1,
    "model": "m",
    "object": "response",
    "tools": [],
    "incomplete_details": None,
    "output": [],
    "status": "in_progress",
    "usage": None,
}
LOGPROB: Json = {"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "a", "logprob": -1.0}]}
WITH_BYTES: Json = {**LOGPROB, "bytes": [97], "top_logprobs": [{**LOGPROB["top_logprobs"][0], "bytes": [97]}]}
PART: Json = {"type": "output_text", "annotations": [], "text": "a", "logprobs": [WITH_BYTES]}
MESSAGE: Json = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [PART]}
CALL: Json = {"id": "c", "type": "function_call", "name": "ping", "status": "completed", "arguments": "{}"}


def event(kind: str, item: int = 0, **more: Any) -> Json:
    item_id = (MESSAGE, CALL)[item]["id"]
    return {"type": f"response.{kind}", "output_index": item, "item_id": item_id, **more}


EVENTS = [
    {"type": "response.created", "response": RESPONSE},
    {"type": "response.in_progress", "response": RESPONSE},
    event("output_item.added", item=0) | {"item": MESSAGE | {"content": [], "status": "in_progress"}},
    event("content_part.added", part=PART | {"text": "", "logprobs": []}),
    event("output_text.delta", delta="a", logprobs=[LOGPROB]),
    event("output_text.done", text="a", logprobs=[]),
    event("content_part.done", part=PART),
    event("output_item.done") | {"item": MESSAGE},
    event("output_item.added", 1) | {"item": CALL | {"arguments": "", "status": "in_progress"}},
    event("function_call_arguments.delta", 1, delta="{}"),
    event("function_call_arguments.done", 1, arguments="{}", name="ping"),
    event("output_item.done", 1) | {"item": CALL},
    {
        "type": "response.completed",
        "response": RESPONSE
        | {"status": "completed", "output": [MESSAGE, CALL], "usage": {"total_tokens": 3}},
    },
]


def faults(changes: dict[int, Json]) -> list[str]:
    events = [
        {**one, **changes.get(number, {}), "sequence_number": number} for number, one in enumerate(EVENTS)
    ]
    made = assembly(events)
    made.answer()
    return made.faults


def test_a_stream_is_what_the_response_says() -> None:
    made = assembly([{**one, "sequence_number": number} for number, one in enumerate(EVENTS)])
    assert made.answer() == outline(EVENTS[-1]["response"])
    assert made.faults == []


@pytest.mark.parametrize(
    ("at", "change", "fault"),
    [
        (0, {"response": RESPONSE | {"tools": "banana"}}, "tools changed"),
        (0, {"response": RESPONSE | {"zzz": 1}}, "zzz changed"),
        (0, {"response": RESPONSE | {"usage": "banana"}}, "response.created has output or is over"),
        (0, {"response": RESPONSE | {"created_at": 1.0}}, "created_at changed"),
        (1, {"response": RESPONSE | {"object": "x"}}, "object changed"),
        (1, {"response": RESPONSE | {"output": [CALL]}}, "response.in_progress has output or is over"),
        (2, {"item": MESSAGE | {"content": [], "role": "banana"}}, "item 0 done"),
        (0, {"response": RESPONSE | {"output": None}}, "response.created has output or is over"),
        (3, {"part": PART | {"type": "banana"}}, "a part is done that is not the one added"),
        (4, {"item_id": "c"}, "response.output_text.delta of no open item"),
        (4, {"delta": "b"}, "response.output_text.done repeats another text"),
        (4, {"logprobs": []}, "the deltas have other logprobs than their part"),
        (4, {"logprobs": [LOGPROB | {"logprob": -2.0}]}, "the deltas have other logprobs than their part"),
        (6, {"part": PART | {"annotations": ["banana"]}}, "item 0 has other parts than were done"),
        (10, {"name": "pong"}, "response.function_call_arguments.done names another call"),
        (11, {"item": CALL | {"namespace": "wx"}}, "item 1 done"),
    ],
)
def test_faults(at: int, change: Json, fault: str) -> None:
    assert fault in faults({at: change})
