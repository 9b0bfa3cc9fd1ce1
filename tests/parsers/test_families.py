"""What each family makes of typical and of broken output. Whole text and single characters must agree."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from parsers import State, UnknownParserError, build, reasoning_parser_names, tool_parser_names
from parsers.grammar import ForModel
from parsers.registry import reasoning_grammars, tool_grammars
from tests.parsers.reading import TOOLS, Message, lexemes, parse

Call = tuple[str, str]


def read(
    reasoning: str | None,
    tools: str | None,
    text: str,
    *,
    choice: Any = "auto",
    kwargs: dict[str, Any] | None = None,
    verdict: Any = "unknown",
    offered: Any = TOOLS,
) -> Message:
    family = build(reasoning, tools)
    context = family.context(offered, choice, kwargs or {}, verdict)
    whole = parse(family, lexemes(family, text), context)
    for seed in range(5):
        pieces = lexemes(family, text, seed)
        cut = parse(family, pieces, context, resume=True)
        assert (cut.reasoning, cut.content, cut.calls) == (whole.reasoning, whole.content, whole.calls)
    return whole


QWEN = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
PARIS = ("get_weather", '{"city": "Paris"}')


@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        ("<think>\nr\n</think>\n\nhello", "\nr\n", "\n\nhello", []),
        ("just text", "just text", None, []),
        ("", None, None, []),
        (f"<think>r</think>\n\n{HERMES}", "r", None, [PARIS]),
        (f"<think>r</think>ok {HERMES} tail", "r", "ok ", [PARIS]),
        (f"<think>r{HERMES}", "r", None, [PARIS]),
        (f"<think>r</think>{HERMES} and {HERMES}", "r", None, [PARIS, PARIS]),
        ("<think>r</think>a<tool_call>{bad}</tool_call>b", "r", "a<tool_call>{bad}</tool_call>b", []),
        ('</think><tool_call>{"name": "ping"}</tool_call>', None, None, [("ping", "{}")]),
        ('</think><tool_call>{"name": "ping", "argu', None, None, [("ping", "")]),
        ('</think><tool_call>{"na', None, '<tool_call>{"na', []),
        ('</think><tool_call>{"name": "f", "arguments": {"a": "x', None, None, [("f", '{"a": "x')]),
        (
            '</think><tool_call>{"arguments": {"name": "z"}, "name": "ping"}</tool_call>',
            None,
            None,
            [("ping", '{"name": "z"}')],
        ),
        (
            '</think><tool_call>{"name":"f","arguments":{"t":"use </tool_call> so"}}</tool_call>',
            None,
            None,
            [("f", '{"t": "use </tool_call> so"}')],
        ),
        ("</think>a < b </tool_call", None, "a < b </tool_call", []),
        ("</think>a <tool_ca", None, "a <tool_ca", []),
    ],
)
def test_qwen3_with_hermes(text: str, reasoning: str | None, content: str | None, calls: list[Call]) -> None:
    message = read("qwen3", "hermes", text)
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


def test_hermes_leaves_markup_when_no_tools_are_wanted() -> None:
    assert read("qwen3", "hermes", f"r</think>{HERMES}", choice="none").content == HERMES
    assert read("qwen3", "hermes", f"r</think>{HERMES}", offered=None, choice="none").content == HERMES


def test_reasoning_follows_the_prompt_and_the_switch() -> None:
    assert read("qwen3", "hermes", "text", verdict="over").content == "text"
    off = read("qwen3", "hermes", "<think>a</think>b", kwargs={"enable_thinking": False})
    assert (off.reasoning, off.content) == (None, "<think>a</think>b")
    assert read("qwen3", "hermes", "", kwargs={"enable_thinking": False}).content == ""


def test_blank_content_is_none_when_a_call_was_required() -> None:
    assert read("qwen3", "hermes", "</think>\n\n", choice="required").content is None
    assert read("qwen3", "hermes", "</think>\n\n").content == "\n\n"


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (QWEN, None, [PARIS]),
        (f"I'll look.\n{QWEN}\n{QWEN}", "I'll look.", [PARIS, PARIS]),
        (f"a {QWEN} b", "a b", [PARIS]),
        ("<tool_call>\n<function=ping>\n</function>\n</tool_call>", None, [("ping", "{}")]),
        ("<tool_call>\n<function=pi", None, []),
        ("<tool_call>\n<function=ping>\n", None, [("ping", "{}")]),
        (
            "<tool_call><function=get_weather><parameter=city>\nPar",
            None,
            [("get_weather", '{"city": "Par')],
        ),
        ("<tool_call><function=get_weather><parameter=days>\n3", None, [("get_weather", '{"days": ')]),
        (
            "<tool_call><function=get_weather><parameter=days>\n3\n</parameter></function></tool_call>",
            None,
            [("get_weather", '{"days": 3}')],
        ),
        (
            "<tool_call><function=get_weather><parameter=city>\nA\n<parameter=days>2</function></tool_call>",
            None,
            [("get_weather", '{"city": "A", "days": 2}')],
        ),
        (
            "<tool_call><function=ping><function=get_weather><parameter=city>A</parameter></function>",
            None,
            [("ping", "{}"), ("get_weather", '{"city": "A"}')],
        ),
        (
            "<tool_call><function=ping><parameter=code>\nprint('<tool_call>')\n</parameter></function>",
            None,
            [("ping", '{"code": "print(\'<tool_call>\')"}')],
        ),
        (
            "The syntax is <function=name> ... </function>",
            "The syntax is <function=name> ... </function>",
            [],
        ),
        ("so <function=ping>\n</function>", "so", [("ping", "{}")]),
        ("Use `<tool_call>` then", "Use `", []),
        ("Use <func", "Use <func", []),
        ("See <function=get_wea", "See <function=get_wea", []),
        ("See <function=pin", "See <function=pin", []),
        ("a</think>b", "ab", []),
    ],
)
def test_qwen3_coder(text: str, content: str | None, calls: list[Call]) -> None:
    message = read("qwen3", "qwen3_coder", text, verdict="over")
    assert (message.reasoning, message.content, message.calls) == (None, content, calls)


@pytest.mark.parametrize(("name", "content"), [("step3p5", "\nOn it."), ("step5", "\nOn it.\n")])
def test_whitespace_before_calls_of_step(name: str, content: str) -> None:
    message = read(name, name, f"</think>\nOn it.\n{QWEN}")
    assert (message.content, message.calls) == (content, [PARIS])


def test_qwen3_coder_takes_calls_out_even_if_nobody_asked() -> None:
    assert read("qwen3", "qwen3_coder", f"</think>Hi {QWEN}", choice="none").content == "Hi "
    assert read("qwen3", "qwen3_coder", f"</think>\n\n{QWEN}", choice="none").content is None
    assert read("qwen3", "qwen3_coder", "</think>\n\nHi \n", choice="none").content == "\n\nHi \n"
    assert read("qwen3", "qwen3_coder", "</think>\n\n", choice="none").content == "\n\n"


@pytest.mark.parametrize("choice", ["auto", "none"])
@pytest.mark.parametrize(
    ("text", "content"),
    [
        (f"\n{QWEN}", None),
        (f"\n{QWEN}\n", None),
        (f"\n{QWEN}\nDone.", "Done."),
        (f"{QWEN}\n{QWEN}\n and", "and"),
        (f"Hi{QWEN}\nDone.", "Hi\nDone."),
        ("\n<tool_call>\n<function=get_we", None),
        ("\n\nHi", "\n\nHi"),
        ("\n\n", "\n\n"),
    ],
)
def test_qwen3_coder_counts_no_whitespace_around_calls_as_content(
    text: str, content: str | None, choice: str
) -> None:
    assert read("qwen3", "qwen3_coder", text, choice=choice, verdict="over").content == content


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ('{"name": "ping", "parameters": {}}', None, [("ping", "{}")]),
        ('\n{"name": "ping", "parameters": {"a":1}}', None, [("ping", '{"a": 1}')]),
        ('<|python_tag|>{"name": "ping", "arguments": {}}', None, [("ping", "{}")]),
        (
            '{"name": "ping", "parameters": {}}; {"name": "f", "parameters": {}}',
            None,
            [("ping", "{}"), ("f", "{}")],
        ),
        ('Sure! {"name": "ping", "parameters": {}} ok', 'Sure! {"name": "ping", "parameters": {}} ok', []),
        ('{"a": 1}', '{"a": 1}', []),
        ('{"name": "Bob", "age": 3} is it', '{"name": "Bob", "age": 3} is it', []),
        ('{"name": "pi', '{"name": "pi', []),
        (
            '{"name": "get_weather", "parameters": {"city": "Par',
            None,
            [("get_weather", '{"city": "Par')],
        ),
        ("[1]", "[1]", []),
    ],
)
def test_llama_json(text: str, content: str | None, calls: list[Call]) -> None:
    message = read(None, "llama3_json", text)
    assert (message.content, message.calls) == (content, calls)


def v3(body: str) -> str:
    return f"<｜tool▁calls▁begin｜>{body}<｜tool▁calls▁end｜>"


def v3_call(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (v3(v3_call("ping", "{}")), None, [("ping", "{}")]),
        (
            "A" + v3(v3_call("ping", "{}") + "\n" + v3_call("f", '{"x":1}')) + " tail",
            "A\n tail",
            [("ping", "{}"), ("f", '{"x":1}')],
        ),
        (v3(v3_call("f", '{\n  "a": [1,\n 2]\n}')), None, [("f", '{\n  "a": [1,\n 2]\n}')]),
        (v3(v3_call("f", '{"code": "```"}')), None, [("f", '{"code": "```"}')]),
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a',
            None,
            [("f", '{"a')],
        ),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>pi", None, []),
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n{"a":1}<｜tool▁call▁end｜>',
            None,
            [("f", '{"a":1}')],
        ),
        ("x <｜tool▁call▁end｜> y", "x <｜tool▁call▁end｜> y", []),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>\n```json\n{}\n```<｜tool▁call▁end｜>",
            "```json\n{}\n```",
            [],
        ),
    ],
)
def test_deepseek_v3(text: str, content: str | None, calls: list[Call]) -> None:
    message = read("deepseek_r1", "deepseek_v3", f"t</think>{text}")
    assert (message.reasoning, message.content, message.calls) == ("t", content, calls)


def test_deepseek_reasoning() -> None:
    assert read("deepseek_r1", None, "<think></think>x").reasoning == ""
    assert read("deepseek_r1", None, "endless").reasoning == "endless"
    assert read("deepseek_v3", None, "a</think>b").content == "a</think>b"
    on = read("deepseek_v3", None, "a</think>b</think>", kwargs={"thinking": True})
    assert (on.reasoning, on.content) == ("a", "b</think>")


def test_deepseek_v31() -> None:
    text = v3('<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a":1}<｜tool▁call▁end｜>')
    assert read("deepseek_v3", "deepseek_v31", "T " + text).calls == [("f", '{"a":1}')]


def test_reasoning_tokens_are_counted_by_lexeme() -> None:
    family = build("qwen3", None)
    machine = family.start(family.context(None, None, {}, "unknown"), family.markers)
    machine.feed(lexemes(family, "<think>"))
    machine.feed(["\n", "ab", "", " cd"])
    machine.feed(lexemes(family, "</think>x"))
    assert machine.reasoning_tokens == 4
    r1 = build("deepseek_r1", None)
    machine = r1.start(r1.context(None, None, {}, "open"), r1.markers)
    machine.feed(["a", "b"])
    assert machine.reasoning_tokens == 0


def test_prompt_verdict() -> None:
    family = build("qwen3", "hermes")
    ids = {"<think>": [1], "</think>": [2], "<tool_call>": [3, 7], "<|im_start|>": [4], "<|im_end|>": [5]}
    assert set(ids) == family.prompt_markers
    assert family.prompt_verdict([9, 1, 8], ids, {}) == "open"
    assert family.prompt_verdict([9, 1, 8, 2, 8], ids, {}) == "over"
    assert family.prompt_verdict([1, 2, 4, 8], ids, {}) == "unknown"
    assert family.prompt_verdict([1, 3, 7, 8], ids, {}) == "over"
    assert family.prompt_verdict([1, 7, 8], ids, {}) == "open"
    assert family.reasoning_ended([4, 8], ids, {"enable_thinking": False}) is True
    assert family.reasoning_ended([4, 8], ids, {}) is False
    assert build(None, "hermes").reasoning_ended([4], ids, {}) is None


def test_special_token_rule() -> None:
    assert build("qwen3", None).skip_special_tokens(False, "none") is False
    assert build(None, "hermes").skip_special_tokens(True, "auto") is False
    assert build(None, "hermes").skip_special_tokens(True, "none") is None
    assert build("deepseek_r1", "deepseek_v3").skip_special_tokens(True, "auto") is None


def test_numbers_are_passed_on_digit_by_digit() -> None:
    family = build(None, "hermes")
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), family.markers)
    machine.feed([*lexemes(family, "<tool_call>"), '{"name": "f", "arguments": {"a": '])
    said = [add_content(machine.feed([piece])) for piece in ("1", "2", ".", "5", "0", "}")]
    assert said == [" 1", "2", "", "", "", ".5}"]


def test_an_answer_in_json_is_not_held_back() -> None:
    family = build(None, "llama3_json")
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), family.markers)
    assert add_content(machine.feed(['{"answer"', ": [1, 2", ", 3"])) == '{"answer": [1, 2, 3'


def test_undecided_text_is_bounded() -> None:
    family = build(None, "llama3_json")
    context = family.context(TOOLS, "auto", {}, "unknown", max_undecided=100)
    machine = family.start(context, family.markers)
    events = machine.feed(['{"arguments": {"a": "', "x" * 200])
    assert add_content(events) == '{"arguments": {"a": "' + "x" * 200


def add_content(events: Any) -> str:
    return "".join(event.text for event in events if hasattr(event, "text"))


def test_names() -> None:
    assert {"qwen3", "deepseek_r1", "deepseek_v3"} <= set(reasoning_parser_names())
    wanted = {
        "hermes",
        "qwen3_coder",
        "qwen3_xml",
        "llama3_json",
        "llama4_json",
        "deepseek_v3",
        "deepseek_v31",
    }
    assert wanted <= set(tool_parser_names())
    with pytest.raises(UnknownParserError, match="invalid tool parser: nope"):
        build(None, "nope")


@pytest.mark.parametrize("snapshot", [[], [1], ["nowhere"], ["call"], ["content", 1], {"a": 1}, "x"])
def test_forged_snapshots_are_refused(snapshot: Any) -> None:
    family = build("qwen3", "hermes")
    context = family.context(TOOLS, "auto", {}, "unknown")
    with pytest.raises(ValueError):
        family.resume(context, family.markers, msgspec.convert(snapshot, State))


def test_no_two_grammars_that_may_meet_name_a_region_alike() -> None:
    """Their regions stand in one table."""
    tools = [grammar for grammar in tool_grammars() if not isinstance(grammar, ForModel)]
    for grammar in reasoning_grammars():
        if not isinstance(grammar, ForModel) and not grammar.framing:
            assert not [other.names for other in tools if grammar.regions.keys() & other.regions.keys()]
    family = build("gemma4", "pythonic")
    message = parse(family, ["[get_weather()]"], family.context(TOOLS, "auto", {}, "over"))
    assert (message.content, message.calls) == (None, [("get_weather", "{}")])


@pytest.mark.parametrize(
    ("names", "opener"),
    [
        (("qwen3", "qwen3_coder"), "<tool_call>"),
        (("glm45", "glm45"), "<tool_call>"),
        (("kimi_k2", "kimi_k2"), "<|tool_calls_section_begin|>"),
        (("minimax_m2", "minimax_m2"), "<minimax:tool_call>"),
    ],
)
def test_an_opener_in_the_reasoning_that_opens_no_call_leaves_the_answer(
    names: tuple[str, str], opener: str
) -> None:
    message = read(*names, f"<think>Maybe {opener} helps.</think>The answer is 42.")
    assert (message.reasoning or "").strip() == "Maybe"
    assert (message.content, message.calls) == ("The answer is 42.", [])
