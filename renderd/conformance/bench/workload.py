"""What the benchmarks send: text that no cache has seen, and a parsed answer of a given number of tokens."""

from __future__ import annotations

import random
from typing import Any

from renderd.conformance.client import Client

Json = dict[str, Any]

_WORDS = (
    "about above account across action after again against air almost along also always among amount animal "
    "answer around because become before begin behind being better between body book both bring build carry "
    "cause center change child city clear close cold color come common complete course cover create cross "
    "current dark decide deep describe develop direct distance door draw drive during early earth enough "
    "equal every example family farm field figure final follow force forest form friend front garden "
    "general glass govern great green ground group grow happen heavy history horse hour house hundred idea "
    "inch island join keep kind know language large late learn leave letter level light list little long "
    "machine manner many mark matter mean measure might minute money month morning mother mountain move "
    "music name natural near nothing notice number object ocean often open order paper part pattern people "
    "person picture place plain plan plane plant point possible power present problem produce question "
    "quick quiet reach ready reason record region remember represent river road rock round school science "
    "season second sentence serve several shape ship should simple small snow social sound south special "
    "stand start state still stone story street strong study summer surface system table teach temperature "
    "thing think though thousand through together travel under until usual valley village voice water "
    "weather wheel where while white whole winter wonder world write year young"
)
_WORD_LIST = _WORDS.split()
PHRASE = 5
"""Words of a phrase."""


def prose(words: int, generator: random.Random) -> str:
    """Sentences of that many words, numbers among them."""
    out = []
    for number in range(words):
        word = str(generator.randrange(10_000)) if generator.random() < 0.05 else generator.choice(_WORD_LIST)
        end = ".\n" if number % 60 == 59 else ". " if number % 12 == 11 else " "
        out.append((word.capitalize() if number % 12 == 0 else word) + end)
    return "".join(out).rstrip()


class Tokens:
    """Counts and ids of text, by the server's own /tokenize."""

    def __init__(self, client: Client, model: str) -> None:
        self._client = client
        self._model = model
        sample = prose(2000, random.Random("sample"))
        self.per_word = len(self.ids(sample)) / 2000

    def ids(self, text: str) -> list[int]:
        """Raises RuntimeError when the server has no such route."""
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        answer = self._client.post("/tokenize", body)
        if answer.status != 200:
            raise RuntimeError(f"{self._client.url}/tokenize: status {answer.status}")
        ids: list[int] = answer.json()["tokens"]
        return ids

    def prose(self, tokens: int, generator: random.Random) -> str:
        """Text of about that many tokens."""
        return prose(max(round(tokens / self.per_word), 1), generator)

    def exactly(self, tokens: int, generator: random.Random, lines: bool = True) -> list[int]:
        """Ids of text, that many. Without `lines` it may stand in a JSON string."""
        text = prose(round(tokens / self.per_word * 1.2) + 10, generator)
        return self.ids(text if lines else text.replace("\n", " "))[:tokens]


TOOL: Json = {
    "type": "function",
    "function": {
        "name": "write_report",
        "description": "Stores a report.",
        "parameters": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "body": {"type": "string"}},
            "required": ["title", "body"],
        },
    },
}


def parsed_answer(tokens: Tokens, count: int, calls: int = 1, seed: int = 0) -> list[int]:
    """An answer of `count` tokens as a thinking model writes it: reasoning, content, calls, no end token.

    `seed`: answers of another one have another text.
    """
    generator = random.Random(f"{count} {seed}")
    opening, middle, line, end = (
        tokens.ids(text) for text in ("<think>\n", "\n</think>\n\n", "\n", '"}}\n</tool_call>')
    )
    call = tokens.ids('<tool_call>\n{"name": "write_report", "arguments": {"title": "Report", "body": "')
    marks = len(opening) + len(middle) + calls * (len(line) + len(call) + len(end))
    left = count - marks
    reasoning, content = left * 45 // 100, left * 40 // 100
    body = tokens.exactly(left - reasoning - content, generator, lines=False)
    out = [*opening, *tokens.exactly(reasoning, generator), *middle, *tokens.exactly(content, generator)]
    for number in range(calls):
        part = body[len(body) * number // calls : len(body) * (number + 1) // calls]
        out += [*line, *call, *part, *end]
    return out


def conversations(tokens: Tokens, users: int, turns: int, size: int) -> list[Json]:
    """Chats that grow to about `size` tokens, one request for each turn of each user, history included.

    All have the same tools and the same system prompt; the users take turns.
    """
    generator = random.Random(size)
    instructions = {"role": "system", "content": tokens.prose(1000, generator)}
    tools = [_tool(number, generator) for number in range(5)]
    histories: list[list[Json]] = [[instructions] for _ in range(users)]
    per_turn = (size - 1500) // turns
    chats = []
    for _ in range(turns):
        for messages in histories:
            messages.append({"role": "user", "content": tokens.prose(per_turn // 5, generator)})
            chats.append({"messages": list(messages), "tools": tools})
            messages.append({"role": "assistant", "content": tokens.prose(per_turn * 4 // 5, generator)})
    return chats


def phrases(count: int, generator: random.Random) -> list[str]:
    """That many pieces of PHRASE words each, of which a prompt of new text is put together fast."""
    return [prose(PHRASE, generator) + " " for _ in range(count)]


def _tool(number: int, generator: random.Random) -> Json:
    properties = {
        name: {"type": "string", "description": prose(8, generator)}
        for name in generator.sample(_WORD_LIST, 3)
    }
    return {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": prose(20, generator),
            "parameters": {"type": "object", "properties": properties, "required": [*properties][:1]},
        },
    }
