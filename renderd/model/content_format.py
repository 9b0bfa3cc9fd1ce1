"""Does a chat template expect message content as text or as a list of parts (contract C.1)?

The answer is read off its syntax tree: "openai" iff some loop runs over the content of a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from jinja2 import nodes

ContentFormat = Literal["string", "openai"]
_Name = str | tuple[str, str]  # a variable, or a member of a namespace variable


def detect_content_format(tree: nodes.Template) -> ContentFormat:
    """The content format that the template is written for."""
    conversations = _conversations(tree)
    messages = _loop_targets(tree, conversations)
    if any(_is_content(loop.iter, messages) for loop in tree.find_all(nodes.For)):
        return "openai"
    in_macros = {id(loop) for macro in tree.find_all(nodes.Macro) for loop in macro.find_all(nodes.For)}
    for loop in tree.find_all(nodes.For):
        if id(loop) not in in_macros and isinstance(loop.iter, nodes.Name) and loop.iter.name == "content":
            return "openai"
    return (
        "openai"
        if any(_loops_over_parameter(tree, macro, messages) for macro in tree.find_all(nodes.Macro))
        else "string"
    )


def _conversations(tree: nodes.Template) -> set[_Name]:
    """Names that hold the messages or a part of them: `messages` and everything assigned from such a name."""
    names: set[_Name] = {"messages"}
    while True:
        found = {target for target, value in _assignments(tree) if _source(value) in names} - names
        if not found:
            return names
        names |= found


def _assignments(tree: nodes.Template) -> Iterator[tuple[_Name, nodes.Node]]:
    for assign in tree.find_all(nodes.Assign):
        target, value = assign.target, assign.node
        if isinstance(target, nodes.NSRef):
            yield (target.name, target.attr), value
        elif isinstance(target, nodes.Name):
            if (
                isinstance(value, nodes.Call)
                and isinstance(value.node, nodes.Name)
                and value.node.name == "namespace"
            ):
                for keyword in value.kwargs:
                    yield (target.name, keyword.key), keyword.value
            else:
                yield target.name, value


def _source(value: nodes.Node | None) -> _Name | None:
    """The name that an expression gets its value from, through filters, tests and slices."""
    while True:
        if isinstance(value, nodes.Filter | nodes.Test) or (
            isinstance(value, nodes.Getitem) and isinstance(value.arg, nodes.Slice)
        ):
            value = value.node
        elif isinstance(value, nodes.Name):
            return value.name
        elif isinstance(value, nodes.Getattr) and isinstance(value.node, nodes.Name):
            return value.node.name, value.attr
        else:
            return None


def _loop_targets(tree: nodes.Template, conversations: set[_Name]) -> set[str]:
    """Names of a single message: what a loop over the messages binds."""
    return {
        loop.target.name
        for loop in tree.find_all(nodes.For)
        if isinstance(loop.target, nodes.Name) and _source(loop.iter) in conversations
    }


def _is_content(value: nodes.Node | None, messages: set[str]) -> bool:
    """Whether an expression is the content of a message, through filters, tests and slices."""
    while isinstance(value, nodes.Filter | nodes.Test) or (
        isinstance(value, nodes.Getitem) and isinstance(value.arg, nodes.Slice)
    ):
        value = value.node
    if isinstance(value, nodes.Getattr):
        key = value.attr
    elif isinstance(value, nodes.Getitem) and isinstance(value.arg, nodes.Const):
        key = value.arg.value
    else:
        return False
    return key == "content" and isinstance(value.node, nodes.Name) and value.node.name in messages


def _loops_over_parameter(tree: nodes.Template, macro: nodes.Macro, messages: set[str]) -> bool:
    """Whether a macro loops over a parameter to which some call gives the content of a message."""
    looped = {_source(loop.iter) for loop in macro.find_all(nodes.For)}
    parameters = [argument.name for argument in macro.args]
    for call in tree.find_all(nodes.Call):
        if not isinstance(call.node, nodes.Name) or call.node.name != macro.name:
            continue
        given = dict(zip(parameters, call.args, strict=False)) | {kw.key: kw.value for kw in call.kwargs}
        if any(name in looped and _is_content(value, messages) for name, value in given.items()):
            return True
    return False
