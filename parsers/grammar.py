"""The words in which a family of models is described.

A grammar is a table of regions. Text of a region goes where the region says; a marker moves to another
region. There is no code here: `parsers.machine` runs the table, `parsers.bodies` knows the inside of a call.

Two region names are common to all tables: "reasoning" and "content". What a family opens lies in its own
regions. Those of a reasoning grammar and of a tool grammar have other names, since they share a table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from parsers.bodies import Body
from parsers.rewrite import Rewrite
from parsers.tags import TagModel

Initial = Literal["off", "open", "closed"]


class Text(enum.Enum):
    """Where the text of a region goes."""

    REASONING = enum.auto()
    CONTENT = enum.auto()
    MARKUP = enum.auto()  # a fixed word of the format
    DROP = enum.auto()  # between the parts of a call; counted when it is more than whitespace
    NAME = enum.auto()  # the function name, complete at the next marker
    HEADER = (
        enum.auto()
    )  # words that say what follows, complete at the next marker; read by the region's route
    BODY = enum.auto()  # the region's body syntax reads it


@dataclass(frozen=True)
class On:
    """A marker and the region that follows it.

    `keep`: the next region reads the marker's own characters again (a brace that opens both the call and its
    JSON). `as_text`: read as text even where it is a vocabulary entry (punctuation that other tokens contain
    too). `tentative`: what follows may turn out to be no call; until the call is certain it is held back and
    then released as content. `certain`: what came since then is markup after all (a list without calls).
    `echo`: the marker is text of the region that it leaves, too.
    """

    marker: str
    to: str
    keep: bool = False
    certain: bool = False
    echo: bool = False
    tentative: bool = False
    as_text: bool = False


@dataclass(frozen=True)
class Route:
    """What a header says: the region that follows ("", the marker's) and, where it opens a call, the call's
    name and own id. `dropped`: characters of the header that say nothing.
    """

    to: str
    name: str | None = None
    id: str | None = None
    dropped: int = 0


@dataclass(frozen=True)
class Region:
    """One row of the table.

    `then`: where a body that ends itself leads, and a name without an end. `on_text`: the region that reads
    the first text that is more than whitespace (for what may stand at the start of the answer only). `keeps`:
    marker tokens that are text here, whatever `skip_special_tokens` says.

    Names and headers: `route` reads the text (default: a name is the text, stripped, and leads where its
    marker does); None says that it is none. `begins`: whether text may be the beginning of one; as soon
    as it is not, there is none. `known_names`: a name that is none of the request's tools is none (needs
    a `typed` grammar). `quoted`: a name may stand in quotes. What turned out to be none is released as
    content where its opener was tentative, else dropped, and `rejected` follows (in the first case only
    where it is content, too). A header is always
    tentative. A body with `known_names` is given the types of all functions until it knows its own.

    `counts`: all tokens of the region are reasoning tokens, those that spell its markers and
    where its text is none, too.
    """

    text: Text
    on: tuple[On, ...] = ()
    body: Body | None = None
    then: str = "content"
    on_text: str | None = None
    keeps: tuple[str, ...] = ()
    route: Callable[[str], Route | None] | None = None
    begins: Callable[[str], bool] | None = None
    known_names: bool = False
    quoted: bool = False
    rejected: str = "content"
    counts: bool = False


@dataclass(frozen=True)
class Channels:
    """A format whose reasoning, answer and calls share one framing, and need one table.

    Both grammars of such a family name the same channels. `start`: the region of the first token, where the
    prompt does not leave reasoning open. `unasked`: regions that take the place of others where no calls are
    read. `always_reasons`: the region "reasoning" is reasoning where no reasoning parser is configured, too;
    otherwise it is dropped text. `separator`: text between two sections of reasoning, and between two of
    content. `trims`: whitespace at the end of sections is dropped, and where reasoning begins.
    """

    start: str
    regions: Mapping[str, Region]
    separator: str = ""
    trims: bool = False
    always_reasons: bool = False
    unasked: Mapping[str, Region] = field(default_factory=dict)


def always_open(_kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning whatever the template kwargs say."""
    return "open"


def always_closed(_kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning only where its marker opens it."""
    return "closed"


def open_unless_disabled(kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning unless `enable_thinking` is given and falsy."""
    return "open" if kwargs.get("enable_thinking", True) else "off"


def open_unless_both_off(kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning unless `thinking`, `enable_thinking` or both are given and none is truthy."""
    given = [kwargs[word] for word in ("thinking", "enable_thinking") if kwargs.get(word) is not None]
    return "open" if not given or any(given) else "off"


def off_unless_enabled(kwargs: Mapping[str, Any]) -> Initial:
    """Reasoning only if `thinking` or `enable_thinking` is truthy."""
    return "open" if kwargs.get("thinking") or kwargs.get("enable_thinking") else "off"


@dataclass(frozen=True)
class Signs:
    """What a model's files must all show to be recognised.

    `template`: texts in the chat template. `lacks`: texts that are not in it. `tokens`: entries of the
    vocabulary. `model_type`: of the config.
    """

    template: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    model_type: str | None = None


@dataclass(frozen=True)
class ToolGrammar:
    """The tool calls of a family.

    `content`: markers that mean something inside content. `start`: the region in which content begins.
    `channels`: instead of these, a framing that reasoning shares. `strip`: whitespace before a call is
    dropped; otherwise only content that is all blank is, and with `blank` not even that. `absorbs`: stray
    reasoning markers and special tokens in the output are deleted, and with `tool_choice` none the calls are
    still taken out of the content (vLLM's engine parsers). `doubted`: beside a reasoning parser that does not
    absorb, its openers are tentative. `typed`: the tools' schemas decide how values are
    read. `forced`: what the answer to a required or named choice is (contract B.4.4, H.5): "json", a bare
    array of calls or the arguments alone; "tag", the family's markup while a structural tag can be enforced,
    else JSON; "markup", always the family's markup. `call_array`: such a choice is constrained to a JSON
    array of `{name, arguments}` objects, unless the user has a constraint of their own. `forced_start`: the
    region in which the answer to such a choice begins. `call_ids`: how ids are made where the model gives
    none: "hashed", or "nine" letters and digits. `needs_special_tokens`: when render must keep special tokens
    in the text (contract B.4.4): "always", "with tools" or never. `spaces_between_special_tokens`: what
    render sets it to, None leaves it. `required_tokens`: markers that must be one vocabulary token, else the
    server does not start. `default_strictness`: where `--tool-strict-level` is not given. `refuses`: what a
    request with tools must not ask for: "required", "named", "untagged named" (a name that no structural tag
    enforces), "strict", "one call". `models`, `format`: for people, whose calls these are and what they look
    like. `signs`: by what `auto` recognises such a model. `framing`: name of a framing that reasoning and
    calls share; such a grammar goes only with its like. `chosen_by`: a template variable whose values choose
    among `variants`, and the value where it is not given.
    """

    names: tuple[str, ...]
    content: tuple[On, ...] = ()
    regions: Mapping[str, Region] = field(default_factory=dict)
    start: str = "content"
    channels: Channels | None = None
    strip: bool = False
    blank: bool = False
    absorbs: bool = False
    doubted: bool = False
    typed: bool = False
    forced: Literal["json", "tag", "markup"] = "tag"
    call_array: bool = False
    forced_start: str | None = None
    call_ids: Literal["hashed", "nine"] = "hashed"
    needs_special_tokens: Literal["always", "with tools", "never"] = "never"
    spaces_between_special_tokens: bool | None = None
    required_tokens: tuple[str, ...] = ()
    structural_tag: TagModel | None = None
    default_strictness: Literal["auto", "function", "parameter"] = "auto"
    refuses: tuple[str, ...] = ()
    models: str = ""
    format: str = ""
    signs: tuple[Signs, ...] = ()
    framing: str = ""
    chosen_by: tuple[str, str] = ("", "")
    variants: Mapping[str, ToolGrammar] = field(default_factory=dict)


@dataclass(frozen=True)
class ReasoningGrammar:
    """The reasoning section of a family.

    `initial` says from the effective chat template kwargs whether reasoning is parsed at all ("off": the
    whole output is content) and, if the prompt does not say otherwise, open from the first token ("open") or
    not before its start marker ("closed"). `other_starts`, `other_ends`: further spellings of the markers.
    `ends`: call openers that end the reasoning without its own marker. `content`: markers that mean something
    inside content (the start marker where reasoning may open again, a wrapper around the answer). `begin`:
    the region of the first token where reasoning is not open; its text leads to where content begins.
    `channels`: instead of these, a framing that the calls share. `boundary`: prompt tokens at which the
    search for the last marker stops. `unknown_is_over`: from the kwargs, whether a prompt without any marker
    has its reasoning behind it. `strip`: whitespace at the end of the reasoning is dropped. `skip`:
    characters that are dropped where content begins. `lead`: reasoning is left in the content, with its
    markers; this text stands before an output whose reasoning is open. `empty`: what is "" in the message,
    not null: reasoning of an empty "section", or also that of a "prompt" which ended it. `counted`: which
    tokens count as reasoning tokens (contract F.2): those of the "section", those after a "marked" start in
    the output, or "none". `end_counts`: so does the token that ends the output, where they have not ended
    before. `promotes`: from the kwargs, whether reasoning becomes the content of an answer that has none.
    `rewrite`: what is done to the text of reasoning and content, each by itself. `told`: kwargs that the
    engine is told where the request has none of them. `untold`: nor is it told whether a prompt ends behind
    the reasoning. `off_is_text`: where reasoning is off, its markers are
    text, stray ones too. `structural_tag`, `spaces_between_special_tokens`, `models`, `format`, `signs`,
    `framing`, `chosen_by`, `variants`: as a ToolGrammar has them; of the tag only how it frames an answer.
    """

    names: tuple[str, ...]
    start: str = ""
    end: str = ""
    initial: Callable[[Mapping[str, Any]], Initial] = always_open
    other_starts: tuple[str, ...] = ()
    other_ends: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    content: tuple[On, ...] = ()
    regions: Mapping[str, Region] = field(default_factory=dict)
    begin: str = ""
    channels: Channels | None = None
    boundary: tuple[str, ...] = ()
    unknown_is_over: Callable[[Mapping[str, Any]], bool] | None = None
    absorbs: bool = False
    strip: bool = False
    skip: str = ""
    lead: str = ""
    empty: Literal["", "section", "prompt"] = ""
    counted: Literal["section", "marked", "none"] = "section"
    end_counts: bool = False
    promotes: Callable[[Mapping[str, Any]], bool] | None = None
    rewrite: Rewrite | None = None
    structural_tag: TagModel | None = None
    spaces_between_special_tokens: bool | None = None
    off_is_text: bool = False
    needs_special_tokens: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)
    untold: bool = False
    required_tokens: tuple[str, ...] = ()
    models: str = ""
    format: str = ""
    signs: tuple[Signs, ...] = ()
    framing: str = ""
    chosen_by: tuple[str, str] = ("", "")
    variants: Mapping[str, ReasoningGrammar] = field(default_factory=dict)


@dataclass(frozen=True)
class ForModel:
    """A grammar that depends on the model's files. `make` raises UnfitModelError where it cannot be.

    `models`, `format`, `signs`: as a ToolGrammar has them.
    """

    names: tuple[str, ...]
    make: Callable[[ModelFacts], ToolGrammar | ReasoningGrammar]
    models: str = ""
    format: str = ""
    signs: tuple[Signs, ...] = ()


@dataclass(frozen=True)
class ModelFacts:
    """What a grammar may know of a model.

    `is_token`: whether a text is one entry of the vocabulary; `added_tokens`: contents of the tokenizer's
    added tokens.
    """

    is_token: Callable[[str], bool]
    added_tokens: tuple[str, ...] = ()
    tokenizer_config: Mapping[str, Any] = field(default_factory=dict)
    chat_template: str | None = None
    model_type: str | None = None


class UnfitModelError(ValueError):
    """The model lacks what a parser needs; the message is a sentence that says what."""
