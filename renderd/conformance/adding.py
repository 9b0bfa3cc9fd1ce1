"""The file of one configuration in a reference that is being recorded: lines are only ever added to it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from renderd.conformance.cases import Json, Recording, recordings


class ReferenceFile:
    """NAME/SERVER.jsonl, which several recorders may add to at once. Raises OSError, ValueError (its lines).

    Attributes:
        known: what is in it, by case id.
    """

    def __init__(self, folder: Path, server: str) -> None:
        self._folder = folder
        self._server = server
        self._path = folder / f"{server}.jsonl"
        self._seen = 0
        self.known: dict[str, Recording] = {}
        if self._path.exists():
            with self._locked() as file:
                self._read(file)

    def add(self, line: Json) -> bool:
        """Add a recording; not where there is one of the case by now, from another recorder."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._locked() as file:
            self._read(file)
            if line["id"] in self.known:
                return False
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            self._seen = file.tell()
            self.known[line["id"]] = msgspec.convert(line, Recording)
        return True

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """The file, for this recorder alone. The lock goes with the process: none is left behind."""
        with self._path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _read(self, file: BinaryIO) -> None:
        """What another recorder, or an earlier run, left."""
        size = file.seek(0, 2)
        if size != self._seen:
            _end_last_line(file)
            self._seen = file.seek(0, 2)
            self.known = recordings(self._folder, self._server)


def _end_last_line(file: BinaryIO) -> None:
    """End a last line that lacks its line feed, and cut off one whose recorder was killed as it wrote."""
    file.seek(0)
    content = file.read()
    start = content.rfind(b"\n") + 1
    if start == len(content):
        return
    try:
        msgspec.json.decode(content[start:])
    except msgspec.DecodeError:
        file.truncate(start)
    else:
        file.write(b"\n")
    file.flush()
