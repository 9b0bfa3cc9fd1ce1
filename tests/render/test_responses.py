"""What `/v1/responses/render` refuses, and what the recorded cases do not show of how it reads its input."""

from __future__ import annotations

from typing import Any

import pytest

from renderd.render.response_items import conversation
from renderd.render.responses import continues
from renderd.wire.chat import NamedToolChoice
from renderd.wire.errors import ApiError
from renderd.wire.responses import as_chat, decode_responses_request

USER = {"role": "user", "content": "hi"}
OUTPUT = {"type": "output_text", "text": "Sun."}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    "item",
    [
        None,
        "hi",
        {},
        {"type": []},
        {"type": "message"},
        {"role": ["user"], "content": "x"},
        {"role": "user", "content": [1]},
        {"role": "user", "content": [{"type": {}}]},
        {"role": "user", "content": [{"type": "input_text", "text": 1}]},
        {"type": "reasoning", "summary": [], "id": []},
        {"type": "reasoning", "summary": [], "encrypted_content": 3},
        {"type": "function_call", "call_id": 1, "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": 1},
        {"type": "function_call_output", "output": ["x"]},
        {"type": "function_call_output", "output": "x", "call_id": []},
        {"type": "custom_tool_call_output", "call_id": "c", "output": 1},
    ],
)
def test_what_is_no_item_is_refused(item: Any) -> None:
    with pytest.raises(ApiError) as refused:
        decode_responses_request({"input": [USER, item]})
    assert (refused.value.status, refused.value.type) == (400, "Bad Request")
    assert (refused.value.param or "").startswith("body.input")


@pytest.mark.parametrize(
    "parts",
    [{"summary": [None]}, {"content": {}}, {"content": [{"type": "text", "text": "r"}]}, {"content": [{}]}],
)
def test_reasoning_of_other_parts_is_not_supported(parts: dict[str, Any]) -> None:
    request = decode_responses_request({"input": [USER, {"type": "reasoning", "summary": [], **parts}]})
    with pytest.raises(ApiError) as refused:
        conversation(request)
    assert (refused.value.type, refused.value.param) == ("BadRequestError", "input")


@pytest.mark.parametrize(
    "content",
    [
        "hi",
        {"a": 1},
        ["hi"],
        [{}],
        [3],
        [OUTPUT, {"type": "input_text", "text": "x"}],
        [{"type": "input_text"}],
    ],
)
def test_answers_of_other_parts_are_refused_when_rendered(content: Any) -> None:
    answer = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    request = decode_responses_request({"input": [USER, answer]})
    with pytest.raises(ApiError) as refused:
        conversation(request)
    assert (refused.value.type, refused.value.param) == ("BadRequestError", None)


@pytest.mark.parametrize(
    ("beside", "whole"),
    [
        ({"annotations": []}, True),
        ({"annotations": [{"type": "file_path", "file_id": "f", "index": 1}]}, True),
        ({"annotations": [{"type": "file_path"}]}, False),
        ({"annotations": [{"type": "zz"}]}, False),
        ({"annotations": [[]]}, False),
        ({"logprobs": [[]]}, False),
    ],
)
def test_an_answer_is_its_first_text_unless_something_beside_it_is_not_whole(
    beside: dict[str, Any], whole: bool
) -> None:
    answer = {"type": "message", "role": "assistant", "content": [{**OUTPUT, **beside}, OUTPUT]}
    [found] = conversation(decode_responses_request({"input": [answer]}))
    assert found["content"] == ("Sun." if whole else "Sun.\nSun.")


def test_an_item_with_an_id_and_no_type_may_be_a_message_of_any_role() -> None:
    items = [{"id": "q", "role": "critic", "content": ["a"]}, {"id": "r", "role": "assistant"}]
    found = conversation(decode_responses_request({"input": items}))
    assert found[0] == {"role": "critic", "content": [{"type": "text", "text": "a"}]}
    assert found[1] == {"role": "assistant", "content": None}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [None]},
        {"tools": [{"type": "function", "name": []}]},
        {"tools": [{"type": "namespace", "name": "n", "description": "d", "tools": [{"name": None}]}]},
        {"tool_choice": []},
        {"tool_choice": {"type": []}},
        {"tool_choice": {"type": "function", "name": [None]}},
        {"tool_choice": "required", "tools": {}},
        {"text": 3},
        {"text": {"format": {"type": []}}},
        {"include": "all"},
    ],
)
def test_other_fields_of_a_wrong_kind_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        decode_responses_request({"input": "hi", **fields})
    assert refused.value.status == 400


def test_one_message_of_all_that_one_turn_says() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    said = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I look."}],
    }
    request = decode_responses_request(
        {"instructions": "Be brief.", "input": [USER, thought, said, CALL, CALL]}
    )
    system, user, turn = conversation(request)
    assert system == {"role": "system", "content": "Be brief."}
    assert user == USER
    assert (turn["reasoning"], turn["content"], len(turn["tool_calls"])) == ("hm", "I look.", 2)
    assert not continues(request)


def test_tools_that_the_model_can_call() -> None:
    inner = {"type": "function", "name": "get"}
    tools = [
        {
            "type": "namespace",
            "name": "wx",
            "description": "",
            "tools": [inner, {"type": "custom", "name": "x"}],
        },
        {"type": "custom", "name": "sh"},
        {"type": "web_search"},
    ]
    request = decode_responses_request(
        {"input": "hi", "tools": tools, "tool_choice": {"type": "function", "name": "get"}}
    )
    chat = as_chat(request)
    assert [tool.function.name for tool in chat.tools or ()] == ["wx__get", "sh"]
    assert isinstance(chat.tool_choice, NamedToolChoice)
    assert chat.tool_choice.function.name == "wx__get"


def test_hosted_tools_alone_are_an_empty_list() -> None:
    hosted = as_chat(decode_responses_request({"input": "hi", "tools": [{"type": "web_search"}]}))
    assert (hosted.tools, hosted.tool_choice) == ([], "none")
    assert as_chat(decode_responses_request({"input": "hi", "tools": []})).tools is None
