"""Calls with attributes: DSML, MiniMax M2, Step 3, dots, MiniCPM 5."""

from __future__ import annotations

from typing import Any

import pytest

from parsers import build
from tests.parsers.reading import TOOLS, add_up, lexemes, parse

WEATHER, PING = ("get_weather", '{"city": "Paris", "days": 3}'), ("ping", "{}")


def dsml(word: str, blank: str = "") -> tuple[str, str]:
    opens, closes = f"<｜DSML｜{blank}", f"</｜DSML｜{blank}"
    calls = (
        f'{opens}invoke name="get_weather">\n'
        f'{opens}parameter name="city" string="true">Paris{closes}parameter>\n'
        f'{opens}parameter name="days" string="false">3{closes}parameter>\n{closes}invoke>\n'
        f'{opens}invoke name="ping">\n{closes}invoke>\n'
    )
    return f"{opens}{word}>\n{calls}{closes}{word}>", calls


def wrapped(key: str, value: str) -> str:
    parameter = f'<｜DSML｜parameter name="{key}" string="false">{value}</｜DSML｜parameter>'
    call = f'<｜DSML｜invoke name="get_weather">{parameter}</｜DSML｜invoke>'
    return f"<｜DSML｜tool_calls>{call}</｜DSML｜tool_calls>"


V4 = dsml("tool_calls")[0]
M2 = (
    '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
    "<parameter name='days'>3</parameter>\n</invoke>\n<invoke name=ping></invoke></minimax:tool_call>"
)
STEP = (
    "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="get_weather"><steptml:parameter name="city"> Paris\n</steptml:parameter>'
    '<steptml:parameter name="days">3</steptml:parameter></steptml:invoke><｜tool_call_end｜>\n'
    "<｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="ping"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>'
)
DOTS = (
    '<dots_function_call>\n<invoke name="get_weather"><parameter name="city">Paris</parameter>\n'
    '<parameter name="days">3</parameter></invoke>\n<invoke name="ping"></invoke></dots_function_call>'
)
CPM = (
    '<function name="get_weather"><param name="city">Paris</param><param name="days">3</param></function>\n'
    '<function name="ping"></function>'
)

CASES: list[tuple[str | None, str, str, str | None, str | None, list[tuple[str, str]]]] = [
    ("deepseek_v3", "deepseek_v32", f"Hi {dsml('function_calls')[0]} gone", None, "Hi ", [WEATHER, PING]),
    ("deepseek_v4", "deepseek_v4", f"r \n</think>{V4}gone", "r", None, [WEATHER, PING]),
    ("deepseek_v4", "deepseek_v4", f"r{V4}", "r", None, [WEATHER, PING]),
    ("deepseek_v4", "deepseek_v4", "a</think>x<think>b</think>y</think>z", "ab", "xyz", []),
    ("deepseek_v4", "deepseek_v4", f"</think>{dsml('tool_calls')[1]}", None, None, [WEATHER, PING]),
    (
        "deepseek_v4",
        "deepseek_v4",
        '</think>the <｜DSML｜invoke name="nope"> tag',
        None,
        'the <｜DSML｜invoke name="nope"> tag',
        [],
    ),
    (
        "deepseek_v4",
        "deepseek_v4",
        V4.join(("</think>", ""))[: V4.index("3</") + 9],
        None,
        None,
        [("get_weather", '{"city": "Paris"}')],
    ),
    (
        "deepseek_v4",
        "deepseek_v4",
        '</think><｜DSML｜tool_calls><｜DSML｜invoke name="get_weather">'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜tool_calls>gone',
        None,
        None,
        [("get_weather", '{"city": "Paris"}')],
    ),
    *(
        ("deepseek_v4", "deepseek_v4", f"</think>{wrapped(word, value)}", None, None, [("get_weather", said)])
        for word, value, said in (
            ("arguments", '{"city": "Paris", "days": "3"}', '{"city": "Paris", "days": 3}'),
            ("input", '{"town": "Paris"}', '{"input": {"town": "Paris"}}'),
            ("arguments", "Paris", '{"arguments": "Paris"}'),
            ("other", '{"city": "Paris"}', '{"other": {"city": "Paris"}}'),
        )
    ),
    ("deepseek_v41", "deepseek_v41", f"r</think>{dsml('calls', ' ')[0]}", "r", None, [WEATHER, PING]),
    (
        "minimax_m2",
        "minimax_m2",
        f"r\n</think>Hi\n{M2}\nafter",
        "r",
        "Hi\nafter",
        [WEATHER, PING],
    ),
    ("minimax_m2", "minimax_m2", f"r{M2}", "r", None, [WEATHER, PING]),
    (
        "minimax_m2",
        "minimax_m2",
        '</think><minimax:tool_call><invoke name="nope"><parameter name="a">b</parameter></invoke>'
        '<invoke name="ping"></invoke></minimax:tool_call>',
        None,
        None,
        [PING],
    ),
    (
        "minimax_m2",
        "minimax_m2",
        '</think>an <invoke name="nope"> in prose',
        None,
        'an <invoke name="nope"> in prose',
        [],
    ),
    ("minimax_m2_append_think", "minimax_m2", f"r</think>{M2}", None, "<think>r</think>", [WEATHER, PING]),
    ("step3", "step3", f"<think>r</think>Hi\n{STEP}\nafter", "<think>r", "Hi\n\nafter", [WEATHER, PING]),
    (
        "step3",
        "step3",
        f"</think>{STEP}"[: STEP.index("3</") + 9],
        None,
        None,
        [("get_weather", '{"city": "Paris", "days": ')],
    ),
    (None, "dots", f"Hi{DOTS}", None, "Hi", [WEATHER, PING]),
    (
        None,
        "dots",
        '<dots_function_call>{"name": "ping", "arguments": {}}</dots_function_call>',
        None,
        None,
        [PING],
    ),
    (
        None,
        "dots",
        '<dots_function_call>\n<invoke name="nope"><parameter name="a">1</parameter></invoke>'
        '<invoke name="ping"></invoke></dots_function_call>.',
        None,
        '<dots_function_call>\n<invoke name="nope"><parameter name="a">1</parameter></invoke>.',
        [PING],
    ),
    (
        None,
        "dots",
        '<dots_function_call><invoke name="no"></invoke></dots_function_call> <invoke name="ping"></invoke>',
        None,
        '<dots_function_call><invoke name="no"></invoke></dots_function_call> <invoke name="ping"></invoke>',
        [],
    ),
    (
        None,
        "dots",
        '<dots_function_call>{"name": "nope", "arguments": {}}</dots_function_call>',
        None,
        '<dots_function_call>{"name": "nope", "arguments": {}}</dots_function_call>',
        [],
    ),
    (None, "dots", "<dots_function_call>hello", None, "<dots_function_call>hello", []),
    (None, "minicpm5", f"Hi {CPM}", None, "Hi ", [WEATHER, PING]),
    (
        None,
        "minicpm5",
        '<function name="get_weather"><param name="city">a &lt;b&gt; &amp; &copy; '
        "<![CDATA[</param> & &lt;]]></param></function>",
        None,
        None,
        [("get_weather", '{"city": "a <b> & &copy; </param> & &lt;"}')],
    ),
    (None, "minicpm5", 'Write <function name="x"> so', None, 'Write <function name="x"> so', []),
]


@pytest.mark.parametrize(("reasoning", "tools", "text", "thought", "content", "calls"), CASES)
def test_read(
    reasoning: str | None,
    tools: str,
    text: str,
    thought: str | None,
    content: str | None,
    calls: list[tuple[str, str]],
) -> None:
    family = build(reasoning, tools)
    kwargs: dict[str, Any] = {}
    context = family.context(TOOLS, "auto", kwargs, "unknown")
    machine = family.start(context, family.markers)
    whole = add_up([*machine.feed(lexemes(family, text)), *machine.finish()])
    assert (whole.reasoning, whole.content, whole.calls) == (thought, content, calls)
    for seed in range(4):
        assert parse(family, lexemes(family, text, seed), context, resume=True) == whole


def test_thinking_that_is_off_may_be_opened() -> None:
    family = build("deepseek_v4", "deepseek_v4")
    for kwargs in ({"thinking": False}, {"reasoning_effort": "none"}):
        context = family.context(TOOLS, "auto", kwargs, family.prompt_verdict([], {}, kwargs))
        message = parse(family, lexemes(family, "<think>a</think>x"), context)
        assert (message.reasoning, message.content) == ("a", "x")
        assert parse(family, lexemes(family, "ax"), context).content == "ax"


def test_reasoning_that_is_left_in_the_content() -> None:
    family = build("minimax_m2_append_think", "minimax_m2")
    ids = {"<think>": [1], "</think>": [2]}
    assert set(ids) == family.prompt_markers
    assert family.reasoning_ended([1, 2], ids, {}) is True
    assert family.reasoning_ended([2, 1], ids, {}) is False
    for verdict, content in (("unknown", "<think>a</think>b"), ("over", "a</think>b")):
        context = family.context(TOOLS, "auto", {}, verdict)
        assert parse(family, lexemes(family, "a</think>b"), context).content == content
