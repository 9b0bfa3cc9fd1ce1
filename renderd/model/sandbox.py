"""A sandbox that ends: templates that run too long or grow too large are refused, whatever they do.

Jinja's sandbox keeps a template from touching the server; it does not keep it from looping a billion times
or from doubling a string until memory is full. Here every turn of a loop counts, every call but those of
harmless methods, and every text that is made or printed. Python cannot stop a thread from outside, so the
counting is compiled into the template, see `renderd.model.compiler`.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial, reduce
from typing import Any

from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, generate_lorem_ipsum

from renderd.model.compiler import Generator
from renderd.model.hurry import takes_long
from renderd.wire.errors import ApiError, bad_request

FREE_STEPS = 300_000
"""Turns of loops and calls that any template has: about half a second."""
STEPS_PER_MESSAGE = 500
"""How many more it has for each message. Templates of real models take 2 to 20."""
HURRIED_STEPS = 1000
"""What it has where everything else waits for it: about a millisecond."""
MAX_STEPS = 2_000_000
"""What no template has more of: about three seconds."""
MAX_SIZE = 64 * 1024 * 1024
"""Characters or items of one value, and of all that is printed: as many as a request body may have bytes."""
MAX_COPIED = 16 * MAX_SIZE
"""Characters and items of all values that operations make: what a template may keep in memory."""
SECONDS = 30.0
"""What a rendering may take by the clock where VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT does not say otherwise."""
_STEPS_A_LOOK = 16
_MAX_BITS = 1_000_000
_MAX_REMEMBERED = 1000
_DIGITS = re.compile(r"\d{7}")
_PADDING = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})
_SIZED_FILTERS = ("center", "format", "indent", "join", "replace", "slice", "batch", "wordwrap")


Written = dict[int, dict[int | None, str]]


class Spent:
    """What one rendering has used. `messages`: how long the conversation is. `written`: JSON texts that are
    known, by the identity of the value and the indent."""

    __slots__ = ("_begun", "_deadline", "_look", "_most", "copied", "printed", "steps", "written")

    def __init__(self, messages: int = 0, written: Written | None = None) -> None:
        self.written: Written = {} if written is None else written
        self.steps = self.printed = self.copied = 0
        self._look = _STEPS_A_LOOK
        self._most = min(MAX_STEPS, FREE_STEPS + STEPS_PER_MESSAGE * messages)
        self._begun = time.monotonic()
        self._deadline = 0.0

    def step(self) -> None:
        """One turn. Raises ApiError 400 when there have been too many."""
        self.steps += 1
        if self.steps >= self._look:
            self._check()

    def _check(self) -> None:
        if not self._deadline:
            timeout = os.environ.get("VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT")
            self._deadline = self._begun + float(timeout or SECONDS)
        if self.steps > self._most or time.monotonic() > self._deadline:
            raise bad_request("Rendering the chat template takes too long.")
        if self.steps > HURRIED_STEPS:
            takes_long()
        self._look += _STEPS_A_LOOK

    def make(self, size: int) -> None:
        """A value of that size is about to be made. Raises ApiError 400 when that is too much."""
        self.copied += size
        if size > MAX_SIZE or self.copied > MAX_COPIED:
            raise _too_large()

    def add(self, left: Any, right: Any) -> Any:
        """What `+` makes of two values."""
        if type(left) is str and type(right) is str:
            self.make(len(left) + len(right))
        elif isinstance(left, str | list | tuple):
            self.make(_size(left) + _size(right))
        return left + right

    def chain(self, *values: Any) -> Any:
        """What `+` makes of values, from left to right."""
        size = 0
        for value in values:
            if type(value) is not str:
                return reduce(self.add, values)
            size += len(value)
        self.make(size)
        return "".join(values)

    def joined(self, *values: Any) -> str:
        """What `~` makes of values."""
        texts = [str(value) for value in values]
        self.make(sum(map(len, texts)))
        return "".join(texts)

    def out(self, value: Any) -> str:
        """The text of a value that is printed."""
        text = value if type(value) is str else str(value)
        self.printed += len(text)
        if self.printed > MAX_COPIED or len(text) > MAX_SIZE:
            raise _too_large()
        return text


class _Thread(threading.local):
    """What the template that this thread renders has used."""

    def __init__(self) -> None:
        self.spent = Spent()


_THREAD = _Thread()


def limited(messages: int = 0, written: Written | None = None) -> None:
    """Begins to count, for this thread. See Spent."""
    _THREAD.spent = Spent(messages, written)


def written() -> Written:
    """The JSON texts that are known to the template that this thread renders."""
    return _THREAD.spent.written


def _too_large() -> ApiError:
    return bad_request("The chat template makes values that are too large.")


def _make(size: int) -> None:
    _THREAD.spent.make(size)


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
        _THREAD.spent.step()
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


class ListLoop(LoopContext):
    """What a template knows of a loop over a list."""

    def __init__(self, items: list[Any], undefined: type[Undefined]) -> None:
        super().__init__(items, undefined)
        self._items = items
        self._last = len(items) - 1

    @property
    def last(self) -> bool:
        """Whether this is the last turn."""
        return self.index0 == self._last

    @property
    def previtem(self) -> Any:
        """The item of the turn before."""
        return self._items[self.index0 - 1] if self.index0 else self._undefined("there is no previous item")

    @property
    def nextitem(self) -> Any:
        """The item of the next turn."""
        if self.index0 < self._last:
            return self._items[self.index0 + 1]
        return self._undefined("there is no next item")

    def turns(self) -> Iterator[tuple[Any, ListLoop]]:
        """The items, each with this object. A third of what Jinja's own iterator takes."""
        for self.index0, item in enumerate(self._items):  # noqa: B020
            yield item, self


@lru_cache(maxsize=_MAX_REMEMBERED)
def _absent(name: str) -> Undefined:
    """What an object of JSON has under a name that it does not have: the same for all of them."""
    return Undefined(obj={}, name=name)


class CountingEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with the limits of this module. `limited()` says when the counting begins."""

    code_generator_class = Generator
    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name in _SIZED_FILTERS:
            self.filters[name] = _sized(name, self.filters[name])
        self._safe: dict[tuple[type, str], bool] = {}

    def spent(self) -> Spent:
        """What the template that this thread renders has used."""
        return _THREAD.spent

    ListLoop = ListLoop

    def loop(self, items: Any, undefined: type[Undefined]) -> Iterable[tuple[Any, LoopContext]]:
        """What a loop goes through that is asked for no more than `renderd.model.compiler` says."""
        return ListLoop(items, undefined).turns() if type(items) is list else LoopContext(items, undefined)

    def bound(self, context: Context, function: Any, **scope: Any) -> Callable[..., Any]:
        """What calls a function for a template. `scope`: the variables of its loop or block."""
        return partial(self.call, context, function, **scope)

    def field(self, obj: Any, name: str) -> Any:
        """`obj.name` of a template, where no dict has such an attribute and the name does not begin with an
        underscore: `getattr`, with short ways for some types."""
        if type(obj) is dict:
            return obj[name] if name in obj else _absent(name)
        if type(obj) is Namespace:
            values = object.__getattribute__(obj, "_Namespace__attrs")
            if name in values:
                return values[name]
        return self.getattr(obj, name)

    def item(self, obj: Any, key: str) -> Any:
        """`obj[key]` of a template, where no dict has such an attribute: `getitem`, with a short way."""
        if type(obj) is dict:
            return obj[key] if key in obj else _absent(key)
        return self.getitem(obj, key)

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
        _THREAD.spent.step()
        if type(function) is Macro or function is Namespace:
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            if function is Namespace:
                return Namespace(*args, **kwargs)
            return function(context.eval_ctx, *args, **kwargs)
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        if isinstance(owner, str):
            _check_method(owner, str(getattr(function, "__name__", "")), args)
        elif function is generate_lorem_ipsum:
            raise bad_request("lipsum is no function for chat templates.")
        return super().call(context, function, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operation that can make something large of something small."""
        _THREAD.spent.step()
        if operator == "%":
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
