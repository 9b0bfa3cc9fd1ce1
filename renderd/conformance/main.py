"""`renderd conformance`: replay the golden cases against a server."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path

from renderd.conformance import report
from renderd.conformance.cases import Golden
from renderd.conformance.client import Client
from renderd.conformance.divergences import Divergences
from renderd.conformance.runner import ServerError, recorded_model, replay, served_model, unneeded

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 when all pass or differ as declared, 1 when not, 2 when it cannot ask."""
    arguments = _parser().parse_args(argv)
    try:
        if not (arguments.cases / "servers.toml").is_file():
            raise ServerError(f"no cases in {arguments.cases}: --cases names the golden/ of a checkout")
        golden = Golden(arguments.cases)
        divergences = Divergences.load(arguments.cases / "divergences.toml")
        client = Client(arguments.url)
        server = arguments.server or _fitting(golden, client)
        if server not in golden.servers:
            raise ServerError(f"no configuration {server!r} in servers.toml: {', '.join(golden.servers)}")
        patterns = arguments.case
        results = replay(
            client,
            golden,
            divergences,
            server,
            lambda case: not patterns or any(_matches(case.id, pattern) for pattern in patterns),
        )
        stale = unneeded(divergences, golden, results)
    except (OSError, ValueError, ServerError) as error:
        print(f"renderd conformance: {error}", file=sys.stderr)
        return 2
    for text in (report.differences(results, arguments.verbose), "\n".join(stale), report.table(results)):
        if text:
            print(text, end="\n\n")
    failed = sum(result.outcome() == "fail" for result in results)
    print(f"{arguments.url}: {len(results)} cases of {server}, {failed} failed")
    return 1 if failed or stale or not results else 0


def _matches(case_id: str, pattern: str) -> bool:
    """A case's full id, its name within the configuration, or a pattern of either."""
    return fnmatch.fnmatchcase(case_id, pattern) or fnmatch.fnmatchcase(case_id.split("/", 1)[-1], pattern)


def _fitting(golden: Golden, client: Client) -> str:
    """The one configuration whose model the server serves. ServerError when there is not exactly one."""
    model = served_model(client)
    fitting = [name for name in golden.servers if recorded_model(golden, name) == model]
    if len(fitting) != 1:
        raise ServerError(
            f"--server is needed: {len(fitting) or 'no'} configurations in servers.toml serve {model!r}"
        )
    return fitting[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="renderd conformance",
        description="Replay recorded cases against a render and derender server and compare its answers.",
    )
    parser.add_argument("--url", required=True, help="base URL of the server, http://127.0.0.1:8000")
    parser.add_argument(
        "--server", metavar="NAME", help="configuration in servers.toml that the server was started as"
    )
    parser.add_argument(
        "--cases",
        type=Path,
        default=GOLDEN,
        metavar="DIR",
        help="folder of the cases and recordings (golden/)",
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="ID",
        help="only this case, or those that a pattern fits; repeatable",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show declared differences too, and all in full"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
