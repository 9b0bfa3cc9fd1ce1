"""What golden/ holds: configurations, cases, and what a vLLM version answered to them (golden/README.md)."""

from __future__ import annotations

import lzma
import shlex
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from renderd.conformance.formats import assembly, is_answer, outline, said
from renderd.conformance.malformed import MALFORMED, excerpt, reason
from renderd.conformance.paths import ABSENT
from renderd.conformance.recorded_form import RecordingForm

REFERENCE = "vllm-0.33.0"
"""Whose answers are wanted where nobody says: the name of a folder under recorded/."""

Json = dict[str, Any]

Folder = Path | zipfile.Path
"""A folder, or a place in an archive."""


def carried() -> Folder:
    """The cases that came with the package: golden/ of a checkout, the archive of a wheel.

    Where there are none, as in the image, it is a folder that does not exist; a damaged archive is no folder
    either. `Golden` says so, and not whoever only asks for --help.
    """
    archive = Path(__file__).parent / "golden.zip"
    if not archive.exists():
        return Path(__file__).resolve().parents[2] / "golden"
    try:
        return zipfile.Path(archive)
    except _DAMAGES:
        return archive


def read(path: Folder) -> bytes:
    """A file's content. Raises OSError, and ValueError where an archive is damaged."""
    try:
        return path.read_bytes()
    except _DAMAGES as error:
        raise ValueError(f"{path}: damaged: {error}") from error


_DAMAGES = (zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, RuntimeError, struct.error)
"""What reading an archive raises: RuntimeError where a flag or a method is none that there is."""


class Case(msgspec.Struct):
    """One request with the output it gets. Its id is `server/name`, in recordings and divergences too.

    `api` is "chat", "completion", "messages", "responses", or "http": a request to any route, given as it
    goes over the wire. `output` is what the engine was made to generate, None where the render route alone is
    asked.
    """

    id: str
    server: str
    api: str
    request: Json
    output: Json | None = None
    coupled: bool = True
    about: str = ""
    areas: list[str] = []

    def text(self, choice: int) -> str:
        """The characters that the engine generated for a choice; none when the case gives ids alone."""
        output = self._output(choice)
        return str(output["text"]) if "text" in output else "".join(output.get("pieces") or [])

    def pieces(self, choice: int) -> list[str]:
        """The pieces of them that were made tokens one by one; none when the case gives no pieces."""
        return list(self._output(choice).get("pieces") or [])

    def _output(self, choice: int) -> Json:
        output = self.output or {}
        return output["choices"][choice] if output.get("choices") else output


class Recording(msgspec.Struct):
    """What the reference answered to a case. What was not asked is None.

    Attributes:
        digest: of what the answer depends on. Two recordings with different ones are of different cases.
        status, render: the render route's answer, be it an error.
        status, headers, body: the answer to an "http" case; of the headers some.
        generate: the finished tokens-mode answer (a list of them for completions): what derender is fed.
        generate_sse: the same as the engine streamed it, text of the event stream.
        batch, stream: the coupled server's answer and its events.
        derender_batch: `{status, body}` of the reference's derender; derender_stream: `{status, chunks}`.
    """

    id: str
    digest: str = ""
    status: int = 200
    headers: dict[str, str] = {}
    body: Any = None
    render: Any = None
    prompt_token_ids: Any = None
    generate: Any = None
    generate_sse: str | list[str] | None = None
    batch: Json | None = None
    stream: list[Json] | None = None
    derender_batch: Json | None = None
    derender_stream: Json | None = None

    def lacking(self, case: Case) -> str:
        """Why no answer to a case can be compared with it; "" when one can.

        The recorded server may have had one of the two routes alone.
        """
        parts = {"generate": self.generate, "whole answer": self.batch or self.derender_batch}
        if not isinstance(self.generate, list) or len(self.generate) == 1:  # several prompts have no stream
            parts["stream"] = self.stream or self.derender_stream
        without = [name for name, value in parts.items() if not value]
        if case.api == "http" or not without:
            return ""
        if len(without) < len(parts):
            return f"the recording has no {', no '.join(without)}"
        return "nothing was recorded that an answer can be compared with" if self.render is None else ""

    def fault(self) -> str:
        """What of it nothing can be compared with, "" where all is of the form of a recording."""
        try:
            msgspec.convert(msgspec.structs.asdict(self), RecordingForm)
            prompts = self.render if isinstance(self.render, list) else [self.render]
            if self.status == 200 and any(one is not None and "token_ids" not in one for one in prompts):
                return "render: no token_ids"
            answers = [self.batch] if self.batch is not None else []
            if self.derender_batch is not None and self.derender_batch["status"] == 200:
                answers.append(self.derender_batch["body"])
            for answer in answers:
                if not is_answer(answer):
                    return f"no answer: {excerpt(answer)}"
                outline(answer)
            stream = self.derender_stream
            if stream is not None and stream["status"] == 200 and not said(stream["chunks"]):
                return "derender_stream: nothing is said"
            for where in ("render", "http", "batch", "stream"):
                self.view(where)
        except MALFORMED as error:
            return reason(error)
        return ""

    def view(self, where: str) -> Any:
        """The recorded side of a comparison, ABSENT where there is none; an error as `failure` has it.

        `where` is "render", "http", "batch" (the coupled server's, else derender's) or "stream" (the same,
        put together).
        """
        if where == "http":
            return answer_or_failure(self.status, readable(self.body, self.headers.get("content-type", "")))
        if where == "render":
            return ABSENT if self.render is None else answer_or_failure(self.status, self.render)
        if where == "batch":
            if self.batch is None and self.derender_batch is not None:
                return answer_or_failure(self.derender_batch["status"], self.derender_batch["body"])
            return ABSENT if self.batch is None else self.batch
        if self.stream is None and self.derender_stream is not None:
            status, chunks = self.derender_stream["status"], self.derender_stream["chunks"]
            return assembled(chunks) if status == 200 else failure(status, chunks[-1])
        return ABSENT if self.stream is None else assembled(self.stream)

    def views(self, where: str) -> list[Any]:
        """All that a divergence's `where` may mean; "error" is any of the others that failed."""
        if where != "error":
            return [self.view(where)]
        views = [self.view(kind) for kind in ("http", "render", "batch", "stream")]
        return [view for view in views if isinstance(view, Failure)]


def assembled(events: list[Json]) -> Json:
    """The answer that recorded chunks amount to. Derender's may be `{chunk, stream_state}`."""
    return assembly(said(events)).answer()


def sse_events(text: str) -> list[Json]:
    """The JSON events of an event stream, [DONE] left out."""
    data = (line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: "))
    return [msgspec.json.decode(line) for line in data if line != "[DONE]"]


def readable(body: Any, content_type: str) -> Any:
    """A body; of an event stream the events by choice, "" for those of none: choices come in any order."""
    if not isinstance(body, str) or not content_type.startswith("text/event-stream"):
        return body
    events: Json = {}
    for event in sse_events(body):
        choices = event.get("choices") or [{"index": ""}]
        events.setdefault(str(choices[0]["index"]), []).append(event)
    return events


class Failure(Json):
    """An answer of another status than 200. What a body says of itself makes none."""


def answer_or_failure(status: int, body: Any) -> Any:
    """The body of an answer, or what `failure` makes of one of another status than 200."""
    return body if status == 200 else failure(status, body)


def failure(status: int, body: Any) -> Failure:
    """An answer that is, or should have been, an error: status, type, param and message, and in `envelope`
    the form that these have in the body.

    A body that is no error envelope (`{"detail": ...}`, `{"error": "Unauthorized"}`) is its own message.
    """
    error = body.get("error") if isinstance(body, dict) and status >= 400 else None
    if isinstance(error, dict):
        told = {key: error.get(key) for key in ("type", "param", "message")}
        return Failure({"status": status, **told, "envelope": _envelope(status, body, error)})
    message = None if status < 400 else msgspec.json.encode(body).decode()
    return Failure({"status": status, "type": None, "param": None, "message": message, "envelope": None})


def _envelope(status: int, body: Json, error: Json) -> str:
    """The form of an error: `RIGHT`, or what is wrong with it."""
    more = [key for key in body if key != "error"]
    more += [key for key in error if key not in ("message", "type", "param", "code")]
    if more:
        return f"also has {', '.join(sorted(more))}"
    if error.get("code") != status or isinstance(error["code"], bool | float):
        return f"code is {excerpt(error.get('code'))}"
    for key in ("message", "type"):
        if not isinstance(error.get(key), str) or not error[key].strip():
            return f"{key} is {excerpt(error.get(key))}"
    return RIGHT


RIGHT = "code is the status"
"""Of an error that has a message, a type, a param and no more."""


_PARSERS = ("--reasoning-parser", "--tool-call-parser")


class Golden:
    """The folder golden/, or the archive of it that a wheel carries.

    `reference` is one that it holds, by name, or else a folder of recordings. Reading raises OSError, and
    ValueError for a folder without cases, a reference that is neither and a line that is not of its format.
    """

    def __init__(self, folder: Folder, reference: str = REFERENCE) -> None:
        if not (folder / "servers.toml").is_file():
            what = ", which is no archive of them" if folder.is_file() else ""
            raise ValueError(f"no cases in {folder}{what}: --cases names the golden/ of a checkout")
        self.folder = folder
        self.reference = reference
        self.recorded = _reference(folder / "recorded", reference)
        self.servers: dict[str, Json] = tomllib.loads(read(folder / "servers.toml").decode())

    def family(self, server: str) -> str:
        """The parsers of a configuration by name, those of reasoning first; its model where it has none."""
        table = self.servers[server]
        flags = table["flags"]
        named = (flags[at + 1] for at, flag in enumerate(flags) if flag in _PARSERS)
        return " + ".join(dict.fromkeys(named)) or str(table["model"])

    def command(self, server: str) -> str:
        """What a configuration was started with: flags, and what the environment had, as a shell reads it."""
        table = self.servers[server]
        environment = (f"{key}={shlex.quote(value)} " for key, value in table.get("env", {}).items())
        return "".join(environment) + shlex.join(table["flags"])

    def cases(self, server: str) -> list[Case]:
        """The cases of one configuration, in their written order."""
        return _lines(self.folder / "cases" / f"{server}.jsonl", Case)

    def recordings(self, server: str) -> dict[str, Recording]:
        """By case id; none when the reference was not asked yet.

        Of another reference than the usual one, only those of cases that are still what they were.
        """
        own = recordings(self.recorded, server)
        path = self.folder / "recorded" / REFERENCE / f"{server}.jsonl"
        if self.reference == REFERENCE or not own or not path.exists():
            return own
        usual = {line.id: line.digest for line in _lines(path, _Digest)}
        return {name: line for name, line in own.items() if line.digest == usual.get(name, line.digest)}


def recordings(folder: Folder, server: str) -> dict[str, Recording]:
    """What a reference's folder holds for a configuration, by case id."""
    path = folder / f"{server}.jsonl"
    return {line.id: line for line in _lines(path, Recording, Recording.fault)} if path.exists() else {}


def _reference(recorded: Folder, name: str) -> Folder:
    """A name goes before a folder of that name in the working directory, which `./name` means."""
    known = sorted(one.name for one in recorded.iterdir()) if recorded.is_dir() else []
    if name in known:
        return recorded / name
    if any(Path(name).glob("*.jsonl")):
        return Path(name)
    raise ValueError(f"no reference {name!r}: {', '.join(known)}, or a folder with SERVER.jsonl files")


class _Digest(msgspec.Struct):
    """What of a recording says which case it is of."""

    id: str
    digest: str = ""


_T = TypeVar("_T", bound=msgspec.Struct)


def _lines(path: Folder, kind: type[_T], check: Callable[[_T], str] = lambda line: "") -> list[_T]:
    decoder = msgspec.json.Decoder(kind)
    found: list[_T] = []
    for number, line in enumerate(read(path).split(b"\n"), 1):
        if line:
            try:
                found.append(decoder.decode(line))
            except (msgspec.MsgspecError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: {reason(error)}") from error
            fault = check(found[-1])
            if fault:
                raise ValueError(f"{path}:{number}: {fault}")
    return found
