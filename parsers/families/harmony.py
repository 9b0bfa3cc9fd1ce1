"""gpt-oss: messages with a header that names their channel and recipient.

An answer continues behind `<|start|>assistant`. What a message is decides its recipient, then its channel:
a function's message is a call, `analysis` reasoning, `final` and `commentary` without a recipient content.
"""

from dataclasses import replace

from parsers.bodies.json_arguments import JsonArguments
from parsers.grammar import (
    Channels,
    On,
    ReasoningGrammar,
    Region,
    Route,
    Signs,
    Text,
    ToolGrammar,
    always_closed,
)
from parsers.tags import HARMONY_TAG

_START, _CHANNEL, _CONSTRAIN, _MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_BUILT_IN = ("assistant", "python", "browser", "container")

_ROLE = "assistant"
_TO = "to="
_KNOWN = (_ROLE, "analysis", "commentary", "final", "json", "code", "text")


def _function(recipient: str) -> str | None:
    """The function that a message is for, None where it is for someone else."""
    if recipient.startswith("functions."):
        return recipient.removeprefix("functions.") or None
    if not recipient or recipient.startswith("<|") or recipient.split(".")[0] in _BUILT_IN:
        return None
    return recipient


def _recipient(words: list[str]) -> str | None:
    """The recipient among the words of a header; words that belong to none make it nobody's."""
    for at, word in enumerate(words):
        if word.startswith(_TO):
            kinds = [other for other in words[at + 1 :] if other]
            return word.removeprefix(_TO) if len(kinds) <= 1 else ""
    return None


def _read(header: str) -> Route | None:
    """Where the message leads that stands behind a header, and what of the header says nothing."""
    head, start, message = header.partition(_START)
    if start:  # an answer that begins all over
        return None if head.strip() else _read(message)
    route = _route(header)
    words = header.replace(_CHANNEL, " ").replace(_CONSTRAIN, " ").split()
    used = (*_KNOWN, _TO + (route.name or "assistant"), f"{_TO}functions.{route.name}")
    return replace(route, dropped=sum(len(word) for word in words if word not in used))


def _route(header: str) -> Route:
    before, _, after = header.replace(_CONSTRAIN, " " + _CONSTRAIN).partition(_CHANNEL)
    role = before.split()
    words = after.partition(_CHANNEL)[0].split()
    if role and not role[0].startswith(_TO):
        if role[0] != _ROLE:
            return Route("dropped")
        del role[0]
    channel = words[0] if words else ""
    recipient = _recipient(words)
    recipient = _recipient(role) if recipient is None else recipient
    if recipient is None:
        kinds = {"analysis": "reasoning", "final": "content", "commentary": "content"}
        return Route(kinds.get(channel, "dropped"))
    name = _function(recipient)
    if name is not None:
        return Route("call", name)
    if channel in ("analysis", "final"):
        return Route("reasoning" if channel == "analysis" else "content")
    return Route("ignored" if channel == "commentary" else "dropped")


def _begins(text: str) -> bool:
    """Whether an answer may begin with a header that begins with `text`."""
    if text.lstrip().startswith(_START):
        return True
    head, channel, _ = text.partition(_CHANNEL)
    rest = head.lstrip()
    if _ROLE.startswith(rest):
        return True
    rest = rest.removeprefix(_ROLE)
    if rest.lstrip().startswith(_TO):
        rest = rest.lstrip()[len(_TO) :].lstrip("".join(map(chr, range(33, 127))).replace("<", ""))
    rest = rest.lstrip()
    if channel:
        return not rest or rest.startswith(_CONSTRAIN)
    return any(word.startswith(rest) or rest.startswith(word) for word in (_TO, _CHANNEL, _CONSTRAIN))


_HEADER_WORDS = (_CHANNEL, _CONSTRAIN)
_OVER = tuple(On(marker, "between") for marker in _ENDS)

_CHANNELS = Channels(
    start="begin",
    regions={
        "begin": Region(
            Text.HEADER,
            (On(_MESSAGE, "dropped"),),
            keeps=(_START, *_HEADER_WORDS),
            route=_read,
            begins=_begins,
        ),
        "header": Region(Text.HEADER, (On(_MESSAGE, "dropped"),), keeps=_HEADER_WORDS, route=_read),
        "between": Region(Text.DROP, (On(_START, "header", tentative=True),)),
        "reasoning": Region(Text.REASONING, _OVER),
        "content": Region(Text.CONTENT, _OVER),
        "call": Region(Text.BODY, _OVER, JsonArguments(empty=""), counts=True),
        "ignored": Region(Text.DROP, _OVER, counts=True),
        "dropped": Region(Text.DROP, _OVER),
    },
    separator="\n",
)

_TOKENS = (_START, _CHANNEL, _MESSAGE, *_ENDS)
_SIGNS = (Signs(tokens=(_CHANNEL, _CONSTRAIN, _MESSAGE)), Signs(model_type="gpt_oss"))

REASONING = ReasoningGrammar(
    names=("openai_gptoss",),
    initial=always_closed,
    unknown_is_over=lambda _: True,
    channels=_CHANNELS,
    required_tokens=_TOKENS,
    structural_tag=HARMONY_TAG,
    models="gpt-oss",
    format="<|channel|>analysis<|message|>...<|end|>",
    signs=_SIGNS,
    framing="harmony",
)

TOOLS = ToolGrammar(
    names=("openai",),
    channels=_CHANNELS,
    required_tokens=_TOKENS,
    structural_tag=HARMONY_TAG,
    models="gpt-oss",
    format="<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>",
    signs=_SIGNS,
    framing="harmony",
)
