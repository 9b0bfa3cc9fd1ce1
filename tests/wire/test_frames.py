"""A body is read as if no other one had been read before, whatever came before."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from renderd.wire.chat import ChatCompletionRequest, ToolDicts, decode_chat_request, tool_dicts
from renderd.wire.decode import parse_object
from renderd.wire.errors import ApiError
from renderd.wire.frames import MOST, Frames

USER = '{"role": "user", "content": "Hi"}'
MESSAGES = [
    *(
        USER,
        '{"content":"a]}\\"","role":"assistant"}',
        '{"role":"user","content":[{"type":"text","text":"x"}]}',
    ),
    '{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f",'
    '"arguments":"{}"}}],"reasoning_content":"r"}',
    '{"role": "tool", "tool_call_id": "1", "content": "22"}',
]
WRONG = [
    *('{"role":"user"', '{"role":1,"content":""}', '{"role":"user","content":1}', "1", "null", "", "]", "{}"),
    *(
        '{"role":"assistant","tool_calls":0}',
        '{"role":"user","content":"\\ud800"}',
        '{"role":"user","x":NaN}',
    ),
    *('{"role":"user","content":"a"}.5', '"messages"', '{"role":"user","content":"\\q"}', "[]", USER + "]"),
]
TOOL = '{"type":"function","function":{"name":"f","parameters":{"type":"object","messages":[1]}}}'
BEFORE = [
    *(
        "{",
        '{"model": "m", ',
        f'{{"stream":true,"tools":[{TOOL}],',
        '{"x":{"messages":[{}]},',
        '{"x":"\\"messages\\":["',
    ),
    *('{"x":"\\"messages\\":[",', '{"messages":[],', f'{{"messages":[{USER}],', "\ufeff{", " {", '{"a":[{'),
]
BEHIND = [
    *("}", f',"tools":[{TOOL}]}}', ', "temperature": 0.5 }', ',"messages":[]}', f',"messages":[{USER}]}}'),
    *(
        ',"n":"2","stream":true}',
        ',"tools":[]}',
        ',"temperature":"hot"}',
        "} ",
        "}}",
        ',"seed":1e400}',
        "",
        ",}",
    ),
    *(',"x":"\xff"}', ',"stop":["a","b"],"x":[1]}', ',"kv_transfer_params":{"a":NaN}}', ',"user":null}'),
]


def read(reader: Any, body: bytes) -> Any:
    try:
        request = reader(body)
    except ApiError as error:
        return error.status, error.body()
    assert isinstance(request, ChatCompletionRequest)
    fields = msgspec.to_builtins(request)
    assert fields.pop("found", {}) == {}
    return fields, tool_dicts(request)


def plainly(body: bytes) -> ChatCompletionRequest:
    return decode_chat_request(parse_object(body))


@pytest.mark.parametrize("seed", range(4))
def test_a_body_is_read_like_the_first_one(seed: int) -> None:
    choose, frames = random.Random(seed), Frames()
    known = 0
    for _ in range(3000):
        messages = choose.choices(MESSAGES, k=choose.randrange(4))
        if choose.random() < 0.2:
            messages.insert(choose.randrange(len(messages) + 1), choose.choice(WRONG))
        before, behind = (
            choose.choice(some[:3] if choose.random() < 0.6 else some) for some in (BEFORE, BEHIND)
        )
        between = choose.choice(["", " ", "\n"])
        text = f'{before}"messages":{between}[{between}{(between + ",").join(messages)}{between}]{behind}'
        body = text.encode("latin-1" if "\xff" in text and "\ufeff" not in text else "utf-8")
        expected = read(plainly, body)
        assert repr(read(frames.read, body)) == repr(expected), body
        known += isinstance(expected[0], dict)
    assert known > 1000


def test_frames_are_few_and_used_ones_stay() -> None:
    frames = Frames()
    for number in range(5 * MOST):
        for user in ("always", f"{number}"):
            frames.read(b'{"messages":[%b],"user":"%b"}' % (USER.encode(), user.encode()))
    assert len(frames._frames) == MOST
    assert any(frame.behind == b'],"user":"always"}' for frame in frames._frames)


def test_nothing_is_remembered_of_a_large_frame_or_by_one_that_must_not() -> None:
    frames = Frames()
    frames.read(b'{"messages":[%b],"user":"%b"}' % (USER.encode(), b"x" * 70_000))
    assert not frames._frames
    frames = Frames(0)
    frames.read(b'{"messages":[%b]}' % USER.encode())
    assert not frames._frames


def test_known_tools_are_the_same_objects() -> None:
    frames, body = Frames(), b'{"messages":[%b],"tools":[%b]}' % (USER.encode(), TOOL.encode())
    first, second = (tool_dicts(frames.read(body)) for _ in range(2))
    assert first is second
    assert isinstance(first, ToolDicts)
    assert set(first.written) >= {id(first[0]), id(first[0]["function"])}
    assert json.loads(json.dumps(first)) == [*first]
