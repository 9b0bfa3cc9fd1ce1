"""Templates that come with requests. They are compiled and rendered in processes of their own, which are
ended when they take too long or too much memory.

The sandbox counts what a template does, but a single step in C, such as writing out a value that holds itself
a billion times, cannot be counted, nor can Python stop a thread. A process can be stopped.
"""

from __future__ import annotations

import gc
import json
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from renderd.model import jinja
from renderd.model.content_format import ContentFormat
from renderd.model.hurry import takes_long
from renderd.model.sandbox import MAX_SIZE, SECONDS
from renderd.wire.errors import ApiError, bad_request

CPU_SECONDS = 2.0
"""What compiling or rendering may take of a processor, unless somebody says otherwise."""
PREFIX = 8
"""Bytes that say how long a question or an answer is."""
_MODULE = "renderd.model.template_process"


class _Process:
    """A process that answers one question after another. Ends when this one does."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._deadline = time.monotonic() + 60
        self._most = math.inf
        self._receive(PREFIX)  # it says when it is ready: starting is no template's time

    @property
    def lives(self) -> bool:
        """Whether nobody has ended it."""
        return self._process.poll() is None

    def ask(self, question: bytes, seconds: float, cpu_seconds: float) -> bytes | None:
        """The answer; None when the process died of it. Raises TimeoutError. In both cases it has ended."""
        self._deadline, self._most = time.monotonic() + seconds, self._spent() + cpu_seconds
        try:
            self._send(len(question).to_bytes(PREFIX, "big") + question)
            size = int.from_bytes(self._receive(PREFIX), "big")
            if size <= 8 * MAX_SIZE:
                return self._receive(size)
        except TimeoutError:
            self._end()
            raise
        except OSError:
            pass
        self._end()
        return None

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _spent(self) -> float:
        """CPU seconds so far, where the system tells: the clock of a process, see clock_getcpuclockid(3)."""
        try:
            return time.clock_gettime((~self._process.pid << 3) | 2)
        except OSError:
            return 0.0

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        file, left = self._process.stdin.fileno(), memoryview(data)
        while left:
            self._wait(file, select.POLLOUT)
            left = left[os.write(file, left[: select.PIPE_BUF]) :]

    def _receive(self, size: int) -> bytes:
        assert self._process.stdout is not None
        file, parts = self._process.stdout.fileno(), []
        while size:
            self._wait(file, select.POLLIN)
            parts.append(os.read(file, min(size, 1 << 20)))
            if not parts[-1]:
                raise OSError("the process has ended")
            size -= len(parts[-1])
        return b"".join(parts)

    def _wait(self, file: int, event: int) -> None:
        waiting = select.poll()  # unlike select(), it takes files of any number
        waiting.register(file, event)
        while not waiting.poll(100):
            if time.monotonic() > self._deadline or self._spent() > self._most:
                raise TimeoutError


_idle: list[_Process] = []
"""Processes that wait for the next template. There are never more than threads that have asked."""


def _free() -> _Process:
    while True:
        try:
            process = _idle.pop()
        except IndexError:
            return _Process()
        if process.lives:
            return process


def _ask(question: Mapping[str, Any], cpu_seconds: float) -> Any:
    takes_long()
    try:
        asked = json.dumps(question).encode()
    except RecursionError:
        raise bad_request("maximum recursion depth exceeded") from None
    process = _free()
    seconds = float(os.environ.get("VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT") or SECONDS)
    try:
        answer = process.ask(asked, seconds, cpu_seconds)
    except TimeoutError:
        raise bad_request("Rendering the chat template takes too long.") from None
    if answer is None:
        raise bad_request("The chat template makes values that are too large.")
    _idle.append(process)
    reply = json.loads(answer)
    if "refused" in reply:
        raise bad_request(reply["refused"])
    return reply


class ForeignTemplate:
    """A template of a request, as `jinja.ChatTemplate` has it. `cpu_seconds`: what compiling and rendering
    may each take of a processor."""

    def __init__(self, source: str, cpu_seconds: float) -> None:
        """Raises ApiError 400 for a syntax error, or when compiling takes too long."""
        described = _ask({"source": source}, cpu_seconds)
        self._source = source
        self._cpu_seconds = cpu_seconds
        self.variables = frozenset(described["variables"])
        self.content_format: ContentFormat = described["content_format"]
        self.mentions_developer: bool = described["mentions_developer"]
        self.mentions_content: bool = described["mentions_content"]

    def render(self, variables: Mapping[str, Any]) -> str:
        """The template's text. Raises ApiError 400 with the reason that Jinja or the template gives."""
        now = jinja.now().isoformat()
        question = {"source": self._source, "variables": dict(variables), "now": now}
        text: str = _ask(question, self._cpu_seconds)["text"]
        return text


@lru_cache(maxsize=32)
def foreign_template(source: str, cpu_seconds: float = CPU_SECONDS) -> ForeignTemplate:
    """The template with this text, described once. Raises ApiError 400, as ForeignTemplate does."""
    return ForeignTemplate(source, cpu_seconds)


def answer(question: bytes) -> bytes:
    """What the process answers to a question of `_ask`."""
    asked = json.loads(question)
    try:
        template = jinja.compile_template(asked["source"])
        if "variables" not in asked:
            reply: dict[str, Any] = {
                "variables": sorted(template.variables),
                "content_format": template.content_format,
                "mentions_developer": template.mentions_developer,
                "mentions_content": template.mentions_content,
            }
        else:
            with jinja.at(asked["now"]):
                reply = {"text": template.render(asked["variables"])}
        return json.dumps(reply).encode()
    except ApiError as error:
        gc.collect()  # what a template was stopped in holds itself, and would be in the way of the next one
        return json.dumps({"refused": error.message}).encode()
