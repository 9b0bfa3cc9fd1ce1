"""Calls whose arguments are keys and values in markup: GLM, Hunyuan, Poolside, K2 Horizon, Gemma,
MiniMax M3 and Kimi K3."""

from __future__ import annotations

from typing import Any

import pytest

from parsers import Family, ModelFacts, build
from tests.parsers.reading import PING, WEATHER, Message, lexemes, parse

PLAN: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "plan",
        "parameters": {
            "type": "object",
            "$defs": {"Stop": {"type": "object", "properties": {"at": {"type": "integer"}}}},
            "properties": {
                "title": {"type": "string"},
                "hours": {"type": "number"},
                "paid": {"type": "boolean"},
                "note": {"type": ["string", "null"]},
                "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
                "extra": {"type": "object"},
            },
        },
    },
}
TOOLS = [WEATHER, PING, PLAN]


def read(
    family: Family, text: str, kwargs: dict[str, Any] | None = None, verdict: Any = "unknown"
) -> Message:
    """The message of a text, the same however it is cut."""
    context = family.context(TOOLS, "auto", kwargs or {}, verdict)
    whole = parse(family, lexemes(family, text), context)
    for seed in range(3):
        assert parse(family, lexemes(family, text, seed), context, resume=True) == whole
    return whole


def pairs(name: str, *items: tuple[str, str], begin: str = "<tool_call>", word: str = "arg") -> str:
    written = "".join(
        f"<{word}_key>{key}</{word}_key><{word}_value>{value}</{word}_value>" for key, value in items
    )
    return f"{begin}{name}{written}{begin.replace('<', '</')}"


GLM = [
    ("why </think>\nHi", "why", "\nHi", []),
    ("a</think>b<think>c</think>d", "ac", "bd", []),
    ("why" + pairs("ping"), "why", None, [("ping", "{}")]),
    (
        "</think>Ok.\n" + pairs("get_weather", ("city", " Oslo\n"), ("days", " 3 ")) + "\n" + pairs("ping"),
        None,
        "Ok.",
        [("get_weather", '{"city": " Oslo\\n", "days": 3}'), ("ping", "{}")],
    ),
    (
        '</think><tool_call>plan\n<arg_key>stops</arg_key>\n<arg_value>[{"at": 5}]</arg_value>\n</tool_call>',
        None,
        None,
        [("plan", '{"stops": [{"at": 5}]}')],
    ),
    ("</think>a" + pairs("unheard_of", ("x", "1")) + "b", None, "ab", []),
    (
        "</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>Os",
        None,
        None,
        [("get_weather", '{"city": "Os')],
    ),
    ("</think><tool_call>get_wea", None, None, []),
    (
        "</think>"
        + pairs("plan", ("hours", "1e2"), ("paid", "True"), ("note", "null"), ("extra", '{"a": 1}')),
        None,
        None,
        [("plan", '{"hours": 100, "paid": true, "note": null, "extra": {"a": 1}}')],
    ),
]


@pytest.mark.parametrize("name", ["glm45", "glm47", "ling3"])
@pytest.mark.parametrize(("text", "reasoning", "content", "calls"), GLM)
def test_glm(name: str, text: str, reasoning: str | None, content: str | None, calls: list[Any]) -> None:
    message = read(build(name, name), text)
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


def test_glm_thinks_unless_both_words_say_otherwise() -> None:
    family = build("glm45", "glm45")
    assert read(family, "<think>a</think>b", {"enable_thinking": False}).content == "<think>a</think>b"
    assert read(family, "a</think>b", {"enable_thinking": False, "thinking": True}).reasoning == "a"
    template = "[gMASK]<sop>Reasoning Effort: <tool_call><arg_key><arg_value>"
    model = ModelFacts(is_token=lambda text: True, chat_template=template)
    assert read(build("glm45", "glm45", model), "a</think>b", {"enable_thinking": False}).reasoning == "a"


def test_poolside_reads_literals_and_keeps_text_after_calls() -> None:
    family = build(None, "poolside_v1")
    call = pairs("plan", ("title", "1"), ("paid", "True"), ("extra", "{'a': None}"), ("other", "2"))
    message = read(family, f"Hi\n{call} bye")
    assert message.content == "Hi\n bye"
    assert message.calls == [("plan", '{"title": "1", "paid": true, "extra": {"a": null}, "other": 2}')]


@pytest.mark.parametrize(("name", "separator"), [("hy_v3", "<tool_sep>"), ("hy_v4", "")])
def test_hunyuan(name: str, separator: str) -> None:
    family = build(name, name)
    call = pairs("plan" + separator, ("hours", "2"), ("paid", "1"), ("note", "null"))
    text = f"why</think>Ok\n<tool_calls>{call}{pairs('ping' + separator)}</tool_calls>lost"
    message = read(family, text, {"reasoning_effort": "high"})
    assert (message.reasoning, message.content) == ("why", "Ok\n")
    assert message.calls == [("plan", '{"hours": 2, "paid": 1, "note": "null"}'), ("ping", "{}")]
    assert message.anomalies == {"dropped_text": 4}
    assert read(family, "a</think>b", {"reasoning_effort": "no_think"}).content == "a</think>b"


def test_hunyuan_tags_bear_the_suffix_of_the_checkpoint() -> None:
    config = {"token_suffix": ":x"}
    third = ModelFacts(is_token=lambda text: True, tokenizer_config=config)
    fourth = ModelFacts(is_token=lambda text: True, added_tokens=("<think:x>", "</think:x>"))
    for name, model in (("hy_v3", third), ("hy_v4", fourth)):
        family = build(name, name, model)
        assert read(family, "a</think:x>b", {"reasoning_effort": "low"}).reasoning == "a"
        assert "<tool_calls:x>" in family.markers


def horizon(*calls: str) -> str:
    return f"<ifm|tool_calls>\n{''.join(calls)}</ifm|tool_calls>"


HORIZON_PING = pairs("ping", begin="<ifm|tool_call>", word="ifm|arg")


def test_k2_horizon() -> None:
    family = build("k2_horizon", "k2_horizon")
    call = pairs("get_weather", ("city", "Oslo"), ("days", "3"), begin="<ifm|tool_call>", word="ifm|arg")
    message = read(family, f"<ifm|think>why</ifm|think>Ok\n{horizon(call, HORIZON_PING)} bye")
    assert (message.reasoning, message.content) == ("why", "Ok\n bye")
    assert message.calls == [("get_weather", '{"city": "Oslo", "days": 3}'), ("ping", "{}")]
    typed = call.replace("<ifm|arg_value>3", "<ifm|arg_type>string</ifm|arg_type><ifm|arg_value>3")
    assert read(family, "</ifm|think>" + horizon(typed)).calls == [
        ("get_weather", '{"city": "Oslo", "days": "3"}')
    ]
    json_call = '<ifm|tool_call>\n{"name": "get_weather", "arguments": {"city": "é"}}\n</ifm|tool_call>\n'
    assert read(family, "</ifm|think>" + horizon(json_call)).content == horizon(json_call)
    unknown = horizon(HORIZON_PING.replace("ping", "nothing"))
    assert read(family, "</ifm|think>" + unknown).content == unknown


GEMMA = [
    ("<|channel>thought\nwhy \n<channel|>Hi", "why", "Hi", []),
    ("thought\nwhy<channel|>Hi", "why", "Hi", []),
    ("thoughtful", None, "thoughtful", []),
    ("a<channel|>b", None, "ab", []),
    ("<|channel>thought\nwhy<|tool_call>call:ping{}<tool_call|>", "why", None, [("ping", "{}")]),
    (
        'Ok. <|tool_call>call:get_weather{city:<|"|>a, {b} "c"<|"|>,days:3}<tool_call|>',
        None,
        "Ok.",
        [("get_weather", '{"city": "a, {b} \\"c\\"", "days": 3}')],
    ),
    (
        "<|tool_call>call:plan{title:5,hours:1e2,paid:True,note:null,stops:[{at:1},{at:2,}],extra:{a:1,b:x,c:[1]}}<tool_call|>",
        None,
        None,
        [
            (
                "plan",
                '{"title": "5", "hours": 100, "paid": true, "note": null, "stops": [{"at": 1}, {"at": 2}], '
                '"extra": {"a": 1, "b": "x", "c": ["1"]}}',
            )
        ],
    ),
    ("<|tool_call>:ping(<tool_call|>", None, None, [("ping", "{}")]),
    ("<|tool_call>call:ping<tool_call|>", None, None, [("ping", "{}")]),
    ('<|tool_call>call:get_weather{city:<|"|>Os', None, None, [("get_weather", '{"city": "Os')]),
    ("<|tool_call>call:get_wea", None, None, []),
    ("<|tool_call>junk<tool_call|>x", None, "x", []),
]


@pytest.mark.parametrize(("text", "reasoning", "content", "calls"), GEMMA)
def test_gemma(text: str, reasoning: str | None, content: str | None, calls: list[Any]) -> None:
    message = read(build("gemma4", "gemma4"), text)
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


def test_gemma_in_a_channel_that_the_prompt_opened() -> None:
    message = read(build("gemma4", "gemma4"), "why<channel|>Hi", verdict="open")
    assert (message.reasoning, message.content) == ("why", "Hi")


def test_functiongemma_takes_json_in_quotes() -> None:
    family = build(None, "functiongemma")
    call = "call:plan{title:<escape>a,{b}<escape>,hours:<escape>2<escape>,paid:true}"
    message = read(family, f"Hi <start_function_call>{call}<end_function_call> bye")
    assert message.content == "Hi  bye"
    assert message.calls == [("plan", '{"title": "a,{b}", "hours": 2, "paid": true}')]


def elements(text: str) -> str:
    """MiniMax M3's tags, from short ones."""
    return text.replace("<", "]<]minimax[>[<")


def invoke(name: str, inside: str) -> str:
    return elements(f'<tool_call>\n<invoke name="{name}">{inside}</invoke>\n</tool_call>')


MINIMAX = [
    ("<city>Oslo </city><days>3</days>", "get_weather", '{"city": "Oslo ", "days": 3}'),
    ("", "ping", "{}"),
    (
        "<stops><s><at>1</at></s><s><at>2</at></s></stops><title>7</title>",
        "plan",
        '{"stops": [{"at": 1}, {"at": 2}], "title": "7"}',
    ),
    ("<extra><a>1</a><a>2</a>text</extra>", "plan", '{"extra": {"a": ["1", "2"], "$text": "text"}}'),
    ("<extra> </extra><stops></stops>", "plan", '{"extra": {}, "stops": []}'),
    ('<extra>{"a": 1}</extra>', "plan", '{"extra": {"a": 1}}'),
    ("<title><a>1</a></title>", "plan", '{"title": {"a": "1"}}'),
    ("<x>1</x><y><z>2</z></y>", "unheard_of", '{"x": "1", "y": {"z": "2"}}'),
]


@pytest.mark.parametrize(("inside", "name", "arguments"), MINIMAX)
def test_minimax_m3(inside: str, name: str, arguments: str) -> None:
    family = build("minimax_m3", "minimax_m3")
    message = read(family, "<mm:think>why</mm:think>Ok\n" + invoke(name, inside) + "lost")
    assert (message.reasoning, message.content, message.calls) == ("why", "Ok\n", [(name, arguments)])
    assert message.anomalies == {"dropped_text": 4}


def test_minimax_m3_cut_and_unopened() -> None:
    family = build("minimax_m3", "minimax_m3")
    cut = elements('<tool_call><invoke name="get_weather"><city>Os')
    assert read(family, cut).calls == [("get_weather", '{"city": "Os')]
    nested = elements('<tool_call><invoke name="plan"><stops><s><at>1</at>')
    assert read(family, nested).calls == [("plan", '{"stops": [{"at": 1')]
    assert read(family, "a</mm:think>b").content == "a</mm:think>b"
    assert read(family, "a</mm:think>b", {"thinking_mode": "enabled"}).reasoning == "a"


def k3(text: str) -> str:
    """Kimi K3's tags, from short ones: `[think]` and `[/think]`."""
    return text.replace("[/", "<|close|>").replace("[", "<|open|>").replace("]", "<|sep|>")


KIMI = [
    ("why[/think][response]Hi[/response][/message]", "why", "Hi", []),
    ("why", "why", None, []),
    ("[response]Hi[/response]", None, "Hi", []),
    (
        '[/think][response]Ok[/response][tools][call tool="get_weather" index="1"][argument key="city" '
        'type="string"]a & "b"[/argument][argument key="days" type="number"] 3 [/argument][/call]\n'
        '[call tool="ping" index="2"][/call][/tools]',
        None,
        "Ok",
        [("get_weather", '{"city": "a & \\"b\\"", "days": 3}'), ("ping", "{}")],
    ),
    (
        '[/think][tools][call tool="a&amp;b"][argument key="k&quot;" type="number"]x[/argument][/call]',
        None,
        None,
        [("a&b", '{"k\\"": "x"}')],
    ),
    (
        '[/think][tools][call tool="ping"][argument key="a" type="string"]Os',
        None,
        None,
        [("ping", '{"a": "Os')],
    ),
    ('[/think][tools][call index="1"][/call][/tools]', None, None, []),
    ("a [foo] b[/think][response]c [foo] d", k3("a [foo] b"), k3("c [foo] d"), []),
]


@pytest.mark.parametrize(("text", "reasoning", "content", "calls"), KIMI)
def test_kimi_k3(text: str, reasoning: str | None, content: str | None, calls: list[Any]) -> None:
    message = read(build("kimi_k3", "kimi_k3"), k3(text))
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


def test_kimi_k3_without_thinking() -> None:
    family = build("kimi_k3", "kimi_k3")
    assert read(family, k3("Hi[/response]"), {"thinking": False}).content == "Hi"
