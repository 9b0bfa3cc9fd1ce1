"""Request bytes -> typed values, as lenient as a pydantic server and with its error envelope (contract A.2,
A.3).

`parse_json` reads what Python's json module reads; `convert` fits a value to a type in lax mode.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from renderd.wire.errors import ApiError, bad_request, schema_error
from renderd.wire.lax import relax

T = TypeVar("T")

_DECODER = msgspec.json.Decoder()
_AT = re.compile(r" - at `(key in )?\$([^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `([^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def parse_json(body: bytes | str) -> Any:
    """The value of a JSON text (contract A.3). NaN, Infinity, a byte order mark and lone surrogates are
    accepted as Python's json module accepts them; the last of duplicate keys wins.

    Raises ApiError 400 with `param` "body.<offset>".
    """
    try:
        return _DECODER.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    if not body:
        raise validation_error("body", "Field required")
    try:
        text = body if isinstance(body, str) else body.decode(json.detect_encoding(body), "surrogatepass")
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise validation_error(f"body.{error.pos}", f"JSON decode error: {error.msg}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise schema_error("There was an error parsing the body", "body") from None


def parse_object(body: bytes | str) -> dict[str, Any]:
    """The object that a JSON text holds. Raises ApiError 400 when it holds something else."""
    return expect_object(parse_json(body))


def expect_object(raw: Any, loc: str = "body") -> dict[str, Any]:
    """`raw` itself if it is a JSON object. Raises ApiError 400 naming `loc`."""
    if isinstance(raw, dict):
        return raw
    raise validation_error(loc, "Field required" if raw is None else "Input should be an object")


def convert(raw: Any, type: type[T], loc: str = "body") -> T:
    """`raw` as a value of `type`, numbers and booleans coerced as contract A.3 says.

    Raises ApiError 400 whose `param` is the dotted place of the first error, `loc` included.
    """
    if raw is None:
        raise validation_error(loc, "Field required")
    try:
        return msgspec.convert(raw, type, strict=False)
    except msgspec.ValidationError:
        pass  # perhaps only a spelling that pydantic takes and msgspec does not
    except UnicodeEncodeError:
        return _without_surrogates(raw, type, loc)
    except (ValueError, RecursionError):
        raise validation_error(loc, "Input cannot be read") from None
    try:
        return msgspec.convert(relax(raw, type), type, strict=False)
    except msgspec.ValidationError as error:
        raise _located(_with_key(str(error), raw, type), loc) from None
    except (ValueError, RecursionError):
        raise validation_error(loc, "Input cannot be read") from None


def _without_surrogates(raw: Any, type: type[T], loc: str) -> T:
    """Text with a lone surrogate stands where a number is wanted: its place, as of any other text."""
    convert(json.loads(json.dumps(raw).replace("\\ud", "\\u00")), type, loc)
    raise validation_error(loc, "Input cannot be read")


def _with_key(message: str, raw: Any, type: Any) -> str:
    """msgspec does not say at which key of an object with free keys a value is wrong: found by trying."""
    match = re.search(r" - at `\$\.(\w+)(\[(\d+)\])?\[\.\.\.\]", message)
    if match is None or not isinstance(raw, dict):
        return message
    field, index = match[1], match[3]
    holder = raw[field] if index is None else raw[field][int(index)]
    for key, value in holder.items() if isinstance(holder, dict) else ():
        one: Any = {key: value} if index is None else [{key: value}]
        try:
            msgspec.convert(relax({**raw, field: one}, type), type, strict=False)
        except msgspec.ValidationError as error:
            if "[...]" in str(error):
                return message.replace("[...]", f".{key}")
        except (ValueError, RecursionError):
            return message
    return message


def check_content_type(value: str | None) -> None:
    """The body of a request must be declared as application/json, parameters aside (contract A.3).

    Raises ApiError 400.
    """
    if value is None or value.split(";", 1)[0].lower() != "application/json":
        raise schema_error(
            "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        )


def validation_error(loc: str, message: str) -> ApiError:
    """400 of a body that does not fit its schema at the dotted place `loc`."""
    return schema_error(f"1 validation error:\n  {loc}: {message}", loc)


def rule_error(message: str, param: str | None = None, **value: Any) -> ApiError:
    """400 of a request that breaks a rule between fields. The text ends with the parameter and, where given,
    `value=`."""
    if param is None:
        return bad_request(message)
    shown = "".join(f", value={v}" for v in value.values())
    return bad_request(f"{message} (parameter={param}{shown})", param)


def _located(message: str, loc: str) -> ApiError:
    match = _AT.search(message)
    path = match[2] if match else ""
    if match:
        message = message[: match.start()]
    steps = [name or index for name, index in _STEP.findall(path) if name or index]
    if missing := _MISSING.match(message):
        steps.append(missing[1])
        message = "Field required"
    return validation_error(".".join([loc, *steps]), message)


def _too_deep() -> ApiError:
    return schema_error("There was an error parsing the body: it is nested too deeply", "body")
