"""Each word of the grammar vocabulary, shown on a small made-up family."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from parsers import Content, Family, Marker, ModelFacts, RequestContext
from parsers.bodies.json_call import JsonCall
from parsers.bodies.raw_json import RawJson
from parsers.grammar import (
    Channels,
    On,
    ReasoningGrammar,
    Region,
    Route,
    Text,
    ToolGrammar,
    always_open,
    off_unless_enabled,
)
from parsers.registry import ANY_MODEL
from tests.parsers.reading import TOOLS, Message, add_up, lexemes, parse

THINK = ReasoningGrammar(names=("think",), start="<t>", end="</t>")
CALL = ToolGrammar(
    names=("call",),
    content=(On("<call>", "name"),),
    regions={
        "name": Region(
            Text.NAME, (On(":", "arguments", as_text=True),), known_names=True, rejected="skipped"
        ),
        "arguments": Region(Text.BODY, (On("</call>", "content"),), RawJson()),
        "skipped": Region(Text.DROP, (On("</call>", "content"),)),
    },
    typed=True,
)


def read(family: Family, text: str, **request: Any) -> Message:
    """The message of a text, the same however it is cut."""
    context = family.context(
        request.get("tools", TOOLS),
        request.get("choice", "auto"),
        request.get("kwargs", {}),
        request.get("verdict", "unknown"),
        request.get("limit", 65536),
        request.get("named"),
    )
    machine = family.start(context, family.markers)
    whole = add_up([*machine.feed(lexemes(family, text)), *machine.finish()])
    for seed in range(3):
        assert parse(family, lexemes(family, text, seed), context, resume=True) == whole
    return whole


def think(**words: Any) -> Family:
    return Family(dataclasses.replace(THINK, **words), CALL)


def test_whitespace_at_the_end_of_reasoning_may_be_dropped() -> None:
    assert read(think(strip=True), "\n a \n</t>\nb").reasoning == "\n a"
    assert read(think(strip=True), "a\n\n").reasoning == "a"
    assert read(think(), "a \n</t>b").reasoning == "a \n"


def test_reasoning_may_start_closed_and_open_again() -> None:
    family = think(initial=lambda _: "closed", content=(On("<t>", "reasoning"),))
    message = read(family, "a<t>b</t>c<t>d</t>e")
    assert (message.reasoning, message.content) == ("bd", "ace")
    assert read(family, "b</t>c", verdict="open").reasoning == "b"


def test_further_spellings_and_a_wrapper_around_the_answer() -> None:
    family = think(other_starts=("<T>",), other_ends=("</T>",), content=(On("[", "content", as_text=True),))
    message = read(family, "<T>a</T>[b")
    assert (message.reasoning, message.content) == ("a", "b")


def test_text_where_content_begins_may_be_skipped_and_put_there() -> None:
    message = read(think(skip="\n"), "a</t>\n\n b\n")
    assert (message.reasoning, message.content) == ("a", " b\n")
    assert read(think(skip="\n"), "a</t>\n").content is None
    lead = Family(ReasoningGrammar(names=("l",), initial=always_open, lead="<t>"), CALL)
    assert read(lead, "x").content == "<t>x"


def test_reasoning_may_stand_in_for_content() -> None:
    family = think(promotes=lambda kwargs: bool(kwargs.get("force")))
    forced = {"force": True}
    assert read(family, "abc", kwargs=forced).content == "abc"
    assert read(family, "abc</t> \n", kwargs=forced).reasoning is None
    message = read(family, "abc</t>x", kwargs=forced)
    assert (message.reasoning, message.content) == ("abc", "x")
    message = read(family, "abc</t><call>ping:{}</call>", kwargs=forced)
    assert (message.reasoning, message.content, len(message.calls)) == ("abc", None, 1)
    assert read(family, "a" * 30, kwargs=forced, limit=20).reasoning == "a" * 30
    assert read(family, "abc").reasoning == "abc"


def test_long_whitespace_is_let_go_at_the_same_place() -> None:
    message = read(think(strip=True), "a" + " " * 50 + "</t>b", limit=20)
    assert (message.reasoning, message.content) == ("a" + " " * 50, "b")


def test_a_name_that_is_none() -> None:
    message = read(Family(None, CALL), "a<call>nope:{}</call>b<call>ping:{}</call>")
    assert (message.content, message.calls) == ("ab", [("ping", "{}")])
    assert message.anomalies == {"rejected_call": 0, "dropped_text": 7}
    assert read(Family(None, CALL), "<call>any:{}</call>", tools=None, choice="none").calls == []
    tentative = dataclasses.replace(CALL, content=(On("<call>", "name", tentative=True),))
    assert read(Family(None, tentative), "a<call>po<call>ping:{}").content == "a<call>po"
    assert read(Family(None, tentative), "<call>" + "ping" * 400).content == "<call>" + "ping" * 400


def test_a_name_with_an_id_of_its_own() -> None:
    def route(text: str) -> Route | None:
        name, _, number = text.partition("#")
        return Route("arguments", name, text) if number.isdigit() else None

    regions = {**CALL.regions, "name": Region(Text.NAME, (On(":", "", as_text=True),), route=route)}
    family = Family(None, dataclasses.replace(CALL, regions=regions))
    context = family.context(TOOLS, "auto", {}, "unknown")
    events = family.start(context, family.markers).feed(lexemes(family, "<call>ping#7:{}</call>"))
    assert [event.id for event in events if hasattr(event, "id")] == ["ping#7"]
    assert read(family, "<call>ping:{}</call>").calls == []


def _route(text: str) -> Route | None:
    if text.startswith("to "):
        return Route("arguments", text[3:])
    return {"think": Route("reasoning"), "say": Route("content"), "": None}.get(text, Route("other"))


CHANNELS = Channels(
    start="header",
    separator="\n",
    regions={
        "header": Region(
            Text.HEADER, (On("<m>", "other"),), route=_route, begins=lambda text: text[:1] in "tso"
        ),
        "reasoning": Region(Text.REASONING, (On("<e>", "header"),)),
        "content": Region(Text.CONTENT, (On("<e>", "header"),)),
        "other": Region(Text.DROP, (On("<e>", "header"),)),
        "arguments": Region(Text.BODY, (On("<e>", "header"),), RawJson()),
    },
)
CHANNEL_REASONING = ReasoningGrammar(names=("ch",), channels=CHANNELS, initial=lambda _: "closed")
CHANNEL_TOOLS = ToolGrammar(names=("ch",), channels=CHANNELS)


def test_channels_share_one_framing() -> None:
    text = "think<m>a<e>say<m>b<e>to ping<m>{}<e>other<m>c<e>think<m>d<e>say<m>e"
    message = read(Family(CHANNEL_REASONING, CHANNEL_TOOLS), text)
    assert (message.reasoning, message.content, message.calls) == ("a\nd", "b\ne", [("ping", "{}")])
    assert message.anomalies == {"dropped_text": 1}
    assert read(Family(None, CHANNEL_TOOLS), text).reasoning is None
    assert read(Family(CHANNEL_REASONING, CHANNEL_TOOLS), "a<e>say<m>b", verdict="open").reasoning == "a"


def test_a_header_that_is_none_is_content() -> None:
    family = Family(CHANNEL_REASONING, CHANNEL_TOOLS)
    assert read(family, "Hello<m>x").content == "Hello<m>x"
    assert read(family, "thi").content == "thi"
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), family.markers)
    assert machine.feed(["H"]) == [Content("H")]


FORCED = Family(None, ToolGrammar(names=("forced",), forced="json", content=(On("<call>", "content"),)))


@pytest.mark.parametrize(
    ("text", "calls", "content"),
    [
        ('[{"name": "ping", "parameters": {}}]', [("ping", "{}")], None),
        (
            ' [{"name":"ping","parameters":{"a":[1]}}, {"name":"ping"}]',
            [("ping", '{"a": [1]}'), ("ping", "{}")],
            None,
        ),
        ('[{"name": "ping", "parameters": {"a": "b', [("ping", '{"a": "b')], None),
        ("not json", [], None),
    ],
)
def test_required_calls_as_json(text: str, calls: list[tuple[str, str]], content: str | None) -> None:
    message = read(FORCED, text, choice="required")
    assert (message.calls, message.content) == (calls, content)


def test_named_arguments_as_json() -> None:
    assert read(FORCED, '\n{"a":1} ', choice="named", named="ping").calls == [("ping", '\n{"a":1} ')]
    assert read(FORCED, " \n", choice="named", named="ping").calls == []
    assert read(FORCED, "<call>x", choice="auto").content == "x"


@pytest.mark.parametrize(
    ("forced", "enforced", "json"),
    [("json", True, True), ("tag", True, False), ("tag", False, True), ("markup", False, False)],
)
def test_when_json_is_forced(forced: Any, enforced: bool, json: bool) -> None:
    tools = ToolGrammar(names=("x",), forced=forced)
    assert Family(None, tools, enforced).forces_json is json


def test_an_undecided_call_is_released_at_the_same_character() -> None:
    body = Region(Text.BODY, (On("</call>", "content"),), JsonCall(("arguments",), certain_by_name=True))
    tools = ToolGrammar(names=("x",), content=(On("<call>", "call", tentative=True),), regions={"call": body})
    text = '<call>{"arguments": "' + "x" * 40 + '", "name": "ping"}</call>'
    assert read(Family(None, tools), text, limit=30).calls == []
    assert read(Family(None, tools), text).calls == [("ping", '"' + "x" * 40 + '"')]


def test_the_state_of_a_request_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RequestContext().json == ""
    assert isinstance(ANY_MODEL, ModelFacts)
    kwargs: Mapping[str, Any] = {"thinking": True}
    assert off_unless_enabled(kwargs) == "open"


def test_tokens_of_a_marker_are_no_reasoning() -> None:
    family = think(content=(On("<t>", "reasoning"),))
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), frozenset({"<t>"}))
    machine.feed(["a", " b", "<", "/t", ">", "c"])
    assert machine.reasoning_tokens == 2
    machine.feed([Marker("<t>"), "<", Marker("<t>"), "d", "</", "t>", "e"])
    assert machine.reasoning_tokens == 4  # what was no marker after all is reasoning
    machine.finish()
    assert machine.reasoning_tokens == 4


@pytest.mark.parametrize(
    ("counted", "end_counts", "expected"),
    [
        ("section", False, (3, 3)),
        ("section", True, (4, 4)),
        ("marked", False, (0, 2)),
        ("marked", True, (0, 3)),
        ("none", True, (0, 0)),
    ],
)
def test_which_tokens_count_as_reasoning(counted: Any, end_counts: bool, expected: tuple[int, int]) -> None:
    family = think(counted=counted, end_counts=end_counts)
    for lexemes_, tokens in zip((["a", " b", " c"], ["a", Marker("<t>"), "b", "c"]), expected, strict=True):
        machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), frozenset({"<t>", "</t>"}))
        machine.feed(lexemes_)
        machine.finish(end_token=True)
        assert machine.reasoning_tokens == tokens


def test_the_end_token_behind_the_reasoning_does_not_count() -> None:
    family = think(counted="marked", end_counts=True)
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), frozenset({"<t>", "</t>"}))
    machine.feed([Marker("<t>"), "a", Marker("</t>"), "b"])
    machine.finish(end_token=True)
    assert machine.reasoning_tokens == 1


@pytest.mark.parametrize(("empty", "expected"), [("", None), ("section", None), ("prompt", "")])
def test_reasoning_that_the_prompt_ended(empty: Any, expected: str | None) -> None:
    family = think(empty=empty)
    machine = family.start(family.context(TOOLS, "auto", {}, "over"), frozenset())
    assert add_up([*machine.feed(["a"]), *machine.finish()]).reasoning == expected
