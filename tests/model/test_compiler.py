"""Templates say here what Jinja's own sandbox says, text or refusal, whatever they are given."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from golden import foreign_templates
from golden.models import model_path
from renderd.model import jinja
from renderd.model.jinja import compile_template
from renderd.model.templates import BUILT_IN, load_named_templates
from renderd.wire.errors import ApiError

MODELS = ["qwen3", "deepseek_v3", "gemma3", "gptoss", "llama3_1", "llama4", "gemma4", "olmo3"]
"""Those that the conformance cases are about, and more: every model at hand that has a template."""
CONVERSATIONS = 40
TEXTS = [
    "",
    " ",
    "Hello",
    "ünï ✓ 💧",
    "a\nb\n",
    "\u001cx\u001f",
    "<b>&'\"</b>",
    "a" * 300,
    "1",
    "null",
    "{",
    "\udfff",
]
TEXTS += ["<think>t</think>\n\nanswer", "</think>", "{{ x }}", "<tool_response>x</tool_response>"]
VALUES: list[Any] = [
    *TEXTS,
    0,
    1,
    -1,
    2.5,
    1e22,
    float("nan"),
    True,
    False,
    None,
    [],
    {},
    ["x", 1],
    {"a": {"b": [1]}},
]
ROLES = ["system", "user", "user", "assistant", "assistant", "tool", "developer", "ipython", "other"]
KEYS = ["name", "tool_call_id", "reasoning_content", "reasoning", "thinking", "items", "get", "tools", "x"]
FIXED = "2026-03-01T12:00:00"

SNIPPETS = Path(__file__).parent / "data" / "snippets.txt"
"""Templates, one a line, over the variables v, w (any value) and m (an object)."""


def tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: Any = False
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


@cache
def plain(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja._Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = jinja._raise_exception
    environment.globals["strftime_now"] = jinja._strftime_now
    return environment.from_string(source)


def says(source: str, variables: Mapping[str, Any]) -> str:
    """What Jinja says: a text, or "refused: " and why."""
    try:
        return plain(source).render(variables)
    except jinja2.TemplateError as error:
        return f"refused: {error.message or ''}"
    except RecursionError:  # what Python adds depends on where it happens
        return "refused: maximum recursion depth exceeded"
    except Exception as error:
        return f"refused: {error}"


def said(source: str, variables: Mapping[str, Any]) -> str:
    try:
        return compile_template(source).render(variables)
    except ApiError as error:
        return f"refused: {error.message}"


def addressless(text: str) -> str:
    """Without the addresses of what Python writes as `<method at 0x7f00>`."""
    return re.sub("at 0x[0-9a-f]+>", ">", text)


def templates() -> dict[str, str]:
    found = {
        f"snippet {index}": source for index, source in enumerate(SNIPPETS.read_text().splitlines(), start=1)
    } | BUILT_IN
    for name in MODELS:
        try:
            config = json.loads((model_path(name) / "tokenizer_config.json").read_text())
        except FileNotFoundError:
            continue
        for kind, source in load_named_templates(model_path(name), config).items():
            found[f"{name} {kind}"] = source
    demo = Path(jinja.__file__).parents[1] / "demo"
    found.update((path.name, path.read_text()) for path in demo.rglob("*.jinja"))
    return found | foreign_templates.templates()


def conversation(generator: random.Random) -> dict[str, Any]:
    """The variables of a chat, right or wrong in some way."""
    wild = generator.random() < 0.4

    def text() -> Any:
        return generator.choice(VALUES if wild and generator.random() < 0.3 else TEXTS)

    def content() -> Any:
        if generator.random() < 0.2:
            kinds = ["text", "text", "image", "tool_reference"]
            return [{"type": generator.choice(kinds), "text": text()} for _ in range(generator.randrange(3))]
        return text()

    def call() -> dict[str, Any]:
        arguments = generator.choice([{}, {"a": text(), "b": generator.choice(VALUES)}, '{"a": 1}'])
        function = {"name": generator.choice(["f", "ünï", "get"]), "arguments": arguments}
        called = {"id": generator.choice(["call_1", "123456789"]), "type": "function", "function": function}
        return {"name": "f"} if wild and generator.random() < 0.2 else called

    def message() -> dict[str, Any]:
        made: dict[str, Any] = {"role": generator.choice(ROLES), "content": content()}
        if made["role"] == "assistant" and generator.random() < 0.5:
            made["tool_calls"] = [call() for _ in range(generator.randrange(1, 3))]
        for key in KEYS:
            if generator.random() < 0.15:
                made[key] = text()
        if wild and generator.random() < 0.1:
            del made[generator.choice(list(made))]
        return made

    def tool() -> dict[str, Any]:
        kinds: list[Any] = ["string", "integer", "object", "array", ["string", "null"]]
        properties = {
            name: {"type": generator.choice(kinds), "description": text(), "enum": ["x", text()]}
            for name in generator.sample(["a", "b", "items", "type"], generator.randrange(4))
        }
        parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
        described = {"name": "f", "description": text(), "parameters": parameters}
        return {"type": "function", "function": described} if generator.random() < 0.9 else described

    messages = [message() for _ in range(generator.randrange(0 if wild else 1, 7))]
    if not wild:  # as templates want them: turns about
        for index, made in enumerate(messages):
            made["role"] = ("user", "assistant")[index % 2]
            if made["role"] == "user":
                made.pop("tool_calls", None)
    variables: dict[str, Any] = {
        "messages": messages,
        "tools": generator.choice([None, [], [tool()], [tool(), tool()]]),
        "documents": generator.choice([None, None, [{"title": text(), "text": text()}]]),
        "add_generation_prompt": generator.random() < 0.7,
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    for name in (
        "enable_thinking",
        "thinking",
        "reasoning_effort",
        "date_string",
        "custom_tools",
        "tool_choice",
    ):
        if generator.random() < 0.2:
            variables[name] = generator.choice(VALUES)
    return variables | {
        "m": {"a": text(), "items": text(), "_x": 1},
        "v": generator.choice(VALUES),
        "w": text(),
    }


@pytest.mark.parametrize("name", sorted(templates()))
def test_jinja_says_the_same(name: str) -> None:
    source = templates()[name]
    generator = random.Random(name)
    with jinja.at(FIXED):
        for _ in range(CONVERSATIONS):
            variables = conversation(generator)
            assert addressless(said(source, variables)) == addressless(says(source, variables)), variables
