"""`renderd fingerprint URL...`: whether replicas have in common what they must."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from renderd.conformance.client import Client
from renderd.conformance.lines import printable, say

_SECONDS = 10.0
_WHOLE = "fingerprint"


class _Version(msgspec.Struct):
    """What is read of `GET /version`."""

    fingerprint: str
    fingerprint_parts: dict[str, str] = {}
    renderd: str = "?"


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 when all have the same fingerprint, 1 when not or when one does not say."""
    urls = _parser().parse_args(argv).urls
    found = [_ask(url) for url in urls]
    versions = [answer for answer in found if isinstance(answer, _Version)]
    parts = list(dict.fromkeys(name for version in versions for name in version.fingerprint_parts))
    rows = [[_WHOLE, *parts, "renderd", "URL"]]
    for url, answer in zip(urls, found, strict=True):
        if isinstance(answer, _Version):
            values = [answer.fingerprint_parts.get(part, "-") for part in parts]
            rows.append([answer.fingerprint, *values, answer.renderd, url])
        else:
            rows.append(["-", *["-" for _ in parts], "-", f"{url}: {answer}"])
    _print(rows)
    if len(versions) < len(found):
        say(f"{len(found) - len(versions)} of {len(found)} did not say", file=sys.stderr)
        return 1
    if len({version.fingerprint for version in versions}) == 1:
        return 0
    differing = [part for part in parts if len({v.fingerprint_parts.get(part) for v in versions}) > 1]
    say(f"they differ in: {', '.join(differing) or 'what they do not say'}", file=sys.stderr)
    return 1


def _ask(url: str) -> _Version | str:
    """What a server says of itself, or a sentence on why it is not known."""
    try:
        client = Client(url, timeout=_SECONDS)
        try:
            answer = client.get("/version")
        finally:
            client.close()
        if answer.status != 200:
            return f"answered {answer.status}"
        return msgspec.json.decode(answer.body, type=_Version)
    except msgspec.MsgspecError:
        return "has no fingerprint: it is no renderd"
    except (OSError, ValueError) as error:
        return f"cannot be asked: {error}"


def _print(rows: Sequence[Sequence[str]]) -> None:
    rows = [[printable(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="renderd fingerprint",
        description="Ask replicas for the fingerprint of their model files, template, parsers and defaults, "
        "and fail when they differ.",
    )
    parser.add_argument("urls", metavar="URL", nargs="+", help="base URL of a replica, http://127.0.0.1:8000")
    return parser
