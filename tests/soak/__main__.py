"""Faults and load on real servers, for ten minutes at most: what is promised of renderd as a tier.

    python -m tests.soak [PART ...] [--scale S] [--minutes M]

Prints figures, and each promise as kept or BROKEN. Exit status 0 when all are kept. docs/reliability.md says
what the parts do.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from golden import models

from . import endurance, hopping, hostile, slow
from .report import Report
from .servers import NGINX_WANTED, nginx_program

PARTS = {"hopping": hopping.run, "hostile": hostile.run, "slow": slow.run, "endurance": endurance.run}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.split("\n")[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of requests and streams")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which nothing more is begun")
    options = parser.parse_args(arguments)
    parts = options.parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    if "hopping" in parts and nginx_program() is None:
        parser.error(NGINX_WANTED)
    models.fetch("qwen3")
    began = time.monotonic()
    report = Report(options.minutes * 60)
    for name in PARTS:
        if name in parts:
            if report.late():
                report.promise(False, f"there was time for the part {name}")
            else:
                asyncio.run(PARTS[name](report, options.scale))
    broken = f"{len(report.broken)} promises broken" if report.broken else "all promises kept"
    print(f"\n{broken}, in {time.monotonic() - began:.0f} s")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
