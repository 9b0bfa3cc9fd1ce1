"""The Jinja dialect of chat templates (contract C.4): environment, compiling, rendering."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn, Protocol

import jinja2
import msgspec
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context

from renderd.model.content_format import ContentFormat, detect_content_format
from renderd.model.sandbox import CountingEnvironment, limited, written
from renderd.wire.chat import ToolDicts
from renderd.wire.errors import ApiError, bad_request


class _Generation(Extension):
    """`{% generation %}` marks the assistant's own text for training. Here its body is simply rendered."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON. Jinja's own filter escapes HTML, which no model was trained on."""
    if ensure_ascii or separators is not None or sort_keys or type(indent) not in (int, type(None)):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
    texts = written().get(id(value))
    if texts is None:
        return _indented(value, indent)
    if indent not in texts:
        texts[indent] = _indented(value, indent)
    return texts[indent]


def _indented(value: Any, indent: int | None) -> str:
    if indent is None:
        return _PLAIN.encode(value)
    if 0 < indent <= _MOST_INDENTED:
        with suppress(msgspec.DecodeError, UnicodeError):  # NaN, lone surrogates
            return msgspec.json.format(_PLAIN.encode(value), indent=indent)
    return json.dumps(value, ensure_ascii=False, indent=indent)


_PLAIN = json.JSONEncoder(ensure_ascii=False)
_MOST_INDENTED = 16
"""Python indents JSON in Python, at six times the cost of msgspec, which writes the same."""


def _raise_exception(message: Any) -> NoReturn:
    raise jinja2.TemplateError(message)


_now: ContextVar[datetime | None] = ContextVar("now", default=None)


@contextmanager
def at(time: str) -> Iterator[None]:
    """What `strftime_now` takes for now, in ISO format."""
    token = _now.set(datetime.fromisoformat(time))
    try:
        yield
    finally:
        _now.reset(token)


def now() -> datetime:
    """The time that templates see, the machine's."""
    return _now.get() or datetime.now()


def _strftime_now(format: str) -> str:
    return now().strftime(format)


def _environment() -> CountingEnvironment:
    environment = CountingEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


_ENVIRONMENT = _environment()


class ChatTemplate(Protocol):
    """A template ready to render. `variables`: the names it takes from outside; `mentions_developer`: it
    knows the developer role; `mentions_content`: it prints what messages contain."""

    @property
    def variables(self) -> frozenset[str]: ...
    @property
    def content_format(self) -> ContentFormat: ...
    @property
    def mentions_developer(self) -> bool: ...
    @property
    def mentions_content(self) -> bool: ...
    def render(self, variables: Mapping[str, Any]) -> str:
        """The template's text. Raises ApiError 400 with the reason that Jinja or the template gives."""
        ...


@dataclass(frozen=True)
class CompiledTemplate:
    """A ChatTemplate that is rendered here."""

    template: jinja2.Template
    variables: frozenset[str]
    content_format: ContentFormat
    mentions_developer: bool
    mentions_content: bool

    def render(self, variables: Mapping[str, Any]) -> str:
        """The template's text. Raises ApiError 400 with the reason that Jinja or the template gives."""
        try:
            tools = variables.get("tools")
            limited(len(variables.get("messages", ())), tools.written if type(tools) is ToolDicts else None)
            template = self.template
            context = Context(_ENVIRONMENT, {**_ENVIRONMENT.globals, **variables}, None, template.blocks)
            return "".join(template.root_render_func(context))
        except ApiError:
            raise
        except MemoryError:
            raise bad_request("The chat template makes values that are too large.") from None
        except RecursionError:  # Python adds what it was about, which depends on the depth of its own stack
            raise bad_request("maximum recursion depth exceeded") from None
        except Exception as error:  # a template can make any Python operation fail
            raise bad_request(_reason(error)) from None


@lru_cache(maxsize=32)
def compile_template(source: str) -> CompiledTemplate:
    """Compile a template; templates in use stay compiled. Raises ApiError 400 for a syntax error."""
    try:
        tree = _ENVIRONMENT.parse(source)
        limited()
        template = _ENVIRONMENT.from_string(_ENVIRONMENT.parse(source))
        variables = frozenset(find_undeclared_variables(tree))
    except jinja2.TemplateError as error:
        raise bad_request(_reason(error)) from None
    except (RecursionError, SyntaxError, ValueError, MemoryError) as error:
        raise bad_request(f"The chat template cannot be compiled: {error}") from None
    return CompiledTemplate(
        template=template,
        variables=variables,
        content_format=detect_content_format(tree),
        mentions_developer='"developer"' in source or "'developer'" in source,
        mentions_content="content" in source,
    )


_BARE = CountingEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
"""Jinja without what chat templates have on top of it."""


def renders_bare(source: str, variables: Mapping[str, Any]) -> bool:
    """Whether bare Jinja renders a template without an error."""
    try:
        limited()
        template = _BARE.from_string(source)
        limited()
        template.render(variables)
    except Exception:  # a template can make any Python operation fail
        return False
    return True


def _reason(error: Exception) -> str:
    """Jinja's message without the place in the template."""
    return str(error.message or "") if isinstance(error, jinja2.TemplateError) else str(error)
