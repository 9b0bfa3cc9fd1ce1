"""Each defect: a recorded value that shows it, and one that does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderd.conformance.cases import Case, Recording
from renderd.conformance.defects import DEFECTS, UNKNOWN, Evidence, superset
from renderd.conformance.paths import get, parse

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get",
            "parameters": {
                "type": "object",
                "properties": {
                    "days": {"type": "integer"},
                    "place": {"$ref": "#/$defs/place"},
                    "any": {},
                },
                "$defs": {"place": {"anyOf": [{"type": "object"}, {"type": "null"}]}},
            },
        },
    }
]
NAMED = {"type": "function", "function": {"name": "get"}}


def calls(*arguments: str, name: str = "get") -> list[Any]:
    return [
        {"id": "c", "type": "function", "function": {"name": name, "arguments": one}} for one in arguments
    ]


def choice(finish: str = "stop", **message: Any) -> Any:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}]}


def evidence(
    field: str, output: str, recorded: Any, ours: Any = UNKNOWN, where: str = "batch", **request: Any
) -> Evidence:
    case = Case("s/c", "s", "chat", {"tools": TOOLS, **request}, {"text": output})
    recording = Recording("s/c", batch=recorded)
    path = parse(field)
    return Evidence(case, recording, where, recorded, path, get(recorded, path), ours)


CONTENT = "choices[0].message.content"
REASONING = "choices[0].message.reasoning"
CALLS = "choices[0].message.tool_calls"
FINISH = "choices[0].finish_reason"
COUNT = "usage.completion_tokens_details.reasoning_tokens"


def spelled(*pieces: str, **message: Any) -> Evidence:
    shown = evidence(FINISH, "", choice("tool_calls", **message))
    shown.case.output = {"pieces": list(pieces)}
    return shown


def counted(tokens: int, **message: Any) -> Any:
    return choice(**message) | {"usage": {"completion_tokens_details": {"reasoning_tokens": tokens}}}


def ended(stop_reason: int | None, last: int, **request: Any) -> Evidence:
    body = {"generate_response": {"choices": [{"index": 0, "token_ids": [1, last]}]}, "chat_request": request}
    answer = {"choices": [{"index": 0, "stop_reason": stop_reason}]}
    return evidence("choices[0].stop_reason", "", answer, None, "http", json=body)


def tagged(recorded: str, ours: str | None, **request: Any) -> Evidence:
    own = None if ours is None else {"structural_tag": ours}
    body = {"sampling_params": {"structured_outputs": {"structural_tag": recorded}}}
    return evidence("sampling_params.structured_outputs", "", body, own, "render", **request)


SHOWN = [
    ("end_token_as_reason", ended(7, 7)),
    ("text_lost", evidence(CONTENT, "a <b> c", choice(content="a"), "a <b> c")),
    ("text_lost", evidence(CALLS, '{"x": "Par', choice(content=None), calls('{"x": "Par'))),
    ("text_lost", evidence(f"{CALLS}[0].function.arguments", '{"x": 1}', choice(content=None), '{"x": 1}')),
    ("text_repeated", evidence(CONTENT, "one", choice(content="one one"))),
    ("text_altered", evidence(CONTENT, "naïve", choice(content="na?ve"), "naïve")),
    ("whitespace_lost", evidence(CONTENT, "\n\na b", choice(content="a b"), "\n\na b")),
    ("whitespace_lost", evidence(CONTENT, "<t>\n\n", choice(content=None), "\n\n")),
    ("text_misplaced", evidence(CONTENT, "hi", choice(content=None, reasoning="hi"), "hi")),
    ("markup_in_content", evidence(CONTENT, "a<tool>", choice(content="a<tool>"), "a")),
    ("markup_dropped", evidence(CONTENT, "a<tool>b", choice(content="ab"), "a<tool>b")),
    ("invalid_json_arguments", evidence(CALLS, "", choice(tool_calls=calls('{"x": NaN}')))),
    ("arguments_break_schema", evidence(CALLS, "", choice(tool_calls=calls('{"days": "3"}')))),
    ("arguments_break_schema", evidence(CALLS, "", choice(tool_calls=calls('{"place": "{}"}')))),
    ("unknown_tool", evidence(CALLS, "", choice(tool_calls=calls("{}", name="other")))),
    ("call_from_lookalike", spelled("<", "tool", ">{}", tool_calls=calls("{}"))),
    ("finish_contradicts_calls", evidence(FINISH, "", choice("tool_calls"))),
    ("finish_contradicts_calls", evidence(FINISH, "", choice("stop", tool_calls=calls("{}")))),
    ("reasoning_miscounted", evidence(COUNT, "", counted(0, reasoning="hm"))),
    ("reasoning_miscounted", evidence(COUNT, "", counted(3, reasoning=None))),
    ("cut_concealed", evidence(CONTENT, '{"x": "Pa', choice("length", content='{"x": "Pa"}'), '{"x": "Pa')),
    ("grammar_written_out", tagged('{"grammar": "root ::= x"}', '{"json_schema": {}}')),
    ("grammar_written_out", tagged('{"grammar": "root ::= x"}', None, tool_choice="none")),
    ("content_as_reasoning", evidence(REASONING, "a<m>b", choice(content="a", reasoning="b"), None)),
    ("content_as_reasoning", evidence(COUNT, "a<m>b", counted(1, content="a", reasoning="b"), 0)),
    ("cut_call_as_text", evidence(CONTENT, '<call>get{"x', choice("length", content='<call>get{"x'))),
    (
        "cut_call_as_text",
        evidence(CONTENT, "<a>get{}</a><a>get{", choice("length", content="<a>get{", tool_calls=calls("{}"))),
    ),
    ("server_error", evidence("status", "", {"status": 500}, 400, "error")),
    (
        "internals_told",
        evidence("param", "", {"message": "8 validation errors for X", "param": None}, "x", "error"),
    ),
]
NOT_SHOWN = [
    ("end_token_as_reason", ended(7, 8)),
    ("end_token_as_reason", ended(None, 7)),
    ("end_token_as_reason", ended(7, 7, stop_token_ids=[7])),
    ("text_lost", evidence(CONTENT, "a b", choice(content=None, reasoning="b a"), "a b")),
    ("text_lost", evidence(CONTENT, "a", choice(content="a"), "a and more")),
    ("text_lost", evidence(CONTENT, "a b", choice(content="a"))),
    ("text_repeated", evidence(CONTENT, "one one", choice(content="one one"))),
    ("finish_contradicts_calls", evidence(CONTENT, "", choice("tool_calls"))),
    ("reasoning_miscounted", evidence(CONTENT, "", counted(0, reasoning="hm"))),
    ("text_altered", evidence(CONTENT, "naïve", choice(content="na"), "naïve")),
    ("text_altered", evidence(CONTENT, "naïve", choice(content="na?ve"), "naive")),
    ("whitespace_lost", evidence(CONTENT, "a b", choice(content="a"), "a b")),
    ("text_misplaced", evidence(CONTENT, "hi", choice(content="hi", reasoning="ho"), "hi")),
    ("markup_in_content", evidence(CONTENT, "a <tool>", choice(content="a <tool>"), "a <tool>")),
    ("markup_dropped", evidence(CONTENT, "a<tool>b", choice(content="a<tool>b"), "a<tool>b")),
    ("invalid_json_arguments", evidence(CALLS, "", choice(tool_calls=calls('{"x": 1}')))),
    ("invalid_json_arguments", evidence(CALLS, "", choice())),
    ("invalid_json_arguments", evidence(CALLS, "", choice("length", tool_calls=calls('{"x')))),
    ("invalid_json_arguments", evidence(CONTENT, "", choice(tool_calls=calls('{"x')))),
    ("text_repeated", evidence(CALLS, "<x>x 1</x>", choice(tool_calls=calls('{"x": 1}', name="x")))),
    ("arguments_break_schema", evidence(CALLS, "", choice(tool_calls=calls('{"days": 3, "any": "x"}')))),
    ("arguments_break_schema", evidence(CALLS, "", choice(tool_calls=calls('{"place": null}')))),
    ("unknown_tool", evidence(CALLS, "", choice(tool_calls=calls("{}")))),
    ("call_from_lookalike", spelled("<tool>", "{}", tool_calls=calls("{}"))),
    ("call_from_lookalike", spelled("<", "tool", ">{}")),
    ("call_from_lookalike", spelled(tool_calls=calls("{}"))),
    ("finish_contradicts_calls", evidence(FINISH, "", choice("length", tool_calls=calls("{}")))),
    (
        "finish_contradicts_calls",
        evidence(FINISH, "", choice("stop", tool_calls=calls("{}")), tool_choice=NAMED),
    ),
    ("reasoning_miscounted", evidence(COUNT, "", counted(3, reasoning="hm"))),
    ("cut_concealed", evidence(CONTENT, '{"x": "Pa', choice(content='{"x": "Pa"}'), '{"x": "Pa')),
    ("cut_concealed", evidence(CONTENT, '{"x": "Pa', choice("length", content='{"x": "Pa'), '{"x": "')),
    ("grammar_written_out", tagged('{"json_schema": {}}', '{"json_schema": true}')),
    ("grammar_written_out", tagged('{"grammar": "root ::= x"}', None)),
    ("content_as_reasoning", evidence(REASONING, "b<m>a", choice(content="a", reasoning="b"), None)),
    ("content_as_reasoning", evidence(COUNT, "a<m>b", counted(1, content="a", reasoning="b"), 1)),
    ("cut_call_as_text", evidence(CONTENT, "<call>get{", choice("stop", content="<call>get{"))),
    ("cut_call_as_text", evidence(CONTENT, "<call>got{", choice("length", content="<call>got{"))),
    ("cut_call_as_text", evidence(CONTENT, "", choice("length", content=None))),
    ("server_error", evidence("status", "", {"status": 400}, 200, "error")),
    ("internals_told", evidence("param", "", {"message": "n must be 1", "param": None}, "x", "error")),
    ("batch_differs_from_stream", evidence(CONTENT, "", choice(content="a"), "b")),
]


@pytest.mark.parametrize(("name", "shown"), SHOWN, ids=lambda value: value if isinstance(value, str) else "")
def test_shown(name: str, shown: Evidence) -> None:
    assert DEFECTS[name](shown) is None


@pytest.mark.parametrize(
    ("name", "shown"), NOT_SHOWN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_not_shown(name: str, shown: Evidence) -> None:
    assert isinstance(DEFECTS[name](shown), str)


def test_every_defect_has_an_example() -> None:
    assert {name for name, _ in SHOWN} | {"stream_differs_from_batch", "batch_differs_from_stream"} == set(
        DEFECTS
    )


def test_stream_and_batch_differ() -> None:
    delta = {"role": "assistant", "content": "other"}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1}
    stream = [chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}]
    case = Case("s/c", "s", "chat", {}, {"text": "one"})
    recording = Recording("s/c", batch=choice(content="one"), stream=json.loads(json.dumps(stream)))
    for name, where in (("stream_differs_from_batch", "stream"), ("batch_differs_from_stream", "batch")):
        for field, differs in ((CONTENT, True), (REASONING, False), (FINISH, False)):
            view, path = recording.view(where), parse(field)
            shown = DEFECTS[name](Evidence(case, recording, where, view, path, get(view, path), UNKNOWN))
            assert (shown is None) == differs


def test_superset() -> None:
    assert superset(evidence("system_fingerprint", "", {"system_fingerprint": None}, "fp")) is None
    assert superset(evidence("usage.details", "", {"usage": {}}, 3)) is None
    assert superset(evidence("system_fingerprint", "", {"system_fingerprint": "fp"}, "other"))
    assert superset(evidence("system_fingerprint", "", {"system_fingerprint": None}, None))
    assert superset(evidence(CALLS, "", choice(content="a"), calls("{}")))
    assert superset(evidence("status", "", {"status": 400}, 200, "error")) is None
    assert superset(evidence("status", "", {"status": 400}, 404, "error"))
    counted = {"usage": {"completion_tokens": 3}}
    place = "usage.completion_tokens_details"
    assert superset(evidence(place, "", counted, {"reasoning_tokens": 3})) is None
    for details in ({"reasoning_tokens": 4}, {"reasoning_tokens": "x"}, {"a": 1}, 3):
        assert superset(evidence(place, "", counted, details))
    assert superset(evidence("status", "", {"status": 200}, 400, "error"))
    assert superset(evidence("message", "", {"status": 400, "message": "a"}, "b", "error"))


@pytest.mark.parametrize(
    "view", [None, [], [{"request_id": "x"}], {}, {"choices": []}, {"status": 400}, "text"]
)
@pytest.mark.parametrize("tools", [None, [], [{}], ["x"], [{"function": {"name": 3}}], {"a": 1}])
def test_checks_take_any_value(view: Any, tools: Any) -> None:
    for where in ("batch", "stream", "render", "http", "error"):
        case = Case("s/c", "s", "chat", {"tools": tools})
        failed = {"status": 400} if where == "error" else view
        shown = Evidence(case, Recording("s/c"), where, failed, parse(CONTENT), None, "x")
        for check in [*DEFECTS.values(), superset]:
            assert check(shown) is None or isinstance(check(shown), str)
