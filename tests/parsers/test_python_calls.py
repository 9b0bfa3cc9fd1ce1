"""Calls written in Python: literals as JSON, whatever the cuts, and prose that only begins like a call."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from parsers import build
from parsers.bodies import Said
from parsers.bodies.python_call import PythonCall, PythonCallState
from tests.parsers.reading import TOOLS, Message, lexemes, parse

LISTED = PythonCall(opening="[")


def say(text: str, size: int) -> tuple[str | None, str, bool, str]:
    """Name, arguments, whether the call ended, and what it left; a name of None is no call."""
    state, arguments, used = LISTED.start(None), "", 0
    for at in range(0, len(text), size):
        said = Said()
        used += LISTED.feed(state, text[at : at + size], {}, said)
        arguments += "".join(said.arguments)
        state = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(state))), PythonCallState)
        if said.failed:
            return None, "", False, text[used:]
        if state.done:
            return state.name, arguments, True, text[used:]
    said = Said()
    LISTED.end(state, said, by_marker=False)
    return state.name, arguments + "".join(said.arguments), False, text[used:]


def agreed(text: str) -> tuple[str | None, str, bool, str]:
    whole = say(text, len(text))
    for size in (1, 2, 3, 7):
        assert say(text, size) == whole
    return whole


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("", "{}"),
        ("a='x', b = \"y\" ,", '{"a": "x", "b": "y"}'),
        ("a=-5, b=1.50, c=1e5, d=0x10, e=1_000, f=.5, g=-0, h=007", None),
        ("a=True, b=None, c=false, d=null", '{"a": true, "b": null, "c": false, "d": null}'),
        ("a=[1, 'b', {'c': (2, 3)}], b={1, 2}", '{"a": [1, "b", {"c": [2, 3]}], "b": [1, 2]}'),
        ("a=(1), b=(1,), c=(), d={}, e=(('x'),)", '{"a": 1, "b": [1], "c": [], "d": {}, "e": ["x"]}'),
        ("a={1: 2, None: 3, 2.5: {True: []}}", '{"a": {"1": 2, "null": 3, "2.5": {"true": []}}}'),
        (
            r"""a='it\'s \n \x41 \u00e9 \101 \N{BULLET} \q\
'""",
            '{"a": "it\'s \\n A é A • \\\\q"}',
        ),
        (
            r"a=r'\n', b=f'x', c=u'', d='\ud83d\ude00'",
            r'{"a": "\\n", "b": "x", "c": "", "d": "\ud83d\ude00"}',
        ),
        ("a='one ' \"two\", b='''it's\n''', c=('x' 'y')", '{"a": "one two", "b": "it\'s\\n", "c": "xy"}'),
        ("city='a', city='b'", '{"city": "a", "city": "b"}'),
        ("from='x', class='y'", '{"from": "x", "class": "y"}'),
        # what is wrong behind a certain beginning
        ("a='it's', b=1", '{"a": "it\'s", "b": 1}'),
        ('a="say "hi", now"', '{"a": "say \\"hi\\", now"}'),
        ("a=1, b=foo(2, ')'), c=[g, 1]", '{"a": 1, "b": "foo(2, \')\')", "c": ["g", 1]}'),
        ("a=1, 'positional', b=2", '{"a": 1, "b": 2}'),
        ("a='x', **more", '{"a": "x"}'),
        ("a={'x': [1, 2}, b=[1,,2]", '{"a": {"x": [1, 2]}, "b": [1, 2]}'),
        ("a={'x', 'y'}, b={'x':}", '{"a": ["x", "y"], "b": {"x": null}}'),
        ("a=1, b=1.2.3", '{"a": 1, "b": "1.2.3"}'),
        ("a=" + "1" * 90, '{"a": ' + "1" * 90 + "}"),
    ],
)
def test_literals_become_json(written: str, arguments: str | None) -> None:
    name, found, whole, rest = agreed(f"[f.g({written})] and more")
    assert (name, whole, rest) == ("f.g", True, "] and more")
    values = json.loads(found)
    if arguments is None:
        assert list(values.values()) == [-5, 1.5, 100000.0, 16, 1000, 0.5, 0, 7]
    else:
        assert found == arguments


@pytest.mark.parametrize(
    "prose",
    [
        "[1, 2]",
        "[link](http://x)",
        "[f",
        "[f(",
        "[f(a",
        "[f(a)]",
        "[f('x')]",
        "[f(a=b)]",
        "[]",
        "[f(a=b'x')]",
        "[f-g(a=1)]",
        "[Note: (a=1)]",
        "(f())",
        "[f(1)]",
        '[{"name": "f"}]',
    ],
)
def test_what_is_no_call(prose: str) -> None:
    assert agreed(prose)[0] is None


@pytest.mark.parametrize(
    ("cut", "arguments"),
    [
        ("[f(a='x", '{"a": "x'),
        ("[f(a='x\\", '{"a": "x'),
        ("[f(a=1, b", '{"a": 1'),
        ("[f(a=1, b=23", '{"a": 1'),
        ("[f(a=[1, 23", '{"a": [1, 23'),
        ("[f(a=({'k': [1, 'y", '{"a": {"k": [1, "y'),
        ("[f(a={'k", '{"a": {"k'),
    ],
)
def test_a_cut_call_keeps_what_is_sure(cut: str, arguments: str) -> None:
    assert agreed(cut)[:3] == ("f", arguments, False)


def literal(rng: random.Random, depth: int) -> Any:
    """Any value that Python writes and JSON can hold."""
    kind = rng.randrange(11 if depth else 7)
    if kind < 3:
        return rng.choice([0, -7, 10**20, 1.5, -2e-7, 1e16, True, False, None])
    if kind < 7:
        return "".join(rng.choice("ab'\"\\\n\t é😀,:(){}[]=") for _ in range(rng.randrange(9)))
    parts = [literal(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind < 9:
        return parts if kind == 7 else tuple(parts)
    return {rng.choice(["k", f"k{at}", at, at + 0.5]): part for at, part in enumerate(parts)}


@pytest.mark.parametrize("seed", range(40))
def test_python_reads_its_own_literals_likewise(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        values = {key: literal(rng, 3) for key in rng.sample("abcdef", rng.randrange(1, 4))}
        text = "[f(" + ", ".join(f"{key}={value!r}" for key, value in values.items()) + ")]"
        assert agreed(text) == ("f", json.dumps(values, ensure_ascii=False), True, "]")


@pytest.mark.parametrize(
    "value", ["[" * 300 + "]" * 300, "(" * 300 + "1" + ")" * 300, "{'a':" * 250 + "1" + "}" * 250]
)
def test_deep_nesting_is_text_at_last(value: str) -> None:
    name, arguments, whole, _ = agreed(f"[f(a={value})]")
    assert (name, whole) == ("f", True)
    assert json.loads(arguments)


def test_long_undecided_brackets_are_let_go() -> None:
    long = "x" * 9000
    assert agreed(f"[f(a=('{long}' 'y'))]")[1] == f'{{"a": "{long}y"}}'
    assert json.loads(agreed(f"[f(a=(['{long}'], 1))]")[1]) == {"a": [[long], 1]}


def read(names: tuple[str | None, str], text: str) -> Message:
    family = build(*names)
    context = family.context(TOOLS, "auto", {}, "unknown")
    whole = parse(family, lexemes(family, text), context)
    for seed in range(6):
        assert parse(family, lexemes(family, text, seed), context, resume=True) == whole
    return whole


WEATHER = "get_weather(city='Oslo', days=2)"
OSLO = ("get_weather", '{"city": "Oslo", "days": 2}')
PING = ("ping", "{}")
S, E = "<|tool_call_start|>", "<|tool_call_end|>"


@pytest.mark.parametrize(
    ("tools", "text", "content", "calls"),
    [
        ("pythonic", f"[{WEATHER}, ping()]", None, [OSLO, PING]),
        ("pythonic", f"[\n  {WEATHER},\n  ping(),\n]\n", None, [OSLO, PING]),
        ("pythonic", "[ping()] done", " done", [PING]),
        ("pythonic", "[ping(), hello]", None, [PING]),
        ("pythonic", "\n[ping()]", "\n[ping()]", []),
        ("pythonic", "so: [ping()]", "so: [ping()]", []),
        ("pythonic", "[1] says so", "[1] says so", []),
        ("pythonic", "[ping", "[ping", []),
        ("pythonic", "[ping()", None, [PING]),
        ("pythonic", "ping()", "ping()", []),
        ("llama4_pythonic", "<|python_start|>[ping()]<|python_end|> ok", " ok", [PING]),
        ("llama4_pythonic", "<|python_start|>no call<|python_end|>", "no call", []),
        ("llama4_pythonic", "<|python_start|>[ping()<|python_end|>", None, [PING]),
        (
            "llama4_pythonic",
            "[get_weather(city='<|python_end|>')]",
            None,
            [("get_weather", '{"city": "<|python_end|>"}')],
        ),
        ("olmo3", f"<function_calls>\n{WEATHER}\n\nping()\n</function_calls>", None, [OSLO, PING]),
        ("olmo3", "ok <function_calls>ping()</function_calls> tail", "ok ", [PING]),
        ("olmo3", "<function_calls>hello</function_calls>", "<function_calls>hello</function_calls>", []),
        ("olmo3", "<function_calls>ping()\nhello\nping()", None, [PING, PING]),
        ("olmo3", "ping()\n", "ping()\n", []),
        ("lfm2", f"Hi {S}[{WEATHER}]{E}\nDone.", "Hi\nDone.", [OSLO]),
        ("lfm2", f"{S}[ping()]{E}{S}[ping ( )]{E}", None, [PING, PING]),
        ("lfm2", f"{S}[ping('x')]{E}", None, [PING]),
        ("lfm2", f"a {S}not one{E} b", f"a {S}not one{E} b", []),
        ("lfm2", f"{S}[ping()", None, [PING]),
    ],
)
def test_families(tools: str, text: str, content: str | None, calls: list[tuple[str, str]]) -> None:
    message = read((None, tools), text)
    assert (message.content, message.calls) == (content, calls)


def test_olmo3_thinks_in_ordinary_tokens() -> None:
    text = "<think>so</think>\n<function_calls>ping()</function_calls>"
    message = read(("olmo3", "olmo3"), text)
    assert (message.reasoning, message.content, message.calls) == ("so", None, [PING])
    assert read(("olmo3", "olmo3"), "never ends").reasoning == "never ends"


def test_prose_in_brackets_is_sent_at_once() -> None:
    family = build(None, "pythonic")
    machine = family.start(family.context(TOOLS, "auto", {}, "unknown"), family.markers)
    assert machine.feed(["["]) == []
    assert machine.feed(["1"]) != []
