"""Arguments that are JSON and pass through: Kimi K2, Mistral, gpt-oss, PLaMo, Inkling, Cohere."""

from __future__ import annotations

import re
from typing import Any

import pytest

from parsers import Event, Marker, ModelFacts, UnfitModelError, build
from parsers.events import Skipped
from tests.parsers.reading import TOOLS, Message, add_up, lexemes, parse, resumed

Calls = list[tuple[str, str]]

FIVE = '{"i":"5"}'
BARE = '{"name":"ping"}'

TYPED: list[dict[str, Any]] = [
    *TOOLS,
    {
        "type": "function",
        "function": {
            "name": "mk",
            "parameters": {
                "type": "object",
                "properties": {
                    "i": {"type": "integer"},
                    "nest": {"type": "object", "properties": {"k": {"type": "integer"}}},
                },
            },
        },
    },
]


def read(
    names: tuple[str | None, str | None], text: str, lacks: tuple[str, ...] = (), **request: Any
) -> Message:
    """The message of a text, the same however it is cut. `lacks`: markers that are no tokens."""
    family = build(*names, ModelFacts(is_token=lambda marker: marker not in lacks))
    context = family.context(
        request.get("tools", TYPED),
        request.get("choice", "auto"),
        request.get("kwargs", {}),
        request.get("verdict", "unknown"),
        request.get("limit", 65536),
    )
    tokens = family.markers - set(lacks)
    pieces = lexemes(family, text)
    known = [piece if piece in tokens else str(piece) for piece in pieces]
    machine = family.start(context, tokens)
    whole = add_up([*machine.feed(known), *machine.finish()])
    single = [one for piece in known for one in ([piece] if type(piece) is Marker else list(piece))]
    machine = family.start(context, tokens)
    events: list[Event] = []
    for one in single:
        events += machine.feed([one])
        machine = resumed(family, context, tokens, machine)
    events += machine.finish()
    cut = add_up(events)
    assert (cut.reasoning, cut.content, cut.calls, cut.complete) == (
        whole.reasoning,
        whole.content,
        whole.calls,
        whole.complete,
    )
    return whole


def check(message: Message, reasoning: str | None, content: str | None, calls: Calls) -> None:
    assert (message.reasoning, message.content, message.calls) == (reasoning, content, calls)


# Kimi K2

KIMI = ("kimi_k2", "kimi_k2")
K, K_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"


def kimi(header: str, arguments: str, end: str = "<|tool_call_end|>") -> str:
    return f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{arguments}{end}"


PING_0 = kimi("functions.ping:0", "{}")


@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        (f"why </think>so{K}{PING_0}{K_END}", "why", "so", [("ping", "{}")]),
        (f"why{K}{PING_0}{K_END}lost{K}{PING_0}{K_END}", "why", None, [("ping", "{}")] * 2),
        (f"a</think>{K}{kimi(' functions.a.b:12 ', ' {} ')}{K_END}", "a", None, [("a.b", "{}")]),
        (f"a</think>{K}{kimi('functions.ping:0', ' ')}{K_END}", "a", None, [("ping", "{}")]),
        (f"a</think>{K}<|tool_call_begin|>ping:0<|tool_call_end|>{K_END}", "a", None, [("ping", "{}")]),
        (f"a</think>{K}{kimi('ping', '{}')}{PING_0}{K_END}", "a", None, [("ping", "{}")]),
        (f"a</think>{K}{kimi('functions.:1', '{}')}{K_END}", "a", None, []),
        (f"a</think>{K}{kimi('functions.ping:0', '{', '')}", "a", None, [("ping", "{")]),
        (f"a</think>{K}<|tool_call_begin|>functions.pi", "a", None, []),
        (f"a</think>{K}{kimi('mk:0', FIVE + ' x')}{K_END}", "a", None, [("mk", '{"i":5} x')]),
        (f"a</think>{PING_0}", "a", PING_0, []),
        ("a</think>b</think>c<think>d", "a", "bc<think>d", []),
        ("all of it", "all of it", None, []),
    ],
)
@pytest.mark.parametrize("lacks", [(), (K, K_END, "<|tool_call_end|>", "<|tool_call_argument_begin|>")])
def test_kimi(
    lacks: tuple[str, ...], text: str, reasoning: str | None, content: str | None, calls: Calls
) -> None:
    check(read(KIMI, text, lacks), reasoning, content, calls)


def test_kimis_markers_are_text_where_thinking_is_off() -> None:
    for kwargs in ({"thinking": False}, {"enable_thinking": False}):
        check(read(KIMI, "a</think>b", kwargs=kwargs), None, "a</think>b", [])
    both = {"thinking": True, "enable_thinking": False}
    check(read(KIMI, "a</think>b", kwargs=both), "a", "b", [])


def test_kimis_calls_bring_their_ids() -> None:
    assert read(KIMI, f"{K}{PING_0}{kimi('mk:7', '{}')}{K_END}").ids == ["functions.ping:0", "mk:7"]


@pytest.mark.parametrize("between", ["a\n:", "<b>:"])
def test_kimis_ids_are_of_one_line(between: str) -> None:
    message = read(KIMI, f"{K}{kimi(f'functions.ping:{between}1', '{}')}{K_END}")
    assert (message.calls, message.ids) == ([("ping", "{}")], [None])
    assert message.anomalies == {"dropped_text": len(f"functions.:{between}1")}


# Mistral

MISTRAL = ("mistral", "mistral")
OLD = ("[ARGS]", "[THINK]", "[/THINK]")
ONE = '{"name": "ping", "arguments": {"a":1}}'


@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        (
            'ok [TOOL_CALLS]mk[ARGS]{"i": "5"}[TOOL_CALLS]ping{}',
            None,
            "ok",
            [("mk", '{"i": 5}'), ("ping", "{}")],
        ),
        ('[TOOL_CALLS]mk[ARGS]{"nest": {"k":"1"}}', None, None, [("mk", '{"nest": {"k":1}}')]),
        ("[TOOL_CALLS] ping [ARGS] {} tail", None, "tail", [("ping", "{}")]),
        ("[TOOL_CALLS]ping[ARGS][TOOL_CALLS]ping[ARGS]{", None, None, [("ping", "{}"), ("ping", "{")]),
        ("[TOOL_CALLS]ping[ARGS]", None, None, [("ping", "")]),
        ("[TOOL_CALLS]pi", None, "[TOOL_CALLS]pi", []),
        ("[TOOL_CALLS][ARGS]{}", None, "[TOOL_CALLS][ARGS]{}", []),
        ("Write `[TOOL_CALLS]` first.\nThen {}", None, "Write `[TOOL_CALLS]` first.\nThen {}", []),
        ("[THINK]why [TOOL_CALLS]ping[ARGS]{}", "why", None, [("ping", "{}")]),
        ("a[THINK]b[/THINK]c[/THINK]d", "b", "acd", []),
        (f"[TOOL_CALLS][{ONE}]", None, None, [("ping", '{"a": 1}')]),
    ],
)
def test_mistral_with_names(text: str, reasoning: str | None, content: str | None, calls: Calls) -> None:
    check(read(MISTRAL, text), reasoning, content, calls)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"ok [TOOL_CALLS] [{ONE}, {ONE}] tail", "ok  tail", [("ping", '{"a": 1}')] * 2),
        (f"[TOOL_CALLS]{ONE}", None, [("ping", '{"a": 1}')]),
        ('[TOOL_CALLS][{"name": "ping", "arguments": "{\\"a\\": 1}"}]', None, [("ping", '{"a": 1}')]),
        ('[TOOL_CALLS][{"arguments": {}, "name": "ping"}, {"bad": 1}]', None, [("ping", "{}")]),
        ('[TOOL_CALLS][{"name": "ping", "arguments": {"a": "Pa', None, [("ping", '{"a": "Pa')]),
        ("[TOOL_CALLS] not that", "not that", []),
        ("[TOOL_CALLS][1]", "[1]", []),
        (f"[{ONE}]", f"[{ONE}]", []),
    ],
)
def test_mistral_with_an_array(text: str, content: str | None, calls: Calls) -> None:
    check(read(MISTRAL, text, OLD), None, content, calls)


def test_a_forced_call_of_mistral_is_an_array_without_marker() -> None:
    for lacks in ((), OLD):
        check(read(MISTRAL, f"[{ONE}]", lacks, choice="required"), None, None, [("ping", '{"a": 1}')])
        check(read(MISTRAL, "plain", lacks, choice="required"), None, "plain", [])


@pytest.mark.parametrize("offered", [TOOLS, []])
def test_a_marker_of_mistral_that_is_skipped_opens_no_call_that_nobody_wants(offered: Any) -> None:
    family = build(None, "mistral", ModelFacts(is_token=lambda marker: True))
    context = family.context(offered, "none", {}, "unknown")
    message = parse(family, [Skipped("[TOOL_CALLS]"), "ping", "{}"], context)
    assert (message.content, message.calls) == ("ping{}", [])


def test_mistral_needs_its_token() -> None:
    with pytest.raises(UnfitModelError, match=re.escape("[TOOL_CALLS]")):
        build(None, "mistral", ModelFacts(is_token=lambda marker: False))


# gpt-oss

OSS = ("openai_gptoss", "openai")
FINAL, THOUGHT = "<|channel|>final<|message|>", "<|channel|>analysis<|message|>"
NEXT = "<|end|><|start|>assistant"


def to(recipient: str, body: str, kind: str = " <|constrain|>json") -> str:
    return f"<|channel|>commentary to={recipient}{kind}<|message|>{body}"


@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        (f"{THOUGHT}A{NEXT}{THOUGHT}B{NEXT}{FINAL}C{NEXT}{FINAL}D", "A\nB", "C\nD", []),
        (f"{THOUGHT}A{NEXT}{to('functions.ping', '{}')}<|call|>", "A", None, [("ping", "{}")]),
        (" to=functions.ping<|channel|>commentary<|message|>{}", None, None, [("ping", "{}")]),
        (to("ping", ' {"a" :1} ', ""), None, None, [("ping", '{"a" :1}')]),
        (to("functions.ping", "print(1)", " code"), None, None, [("ping", "print(1)")]),
        (to("functions.ping", ""), None, None, [("ping", "")]),
        (to("browser.search", "{}"), None, None, []),
        (to("functions.", "{}"), None, None, []),
        ("<|channel|>analysis to=python code<|message|>x=1", "x=1", None, []),
        (f"<|channel|>commentary<|message|>I will.{NEXT}{to('f', '{')}", None, "I will.", [("f", "{")]),
        (f"{THOUGHT}a{FINAL}b", f"a{FINAL}b", None, []),
        (f"{THOUGHT}a<|end|>junk<|start|>assistant{FINAL}b", "a", "b", []),
        (f"<|start|>assistant{FINAL}b", None, "b", []),
        (f"{FINAL}a{NEXT}<|channel|>fin", None, "a\n<|start|>assistant<|channel|>fin", []),
        ("<|channel|>analy", None, "<|channel|>analy", []),
        ("Hello plain", None, "Hello plain", []),
        ("to=x is an equation", None, "to=x is an equation", []),
    ],
)
def test_gpt_oss(text: str, reasoning: str | None, content: str | None, calls: Calls) -> None:
    check(read(OSS, text), reasoning, content, calls)


def test_gpt_oss_with_one_parser() -> None:
    text = f"{THOUGHT}A{NEXT}{FINAL}B"
    assert read((None, "openai"), text).reasoning is None
    check(read(("openai_gptoss", None), text), "A", "B", [])


def test_unframed_text_does_not_wait() -> None:
    family = build(*OSS)
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), family.markers)
    assert add_up(machine.feed(["Hel"])).content == "Hel"


def test_reasoning_tokens_of_gpt_oss() -> None:
    family = build(*OSS)
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), family.markers)
    text = f"{THOUGHT}abc{NEXT}{to('functions.ping', 'xy')}<|call|>"
    machine.feed(
        [one for piece in lexemes(family, text) for one in ([piece] if type(piece) is Marker else piece)]
    )
    assert machine.reasoning_tokens == 5


# PLaMo 3


def word(name: str) -> str:
    return f"<|plamo:{name}:plamo|>"


def plamo(name: str, arguments: str, form: str = "<|plamo:constrain|>json<|plamo:msg|>") -> str:
    return (
        f"{word('begin_tool_request')}{word('begin_tool_name')}{name}{word('end_tool_name')}"
        f"{word('begin_tool_arguments')}{form}{arguments}"
        f"{word('end_tool_arguments')}{word('end_tool_request')}"
    )


P, P_END = word("begin_tool_requests"), word("end_tool_requests")
PLAMO_TEXT = (
    *map(word, ("begin_think", "end_think", "end_tool_name", "begin_tool_request")),
    P,
    P_END,
)


@pytest.mark.parametrize("lacks", [(), PLAMO_TEXT])
@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        (f"a{word('end_think')}b", "a", "b", []),
        (f"{word('begin_think')}a<|plamo:tag|>b", "a", "b", []),
        (f"a{P}{plamo('mk', FIVE)}{P_END} tail", "a", "tail", [("mk", '{"i":5}')]),
        (
            f"{P}{plamo(' ping ', ' {} ', '')} mid {plamo('ping', '')}{P_END}",
            None,
            None,
            [("ping", "{}")] * 2,
        ),
        (f"{P}{plamo('', '{}')}{plamo('ping', 'bad')}{P_END}", None, None, [("ping", "bad")]),
        (f"{P}{word('begin_tool_name')}pi", None, None, []),
    ],
)
def test_plamo(
    lacks: tuple[str, ...], text: str, reasoning: str | None, content: str | None, calls: Calls
) -> None:
    check(read(("plamo3", "plamo3"), text, lacks), reasoning, content, calls)


# Inkling

INKLING = ("inkling", "inkling")
M, END = "<|message_model|>", "<|end_message|>"


def invoke(body: str) -> str:
    return f"{M}<|content_invoke_tool_json|>{body}{END}"


@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        (f"<|content_thinking|>a\n{END}{M}<|content_text|>b{END}", "a", "b", []),
        (f"{M}name<|content_text|>b{END}<|content_model_end_sampling|>", None, "b", []),
        ("two words", None, "two words", []),
        (
            invoke('{"name":"mk","args":{"i" : "5"}}') + invoke('{"args":{"i":"6"},"name":"mk"}'),
            None,
            None,
            [("mk", '{"i" : 5}'), ("mk", '{"i":6}')],
        ),
        (invoke('{"name":"ping","args":"text"}'), None, None, [("ping", "text")]),
        (f"{invoke('bad')}{M}<|content_text|>x", None, "x", []),
        (f"<|content_text|>a{invoke(BARE + ' more')}<|content_text|>b", None, "ab", [("ping", "{}")]),
        (f"<|content_thinking|>a<|content_text|>b{END}", "a<|content_text|>b", None, []),
    ],
)
def test_inkling(text: str, reasoning: str | None, content: str | None, calls: Calls) -> None:
    check(read(INKLING, text), reasoning, content, calls)


def test_inklings_authors_are_counted() -> None:
    message = read(INKLING, f"é<|content_thinking|>a{END}{M}name<|content_text|>b")
    assert (message.reasoning, message.content, message.anomalies) == ("a", "b", {"dropped_text": 5})


def test_inkling_without_a_tool_parser_leaves_calls_in_the_text() -> None:
    message = read(("inkling", None), invoke('{"name":"ping"}'))
    assert message.content == '<|content_invoke_tool_json|>{"name":"ping"}'


# Cohere Command

A, A_END = "<|START_ACTION|>", "<|END_ACTION|>"
ACTION = '{"tool_call_id": "0", "tool_name": "ping", "parameters": {"a" :1}}'


@pytest.mark.parametrize(("version", "answer"), [(3, "RESPONSE"), (4, "TEXT")])
@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        ("<|START_THINKING|> a\n<|END_THINKING|>\n(b\n)", "a", "b", []),
        ("(The <co>sky</co: 0:[1,2]> is <co>blue</co: 1>.)", None, "The sky is blue.", []),
        ("(a < b </co: 1> c)", None, "a < b </co: 1> c", []),
        ("(<co>open)", None, "open", []),
        (f"<|START_THINKING|>a{A}[\n{ACTION},{ACTION}]{A_END}x(b)", "a", "b", [("ping", '{"a" :1}')] * 2),
        (f"(a){A}bad{A_END}(b)", None, "ab", []),
        (f'{A}[{{"tool_call_id": "0", "tool_name": "pi', None, None, []),
    ],
)
def test_cohere(
    version: int, answer: str, text: str, reasoning: str | None, content: str | None, calls: Calls
) -> None:
    name = f"cohere_command{version}"
    text = text.replace("(", f"<|START_{answer}|>").replace(")", f"<|END_{answer}|>")
    message = read((name, name), text)
    check(message, reasoning, content, calls)
    assert message.ids == ["0"] * len(calls)


def test_coheres_text_before_any_section() -> None:
    check(read(("cohere_command3", None), "a"), None, "a", [])
    check(read(("cohere_command4", None), "a"), "a", None, [])
    assert read((None, "cohere_command3"), "<|START_THINKING|>a").reasoning == "a"
