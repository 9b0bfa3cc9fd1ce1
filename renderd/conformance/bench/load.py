"""Starts load generators, and what they are given to do."""

from __future__ import annotations

import random
import subprocess
import sys
from types import TracebackType

import msgspec

from renderd.conformance import chunking
from renderd.conformance.bench import workload
from renderd.conformance.bench.generator import Load, Prompts, Streams, Work
from renderd.conformance.bench.streaming import Opening
from renderd.conformance.bench.target import DERENDER, RENDER, Target


class Generator:
    """A load generator that is ready to start; a context manager that ends it."""

    def __init__(self, work: Work) -> None:
        """Raises RuntimeError when it does not get ready."""
        command = [sys.executable, "-m", "renderd.conformance.bench.generator"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._say(msgspec.json.encode(work))
        self._hear()

    def start(self) -> None:
        """Let it make its calls."""
        self._say(b"go")

    def result(self) -> Load:
        """Waits until it is done. Raises RuntimeError when it broke off."""
        return msgspec.json.decode(self._hear(), type=Load)

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def _hear(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the load generator ended with status {self._process.wait()}")
        return line


def run(work: Work) -> Load:
    """One generator, from start to end."""
    with Generator(work) as generator:
        generator.start()
        return generator.result()


def streams(target: Target, tokens: workload.Tokens, length: int, chunk: int) -> Streams:
    """Streams of a parsed answer of `length` tokens, `chunk` a call; bodies after the first are minimal."""
    choice = {"index": 0, "token_ids": workload.parsed_answer(tokens, length), "finish_reason": "stop"}
    events = chunking.events({"request_id": "", "choices": [choice]}, 0, chunk)
    for event in events:
        del event["request_id"]
    return Streams(
        path=DERENDER,
        model=target.model,
        events=[_members(event) for event in events],
        told=_members(Opening(target).told(True))[:-1],
    )


def _members(value: object) -> str:
    return msgspec.json.encode(value).decode()[1:]


def prompts(target: Target, tokens: workload.Tokens, length: int, count: int, seed: int) -> Prompts:
    """Cold prompts of about `length` tokens."""
    sample = workload.phrases(400, random.Random("sample"))
    per_word = len(tokens.ids("".join(sample))) / (400 * workload.PHRASE)
    return Prompts(RENDER, target.model, max(round(length / per_word), 1), count, seed)


def work(
    target: Target,
    calls: Streams | Prompts,
    *,
    lines: int,
    seconds: float,
    gap: float = 0.0,
    steady: bool = True,
) -> Work:
    """What a generator does with a target. Raises RuntimeError for one that it cannot speak to."""
    if not target.url.startswith("http://"):
        raise RuntimeError(f"{target.url}: load is made over http:// alone")
    return Work(target.url, target.clock.pids, calls, lines, gap, steady, seconds)
