"""A sandbox that ends: templates that run too long or grow too large are refused, whatever they do.

Jinja's sandbox keeps a template from touching the server; it does not keep it from looping a billion times or
from doubling a string until memory is full. Here every turn of a loop, call, operation and print counts.
Python cannot stop a thread from outside, so the counting is compiled into the template.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jinja2 import nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import generate_lorem_ipsum

from renderd.wire.errors import ApiError, bad_request

FREE_STEPS = 300_000
"""Turns of loops, calls and operations that any template has: about a third of a second."""
STEPS_PER_MESSAGE = 500
"""How many more it has for each message. Templates of real models take 10 to 50."""
MAX_STEPS = 2_000_000
"""What no template has more of: about two seconds."""
LONG_STEPS, STEPS_A_REST, REST_SECONDS = 100_000, 500, 0.0003
"""A rendering of more than so many steps rests after each so many for so long. Threads share one processor's
worth of Python: without the rests, other requests would wait 5 ms each time that they want it."""
MAX_SIZE = 64 * 1024 * 1024
"""Characters or items of one value, and of all that is printed: as many as a request body may have bytes."""
MAX_COPIED = 16 * MAX_SIZE
"""Characters and items of all values that operations make: what a template may keep in memory."""
_MAX_BITS = 1_000_000
_MAX_REMEMBERED = 1000
_DIGITS = re.compile(r"\d{7}")
_PADDING = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})
_SIZED_FILTERS = ("center", "format", "indent", "join", "replace", "slice", "batch", "wordwrap")


class _Spent(threading.local):
    """What the template that this thread renders has used."""

    steps = 0
    most = MAX_STEPS
    printed = 0
    copied = 0
    deadline = float("inf")


_SPENT = _Spent()


@contextmanager
def limited(messages: int = 0) -> Iterator[None]:
    """Counts from here on, for this thread. `messages`: how long the conversation is."""
    _SPENT.steps = _SPENT.printed = _SPENT.copied = 0
    _SPENT.most = min(MAX_STEPS, FREE_STEPS + STEPS_PER_MESSAGE * messages)
    _SPENT.deadline = time.monotonic() + float(os.environ.get("VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT") or 30)
    try:
        yield
    finally:
        _SPENT.deadline = float("inf")
        _SPENT.most = MAX_STEPS


def _too_long() -> ApiError:
    return bad_request("Rendering the chat template takes too long.")


def _too_large() -> ApiError:
    return bad_request("The chat template makes values that are too large.")


def step() -> None:
    """One turn. Raises ApiError 400 when there have been too many."""
    _SPENT.steps += 1
    if _SPENT.steps > _SPENT.most or (_SPENT.steps % 16 == 0 and time.monotonic() > _SPENT.deadline):
        raise _too_long()
    if _SPENT.steps > LONG_STEPS and _SPENT.steps % STEPS_A_REST == 0:
        time.sleep(REST_SECONDS)


def _make(size: int) -> None:
    """A value of that size is about to be made."""
    _SPENT.copied += size
    if size > MAX_SIZE or _SPENT.copied > MAX_COPIED:
        raise _too_large()


def printed(value: Any) -> Any:
    """A value that is printed, unchanged."""
    text = value if isinstance(value, str) else str(value)
    _SPENT.printed += len(text)
    if _SPENT.printed > MAX_COPIED or len(text) > MAX_SIZE:
        raise _too_large()
    return text


def joined(*values: Any) -> str:
    """What `~` makes of values."""
    step()
    texts = [str(value) for value in values]
    _make(sum(map(len, texts)))
    return "".join(texts)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict | bytes) else 1


def _check_numbers(values: Sequence[Any]) -> None:
    """Numbers that say how long something is to become."""
    for value in values:
        if isinstance(value, int) and value > MAX_SIZE:
            raise _too_large()
        _make(value if isinstance(value, int) and value > 0 else 0)


def _check_method(text: str, name: str, args: tuple[Any, ...]) -> None:
    """What a method of a string would make of it."""
    if name in _PADDING:
        _check_numbers(args)
    elif name == "replace" and len(args) > 1 and isinstance(args[0], str) and isinstance(args[1], str):
        _make(len(text) + text.count(args[0]) * len(args[1]))
    elif name == "join" and args and isinstance(args[0], list | tuple):
        _make(len(text) * len(args[0]) + sum(map(_size, args[0])))
    elif name in ("format", "format_map", "translate"):
        _check_format(text, args)
        if name == "translate" and args and isinstance(args[0], dict):
            _make(len(text) * max(map(_size, args[0].values()), default=0))


def _check_format(text: str, args: Any) -> None:
    """A format may name widths, or take them from its arguments."""
    values = args if isinstance(args, tuple | list) else (args,)
    if _DIGITS.search(text):
        raise _too_large()
    _make(len(text) + text.count("{") * sum(map(_size, values)) + text.count("%") * sum(map(_size, values)))
    if "*" in text or ":{" in text:
        _check_numbers([value for value in values if isinstance(value, int)])


def _sized(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that makes text, counted before it does."""

    def run(*args: Any, **kwargs: Any) -> Any:
        step()
        given = [arg for arg in (*args, *kwargs.values()) if not isinstance(arg, Context)]
        texts = [arg for arg in given if isinstance(arg, str)]
        if name == "replace" and len(texts) >= 3:
            _check_method(texts[0], "replace", tuple(texts[1:3]))
        elif name == "format" and texts:
            _check_format(texts[0], tuple(given[1:]))
        elif name == "indent" and texts:
            widths = [arg if isinstance(arg, int) else len(str(arg)) for arg in given[1:]]
            _make(len(texts[0]) + (texts[0].count("\n") + 1) * max(widths, default=4))
        elif name == "join":
            separator = args[2] if len(args) > 2 else kwargs.get("d", "")
            args = (args[0], list(args[1]), *args[2:])
            _make(len(args[1]) * len(str(separator)) + sum(map(_size, args[1])))
        else:
            _check_numbers([arg for arg in given if isinstance(arg, int)])
        result = inner(*args, **kwargs)
        _make(_size(result))
        return result

    for attribute in ("jinja_pass_arg", "__name__", "__doc__"):
        if hasattr(inner, attribute):
            setattr(run, attribute, getattr(inner, attribute))
    return run


class CountingEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with the limits of this module. `limited()` says when the counting begins."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=printed, **options)
        self.step = step
        self.joined = joined
        for name in _SIZED_FILTERS:
            self.filters[name] = _sized(name, self.filters[name])
        self._safe: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may see an attribute. Jinja looks at the object's type and at the name alone."""
        key = type(obj), attr
        safe = self._safe.get(key)
        if safe is None:
            safe = super().is_safe_attribute(obj, attr, value)
            if len(self._safe) < _MAX_REMEMBERED:
                self._safe[key] = safe
        return safe

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call from a template."""
        if function is step or function is joined:
            return function(*args)
        step()
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        if isinstance(owner, str):
            _check_method(owner, str(getattr(function, "__name__", "")), args)
        elif function is generate_lorem_ipsum:
            raise bad_request("lipsum is no function for chat templates.")
        return super().call(context, function, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operation that can make something large of something small."""
        step()
        if operator == "+":
            if isinstance(left, str | list | tuple):
                _make(_size(left) + _size(right))
        elif operator == "%":
            if isinstance(left, str):
                _check_format(left, right)
        elif isinstance(left, int) and isinstance(right, int):
            power = operator == "**"
            bits = left.bit_length() * max(right, 0) if power else left.bit_length() + right.bit_length()
            if bits > _MAX_BITS:
                raise _too_large()
        elif operator == "*":
            for value, times in ((left, right), (right, left)):
                if isinstance(times, int):
                    _make(_size(value) * max(times, 0))
        return super().call_binop(context, operator, left, right)


def counted(tree: nodes.Template) -> nodes.Template:
    """The template with a step in each turn of its loops and with every `~` counted. Changes `tree`."""
    for loop in tree.find_all(nodes.For):
        loop.body.insert(0, nodes.ExprStmt(_own("step", [], loop.lineno), lineno=loop.lineno))
    _replace(tree)
    return tree


def _replace(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, list):
            setattr(node, field, [_counted_node(item) for item in value])
        else:
            setattr(node, field, _counted_node(value))


def _counted_node(node: Any) -> Any:
    if not isinstance(node, nodes.Node):
        return node
    _replace(node)
    return _own("joined", node.nodes, node.lineno) if isinstance(node, nodes.Concat) else node


def _own(name: str, args: list[nodes.Expr], line: int) -> nodes.Call:
    function = nodes.EnvironmentAttribute(name, lineno=line)
    return nodes.Call(function, args, [], None, None, lineno=line)
