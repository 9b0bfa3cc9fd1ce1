"""The instructions of the Dockerfile, for tests that do what it says where no Docker is."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    """One instruction: its word and the rest, with continued lines joined."""

    word: str
    rest: str

    def argv(self) -> list[str]:
        """The words of an exec form. Raises ValueError for a shell form."""
        argv = json.loads(self.rest)
        assert isinstance(argv, list)
        return argv

    def paths(self) -> list[str]:
        """Operands of a COPY: sources, and the target at the end."""
        return [word for word in shlex.split(self.rest) if not word.startswith("--")]

    def option(self, name: str) -> str | None:
        """The value of `--name=value` before the operands."""
        values = [word.partition("=")[2] for word in shlex.split(self.rest) if word.startswith(f"--{name}=")]
        return values[0] if values else None


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, its FROM first; what stands before the first FROM is left out."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    found: list[list[Instruction]] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(word, " ".join(rest.split()) if word == "RUN" else rest.strip()))
    return found


def only(stage: list[Instruction], word: str) -> Instruction:
    """The one instruction of a stage that begins with this word."""
    (instruction,) = [instruction for instruction in stage if instruction.word == word]
    return instruction


def environment(stage: list[Instruction]) -> dict[str, str]:
    """What a stage's ENV lines set."""
    pairs = (
        word.partition("=")
        for instruction in stage
        if instruction.word == "ENV"
        for word in shlex.split(instruction.rest)
    )
    return {name: value for name, _, value in pairs}
