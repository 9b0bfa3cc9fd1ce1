"""The conventions of vLLM's command line on argparse: actions, value types, spelling. Knows no flag."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit

_MULTIPLIERS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_LEVEL = re.compile(r"-O=?(\d*)")
_DOTTED = re.compile(r"(--[\w-]+|-[a-z]+)\.([\w.-]+)(\+?)(?:=(.*))?", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2. The usage of some hundred flags would bury the message."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


class Switch(argparse.Action):
    """A flag without a value, known under its name and its inverses."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        self.positive = list(option_strings)
        super().__init__([*option_strings, *inverses(option_strings)], dest, nargs=0, **options)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, option in self.positive)


class JsonObject(argparse.Action):
    """A JSON object; what is given later is merged into what was given before."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, _merged(getattr(namespace, self.dest) or {}, values))


class Collect(argparse.Action):
    """Appends the flag, as it was spelled, to `dest`; its values are dropped."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), option])


def inverses(names: Iterable[str]) -> list[str]:
    """The names that switch off what `names` switch on: `--no-x`, and `--disable-x` against `--enable-x`."""
    result = []
    for name in names:
        if not name.startswith("--"):
            continue
        result.append("--no-" + name.removeprefix("--"))
        for one, other in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
            if name.startswith(one):
                result.append(other + name.removeprefix(one))
    return result


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            value = [*before, *value]
        result[key] = value
    return result


def normalized(argv: Iterable[str]) -> Iterator[str]:
    """`_` becomes `-` in names; `--flag.key value` becomes `--flag {"key": value}`, `--flag.key+` a list.

    `-O3` is `--optimization-level 3`.
    """
    arguments = iter(argv)
    for argument in arguments:
        if not argument.startswith("-"):
            yield argument
        elif level := _LEVEL.fullmatch(argument):
            yield "--optimization-level"
            yield from filter(None, level.groups())
        elif dotted := _DOTTED.fullmatch(argument):
            flag, path, plus, text = dotted.groups()
            text = next(arguments, "") if text is None else text
            value = [_json_or_text(item) for item in text.split(",")] if plus else _json_or_text(text)
            for key in reversed(path.split(".")):
                value = {key: value}
            yield flag.replace("_", "-")
            yield json.dumps(value)
        else:
            name, equals, value = argument.partition("=")
            yield name.replace("_", "-") + equals + value


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def from_mapping(flags: dict[str, Any]) -> Iterator[str]:
    """Arguments from a configuration file: true and false are switches, a list is several values."""
    for key, value in flags.items():
        flag = "--" + key.removeprefix("--")
        if value is None:
            continue
        if isinstance(value, bool):
            yield flag if value else inverses([flag])[0]
        elif isinstance(value, list):
            yield flag
            yield from (_text(item) for item in value)
        else:
            yield f"{flag}={_text(value)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def positive_int(text: str) -> int:
    """`8192`, `8k` (8000), `8K` (8192), `25.6k` (25600); at least 1."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _MULTIPLIERS else (text, "")
    try:
        value = (
            int(float(number) * _MULTIPLIERS[unit])
            if unit.islower()
            else int(number) * _MULTIPLIERS.get(unit, 1)
        )
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer such as 8192, 8k or 8K")
    return value


def positive_int_or_auto(text: str) -> int | None:
    """A positive integer; `auto` and `-1` are None."""
    return None if text in ("auto", "-1") else positive_int(text)


def natural_int(text: str) -> int:
    """A positive integer, or 0."""
    try:
        return 0 if text == "0" else positive_int(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 0 or more") from None


def positive_seconds(text: str) -> float:
    """A time of more than 0 seconds, such as 30 or 0.5."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds such as 30 or 0.5")
    return value


def seconds(text: str) -> float:
    """A time of 0 seconds or more."""
    return 0.0 if text in ("0", "0.0") else positive_seconds(text)


def port(text: str) -> int:
    """A TCP port; 0 takes a free one."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port between 0 and 65535")
    return int(text)


def http_url(text: str) -> str:
    """The base URL of a server, without a password: it stands in logs and metrics."""
    try:
        url = urlsplit(text)
        good = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        good = False
    if not good or url.query or url.fragment or "@" in url.netloc:
        raise argparse.ArgumentTypeError(f"{text!r} is no URL such as http://HOST:PORT")
    return text.rstrip("/")


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    value = _json_or_text(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


def json_strings(text: str) -> list[str]:
    """A JSON list of strings."""
    value = _json_or_text(text)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON list of strings")
    return value


def comma_separated(text: str) -> list[str]:
    """`a,b,c`."""
    return [item.strip() for item in text.split(",") if item.strip()]
