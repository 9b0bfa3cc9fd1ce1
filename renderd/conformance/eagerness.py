"""Whether a client gets each character no later than from the reference.

Time is counted in tokens of the answer. The reference says with every chunk how many of them it has seen (a
stream with `continuous_usage_stats`); of our own chunks the event that made them says it. Compared is what
both say, up to the first character in which they differ: what differs is not late but other.

Two things may wait, because what they are depends on what follows and a whole answer has to be the same as
a streamed one: whitespace, which a call swallows, and among arguments the sign and the fraction of a number,
which is written in its shortest form (`-0` is 0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from renderd.conformance.cases import Json

Part = str
"""reasoning, content, or arguments of a call, by its index."""


class Timeline:
    """The texts of an answer, and after how many tokens each of their characters was there."""

    def __init__(self) -> None:
        self.texts: dict[Part, str] = {}
        self.times: dict[Part, list[int]] = {}

    def add(self, chunk: Json, tokens: int) -> None:
        """A chunk that came after so many tokens."""
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            for part in ("reasoning", "content"):
                self._say(part, delta.get(part), tokens)
            for call in delta.get("tool_calls") or []:
                self._say(f"arguments {call['index']}", call["function"].get("arguments"), tokens)

    def _say(self, part: Part, text: str | None, tokens: int) -> None:
        if text:
            self.texts[part] = self.texts.get(part, "") + text
            self.times.setdefault(part, []).extend([tokens] * len(text))


def recorded(stream: Sequence[Json] | None) -> Timeline | None:
    """The reference's own stream; None where its chunks do not say how many tokens they stand for."""
    if not stream:
        return None
    line = Timeline()
    for chunk in stream:
        if not chunk.get("choices"):
            continue
        if len(chunk["choices"]) > 1 or chunk["choices"][0]["index"] or not chunk.get("usage"):
            return None
        line.add(chunk, chunk["usage"]["completion_tokens"])
    return line


def own(events: Iterable[Json], chunks: Iterable[Json]) -> Timeline:
    """Our chunks, one an event. What an event with several tokens gave may have been there with the first."""
    line = Timeline()
    before = 0
    for event, chunk in zip(events, chunks, strict=True):
        tokens = sum(len(choice["token_ids"] or []) for choice in event["choices"])
        line.add(chunk, before + min(tokens, 1))
        before += tokens
    return line


def late(case: str, theirs: Timeline, ours: Timeline) -> Iterator[tuple[str, str]]:
    """A sentence for each part in which ours comes later, about the first such character, and why it may: ""
    if it may not. Behind one that may, and what came together with it, the next is looked for."""
    for part, text in theirs.texts.items():
        pairs = zip(text, ours.texts.get(part, ""), strict=False)
        times = zip(theirs.times[part], ours.times.get(part, ()), strict=False)
        held = 0
        for at, ((want, got), (then, now)) in enumerate(zip(pairs, times, strict=True)):
            if want != got:
                break
            if now > then and now != held and not _may_wait(part, text, at):
                around = text[max(at - 20, 0) : at + 1]
                reason = _reason(case, text[at])
                yield f"{part}: {around!r} came after {now} tokens, not {then}", reason
                if not reason:
                    break
                held = now


_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NUMBER = re.compile(r"[:,\[\s](?:-|-?\d+(?:\.\d*)?(?:[eE][-+]?\d*)?)\Z")


def _may_wait(part: Part, text: str, at: int) -> bool:
    if text[at].isspace():
        return True
    return part.startswith("arguments") and bool(_NUMBER.search(_STRING.sub('""', text[: at + 1])))


_PIECES = {
    "granite3*/*": "<",
    "granite-20b/*": "<",
    "hunyuan-a13b*/*": "<",
    "ernie45*/*": "<",
    "olmo3*/*": "<",
    "minimax-m3/*": "]",
    "minicpm5/*": "<",
    "xlam/*": "[",
}
"""Cases in which a character may begin a marker that is text, where the reference's stream does not look for
one: it sees no calls there, or only at the start of an answer."""

_MADE_UP = {"functiongemma/*": "}", "qwen3-hermes/arguments-first-inner-name": "{"}
"""Cases in which the reference's stream sends a character before the output has it (it ends the object of
arguments with each of its strings), or before the name of its call (it takes one among the arguments)."""


def _reason(case: str, character: str) -> str:
    for pattern, first in _PIECES.items():
        if character == first and fnmatchcase(case, pattern):
            return "may begin a marker"
    for pattern, made_up in _MADE_UP.items():
        if character == made_up and fnmatchcase(case, pattern):
            return "was not there yet"
    return ""
