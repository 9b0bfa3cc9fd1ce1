"""Reads the golden files: server configurations, cases, recordings. Formats: golden/README.md."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden.oracle import VERSION

GOLDEN = Path(__file__).resolve().parent

Json = dict[str, Any]


@dataclass(frozen=True)
class Server:
    """A configuration: a model of golden.models and the flags that render server and engine share.

    `kind` is "render", or "engine" where the cases are requests to a tokens-only engine. `one_process`: the
    coupled server's own render and derender routes are asked, no `vllm launch render` is started. `env`:
    environment variables that both servers get.
    """

    name: str
    model: str
    flags: tuple[str, ...]
    kind: str
    one_process: bool
    env: Json


def load_servers() -> dict[str, Server]:
    """All configurations by name, in the order of golden/servers.toml."""
    tables = tomllib.loads((GOLDEN / "servers.toml").read_text(encoding="utf-8"))
    return {
        name: Server(
            name,
            table["model"],
            tuple(table["flags"]),
            table.get("kind", "render"),
            table.get("one_process", False),
            table.get("env", {}),
        )
        for name, table in tables.items()
    }


def load_cases(server: str) -> list[Json]:
    """The cases of a configuration. Raises ValueError for a repeated id or another server's case."""
    cases = list(_lines(GOLDEN / "cases" / f"{server}.jsonl"))
    seen: set[str] = set()
    for case in cases:
        if case["id"] in seen or case["server"] != server:
            raise ValueError(f"case {case['id']} of {server}: repeated, or it names server {case['server']}")
        seen.add(case["id"])
    return cases


def recordings_path(server: str, version: str = VERSION) -> Path:
    """Where the answers of a vLLM to a configuration's cases are kept."""
    return GOLDEN / "recorded" / f"vllm-{version}" / f"{server}.jsonl"


def load_recordings(server: str, version: str = VERSION) -> dict[str, Json]:
    """What vLLM answered, by case id. Empty when nothing was recorded yet."""
    path = recordings_path(server, version)
    return {line["id"]: line for line in _lines(path)} if path.exists() else {}


def save_recordings(server: str, recordings: Iterable[Json], version: str = VERSION) -> None:
    """Replaces a configuration's recordings."""
    path = recordings_path(server, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in recordings]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def case_digest(case: Json) -> str:
    """Changes when anything changes that an answer depends on. A recording carries its case's digest."""
    relevant = {key: case.get(key) for key in ("api", "request", "output", "coupled")}
    text = json.dumps(relevant, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lines(path: Path) -> Iterator[Json]:
    # Not splitlines(): a case may hold U+2028 and its like.
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line:
            yield json.loads(line)
