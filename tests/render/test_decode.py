"""Bytes to requests (contract A.3): leniency, and where an error is said to be."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import pytest

from renderd.wire.decode import convert, parse_json, parse_object
from renderd.wire.errors import ApiError
from renderd.wire.structured import is_structural_tag, tag_format


class Inner(msgspec.Struct):
    on: bool = False


class Body(msgspec.Struct):
    needed: int = 0
    ratio: float | None = None
    inner: Inner | None = None
    many: list[Inner] = []
    by_name: dict[str, Inner] = {}
    either: str | list[str] | None = None
    small: Annotated[int, msgspec.Meta(le=9)] = 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'"\\ud800"', "\ud800"),
        (b"\xef\xbb\xbf[1]", [1]),
        (b"[1e400]", [math.inf]),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        ("[1]".encode("utf-16"), [1]),
    ],
)
def test_json_that_python_reads(text: bytes, value: Any) -> None:
    assert parse_json(text) == value


def test_not_a_number() -> None:
    assert math.isnan(parse_json(b"NaN"))


@pytest.mark.parametrize(
    ("text", "param"),
    [
        (b"", "body"),
        (b'{"a":1,}', "body.7"),
        (b"[[[[", "body.4"),
        (b"{'a':1}", "body.1"),
        (b'"\xff"', "body"),
        (b"9" * 5000, "body"),
        (b"[" * 100000, "body"),
        (b"[" * 5000 + b"]" * 5000, "body"),
    ],
)
def test_json_that_nobody_reads(text: bytes, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_json(text)
    assert (caught.value.status, caught.value.type, caught.value.param) == (400, "Bad Request", param)


@pytest.mark.parametrize("text", [b"null", b"[]", b'"x"', b"5"])
def test_bodies_are_objects(text: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_object(text)
    assert caught.value.param == "body"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ({"needed": "12"}, Body(needed=12)),
        ({"needed": " 2 "}, Body(needed=2)),
        ({"needed": 12.0}, Body(needed=12)),
        ({"needed": True}, Body(needed=1)),
        ({"ratio": False}, Body(ratio=0.0)),
        ({"ratio": "1.5"}, Body(ratio=1.5)),
        ({"inner": {"on": "Yes"}}, Body(inner=Inner(True))),
        ({"inner": {"on": 0.0}, "many": [{"on": "off"}]}, Body(inner=Inner(False), many=[Inner(False)])),
        ({"by_name": {"k": {"on": "t"}}}, Body(by_name={"k": Inner(True)})),
        ({"either": "true", "needed": True}, Body(needed=1, either="true")),
        ({"unknown": 1}, Body()),
    ],
)
def test_coercion(raw: Any, value: Body) -> None:
    assert convert(raw, Body) == value


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (None, "body"),
        ([], "body"),
        ({"needed": 1.5}, "body.needed"),
        ({"needed": None}, "body.needed"),
        ({"inner": {"on": "maybe"}}, "body.inner.on"),
        ({"many": [{}, {"on": []}]}, "body.many.1.on"),
        ({"either": [5]}, "body.either.0"),
        ({"small": 10}, "body.small"),
    ],
)
def test_errors_say_where(raw: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        convert(raw, Body)
    assert caught.value.param == param
    assert caught.value.message.startswith("1 validation error:\n  body")


@pytest.mark.parametrize(
    "tag",
    [
        "x",
        "{}",
        {},
        {"format": {"type": "nope"}},
        {"format": {"type": "tag", "begin": "a", "end": "b"}},
        {"format": {"type": "or", "elements": []}},
        {"format": {"type": "sequence", "elements": [{"type": "regex"}]}},
        {"structures": [], "triggers": []},
        {"structures": [{"begin": "<a>"}], "triggers": ["<a"]},
        {"structures": [{"begin": 1, "schema": {}, "end": ""}], "triggers": ["<a"]},
    ],
)
def test_what_is_no_structural_tag(tag: Any) -> None:
    assert not is_structural_tag(tag)


def test_structural_tags_are_written_out() -> None:
    assert tag_format('{"format": {"type": "any_text"}}') == {
        "type": "any_text",
        "excludes": [],
        "max_tokens": None,
        "max_chars": None,
    }
    legacy = {
        "structures": [{"begin": "<a>", "schema": {"type": "object"}, "end": "</a>"}],
        "triggers": ["<a"],
    }
    form = tag_format(legacy)
    assert form is not None
    assert (form["type"], form["at_least_one"]) == ("triggered_tags", False)
    assert form["tags"][0]["content"]["style"] == "json"
