"""A family's call markup as data, and the structural tag that it makes of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from parsers.tags.formats import Format, const, either, json_schema, listed, regex, sequence, tag

StrictLevel = Literal["auto", "function", "parameter"]
ForcedChoice = Literal["auto", "required", "named"]


@dataclass(frozen=True)
class Section:
    """Markup around all calls of a message and between two of them.

    `lead`: text before a forced section, whose markup is then constant text; None where it is the begin and
    end of a tag. `one`: how a named call stands in the section: as a call of its own, in a list, or with the
    section's markup joined to the call's.
    """

    begin: str
    separator: str
    end: str | tuple[str, ...]
    lead: str | None = None
    one: Literal["call", "list", "joined"] = "call"


@dataclass(frozen=True)
class TagModel:
    """The call markup of a family.

    `calls`: the spellings of one call, each as text before and after the arguments; `{name}` stands for the
    tool's name, as `escape` writes it. `number`: pattern of the number between a call's begin and its
    arguments, and the text behind it. `trigger`: text with which a call, or the section, starts in an
    otherwise free answer. `style`: xgrammar's name for the syntax of the arguments. `arguments`: writes them
    instead, from the tool's parameters and whether they are enforced. `excludes`: text that a free answer
    must not contain.
    `section`: None where calls stand alone.

    `forced`: what the answer to a required choice is: free text with at least one call ("triggered"), calls
    alone ("listed"), or the first where all arguments are enforced and else the second ("loose"). `frame`:
    writes the whole answer instead, from its calls, whether one is forced, and whether there may be several.
    `answer`: frames the format that the user asked for; asked for even where a request has no tools. `free`:
    an "auto" choice alone leaves the answer free, whatever is strict.
    """

    calls: tuple[tuple[str, str | tuple[str, ...]], ...]
    trigger: str
    escape: Callable[[str], str] = str
    style: str = "json"
    number: tuple[str, str] | None = None
    arguments: Callable[[Mapping[str, Any] | None, bool], Format] | None = None
    excludes: tuple[str, ...] = ()
    section: Section | None = None
    forced: Literal["triggered", "listed", "loose"] = "triggered"
    frame: Callable[[list[Format], bool, bool], Format] | None = None
    answer: Callable[[Format], Format] | None = None
    free: bool = False


def build_tag(
    model: TagModel,
    tools: Sequence[Mapping[str, Any]],
    choice: ForcedChoice,
    *,
    named: str | None = None,
    level: StrictLevel = "auto",
    parallel: bool = True,
    alternative: Format | None = None,
) -> dict[str, Any] | None:
    """The structural tag for a request, or None where it leaves the answer free.

    `tools`: OpenAI tools. `named`: the tool that a "named" choice names. `level`: what is enforced for
    tools that are not strict: "auto" nothing, "function" the markup, "parameter" the argument schemas too.
    `parallel`: more than one call is allowed. `alternative`: a format that the user asked for, allowed
    beside calls with an "auto" choice.
    """
    functions = [tool["function"] for tool in tools]
    if choice == "auto":
        strict = level != "auto" or any(function.get("strict") is True for function in functions)
        if (model.free and alternative is None) or (not strict and (parallel or alternative is not None)):
            return None
    if choice == "named":
        functions = [function for function in functions if function["name"] == named]
        form = _one_call(model, functions[0], level, parallel)
    elif alternative is None:
        form = _calls(model, functions, level, parallel, forced=choice == "required")
    else:
        form = _calls(model, functions, level, parallel, forced=True)
        if choice == "auto":
            form = either([form, framed(model, alternative)])
    return as_tag(form)


def framed(model: TagModel, alternative: Format) -> Format:
    """A format that the user asked for, in the framing of the family's answers."""
    return model.answer(alternative) if model.answer else alternative


def as_tag(form: Format) -> dict[str, Any]:
    """The structural tag that allows the format alone."""
    return {"type": "structural_tag", "format": form}


def _calls(
    model: TagModel, functions: Sequence[Mapping[str, Any]], level: StrictLevel, parallel: bool, forced: bool
) -> Format:
    """Any number of calls, at least one where forced."""
    tags = [each for function in functions for each in _tags(model, function, level)]
    if model.frame is not None:
        return model.frame(tags, forced, parallel)
    section = model.section
    if section is not None:
        calls = listed(tags, section.separator, parallel)
        if forced and section.lead is not None:
            return _constant(section, calls)
        tags = [tag(section.begin, calls, section.end)]
        if forced:
            return tags[0]
    if forced and _is_listed(model, functions, level):
        return listed(tags, "", parallel)
    return {
        "type": "triggered_tags",
        "triggers": [model.trigger],
        "tags": tags,
        "at_least_one": forced,
        "stop_after_first": not parallel,
        "excludes": list(model.excludes),
    }


def _one_call(model: TagModel, function: Mapping[str, Any], level: StrictLevel, parallel: bool) -> Format:
    """A call of one tool, and no other."""
    tags = _tags(model, function, level)
    if model.frame is not None:
        return model.frame(tags, True, parallel)
    section = model.section
    if section is None:
        return listed(tags, "", parallel=False) if _is_listed(model, [function], level) else tags[0]
    if section.one == "joined":
        one = tags[0]
        return tag(section.begin + one["begin"], one["content"], f"{one['end']}{section.end}")
    call = listed(tags, section.separator, parallel=False) if section.one == "list" else tags[0]
    return tag(section.begin, call, section.end) if section.lead is None else _constant(section, call)


def _constant(section: Section, calls: Format) -> Format:
    """Calls in a section that nothing but them stands in the way of."""
    assert isinstance(section.end, str)
    return sequence(const(f"{section.lead}{section.begin}"), calls, const(section.end))


def _is_listed(model: TagModel, functions: Iterable[Mapping[str, Any]], level: StrictLevel) -> bool:
    if model.forced == "loose":
        return not all(_enforced(function, level) for function in functions)
    return model.forced == "listed"


def _enforced(function: Mapping[str, Any], level: StrictLevel) -> bool:
    """Whether the arguments must follow the tool's schema."""
    return level == "parameter" or function.get("strict") is True


def _tags(model: TagModel, function: Mapping[str, Any], level: StrictLevel) -> list[Format]:
    """One tag for each spelling of a call."""
    enforced, parameters = _enforced(function, level), function.get("parameters")
    if model.arguments is not None:
        content = model.arguments(parameters, enforced)
    else:
        content = json_schema(parameters if enforced and parameters is not None else True, model.style)
    if model.number is not None:
        pattern, behind = model.number
        content = sequence(regex(pattern), const(behind), content)
    name = model.escape(function["name"])
    return [tag(begin.replace("{name}", name), content, end) for begin, end in model.calls]
