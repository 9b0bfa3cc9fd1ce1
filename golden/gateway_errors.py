"""What vLLM answers where a gateway has to say that something is wrong: asked of its coupled server.

    python -m golden.gateway_errors     every case of golden/gateway/cases.jsonl, into recorded.jsonl there

Cases and recordings are those of golden/README.md, of api `http`. tests/gateway replays them; where renderd
answers otherwise, golden/gateway/divergences.toml says so.
"""

from __future__ import annotations

import argparse
import json

from golden import oracle
from golden.cases import GOLDEN, Json, Server, case_digest
from golden.record import record

FOLDER = GOLDEN / "gateway"
SERVER = Server(
    "gateway",
    "qwen3",
    (
        *("--served-model-name", "qwen3", "--max-model-len", "4096"),
        *("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"),
    ),
    "engine",  # nothing but the coupled server is asked
    False,
    {},
)


def lines(name: str) -> list[Json]:
    """The objects of a file of the folder."""
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").split("\n") if line]


def stale() -> list[str]:
    """Ids of cases that are not recorded as they stand, and of recordings without one."""
    recorded = {line["id"]: line["digest"] for line in lines("recorded.jsonl")}
    cases = {case["id"]: case_digest(case) for case in lines("cases.jsonl")}
    return sorted({one for one, _ in recorded.items() ^ cases.items()})


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m golden.gateway_errors", description="Record how vLLM says errors."
    ).parse_args()
    recordings = list(record(SERVER, lines("cases.jsonl"), oracle.build()))
    text = "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in recordings)
    (FOLDER / "recorded.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
