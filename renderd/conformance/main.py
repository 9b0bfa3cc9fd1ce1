"""`renderd conformance`: replay the golden cases against a server."""

from __future__ import annotations

import argparse
import fnmatch
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from renderd.conformance import against, documents, invariants, report
from renderd.conformance.cases import Case, Golden, Recording, carried
from renderd.conformance.checks import Finding, Server
from renderd.conformance.client import Client
from renderd.conformance.divergences import Divergences
from renderd.conformance.fitting import ENOUGH, UNFIT_LIMIT, Fit, fits, fits_folder
from renderd.conformance.runner import (
    Progress,
    Result,
    ServerError,
    replay,
    served_model,
    server_under_test,
    unneeded,
)

GOLDEN = carried()


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 when all pass or differ as declared, 1 when not, 2 when it cannot ask."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if not arguments.url and not arguments.model_dir:
        parser.error("--url is needed, or --model-dir")
    if arguments.replica and not arguments.invariants:
        parser.error("--replica goes with --invariants")
    try:
        for path in arguments.report:
            documents.check_name(path)
        if not (arguments.cases / "servers.toml").is_file():
            raise ServerError(f"no cases in {arguments.cases}: --cases names the golden/ of a checkout")
        golden = Golden(arguments.cases)
        if arguments.model_dir:
            by_tokenizer = fits_folder(golden, arguments.model_dir)
            if not arguments.url:
                return _say_fits(golden, by_tokenizer, arguments.model_dir)
            tokenized = {fit.server for fit in by_tokenizer if fit.good or not fit.tried}
            golden.servers = {name: table for name, table in golden.servers.items() if name in tokenized}
        return _run(golden, arguments)
    except (OSError, ValueError, ServerError) as error:
        print(f"renderd conformance: {error}", file=sys.stderr)
        return 2


def _run(golden: Golden, arguments: argparse.Namespace) -> int:
    client = Client(arguments.url)
    told = Told()
    divergences = Divergences.load(arguments.cases / "divergences.toml")
    patterns = arguments.case

    def wanted(case: Case) -> bool:
        return not patterns or any(_matches(case.id, pattern) for pattern in patterns)

    servers: list[str] = []
    results: list[Result] = []
    compared = golden.reference
    if arguments.invariants:
        compared = "itself"
        name = served_model(client)
        replica = None
        if arguments.replica:
            elsewhere = Client(arguments.replica)
            replica = Server(elsewhere, served_model(elsewhere), name)
        results = invariants.check(Server(client, name, name), golden, replica, wanted, told)
    else:
        servers = [arguments.server] if arguments.server else _fitting(golden, client, divergences, told)
        for server in servers:
            if server not in golden.servers:
                raise ServerError(f"no configuration {server!r} in servers.toml: {', '.join(golden.servers)}")
            check = None
            if arguments.against:
                compared = arguments.against
                other = server_under_test(Client(arguments.against), golden, server)
                check = partial(_against, other)
            results += replay(client, golden, divergences, server, wanted, told, check)
    told.end()
    stale = (
        unneeded(divergences, golden, results) if arguments.verbose and compared == golden.reference else []
    )
    unfit = _unfit(results)
    if arguments.report:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        run = documents.Run(arguments.url, _version(client), compared, servers, at)
        for path in arguments.report:
            documents.write(path, run, results)
    differing = report.differences(results, arguments.verbose)
    for text in (differing, "\n".join(stale), report.table(results), "\n".join(unfit)):
        if text:
            print(text, end="\n\n")
    print(f"{arguments.url}, {', '.join(servers) or 'invariants'}: {report.summary(results)}")
    outcomes = {result.outcome() for result in results}
    # A server that offers nothing of what was asked has passed nothing.
    return 1 if "fail" in outcomes or unfit or not outcomes & {"pass", "declared"} else 0


def _against(other: Server, server: Server, case: Case, recording: Recording) -> dict[str, list[Finding]]:
    return against.check(server, other, case, recording)


def _version(client: Client) -> Any:
    """What /version says, None where it says nothing that is JSON."""
    answer = client.get("/version")
    try:
        return answer.json() if answer.status == 200 else None
    except msgspec.DecodeError:
        return None


class Told:
    """One line on stderr that is written anew; where that is no terminal, a line every ten seconds."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said = time.monotonic()

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if now - self._said < (0.1 if self._terminal else 10):
            return
        self._said = now
        line = f"{done}/{total} {name}"
        print(f"\r\x1b[K{line[:78]}" if self._terminal else line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Takes the line away."""
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _matches(case_id: str, pattern: str) -> bool:
    """A case's full id, its name within the configuration, or a pattern of either."""
    return fnmatch.fnmatchcase(case_id, pattern) or fnmatch.fnmatchcase(case_id.split("/", 1)[-1], pattern)


def _fitting(golden: Golden, client: Client, divergences: Divergences, progress: Progress) -> list[str]:
    """The configurations whose cases fit; else those with the same prompts and messages, and a word about it.

    ServerError when there is none, with what comes nearest.
    """
    found = fits(client, golden, divergences, progress)
    good = [fit.server for fit in found if fit.good] or [fit.server for fit in found if fit.close]
    if good and not any(fit.good for fit in found):
        print(
            "No configuration is answered alike. Of these the prompts and messages are the recorded ones:",
            *(f"  {name}, started with {shlex.join(golden.servers[name]['flags'])}" for name in good),
            sep="\n",
            file=sys.stderr,
        )
    if not good:
        nearest = max(found, key=lambda fit: fit.right / max(1, fit.tried), default=None)
        if nearest is None or not nearest.right:
            raise ServerError(f"no configuration in servers.toml fits {client.url}: another model, or flags")
        flags = shlex.join(golden.servers[nearest.server]["flags"])
        raise ServerError(
            f"no configuration fits {client.url}. Nearest is {nearest.server}: {nearest.right} of "
            f"{nearest.tried} cases, of which {ENOUGH:.0%} are wanted. It was started with {flags}. "
            f"--server {nearest.server} replays it all the same"
        )
    return good


def _unfit(results: Sequence[Result]) -> list[str]:
    """Sentences about configurations of which too many cases are for another tokenizer."""
    found = []
    for server in dict.fromkeys(result.case.server for result in results):
        own = [result for result in results if result.case.server == server]
        unfit = [result for result in own if result.outcome() == "unfit"]
        if len(unfit) > UNFIT_LIMIT * len(own):
            what = unfit[0].found["tokens"][0].what
            found.append(
                f"{server}: {len(unfit)} of {len(own)} cases do not fit this server, more than "
                f"{UNFIT_LIMIT:.0%}. The first: {unfit[0].case.id}: {what}"
            )
    return found


def _say_fits(golden: Golden, found: Sequence[Fit], folder: Path) -> int:
    """Print for which configurations a folder has the tokenizer. Exit status 1 for none."""
    good = [fit for fit in found if fit.good]
    for fit in good:
        flags = shlex.join(golden.servers[fit.server]["flags"])
        print(f"{fit.server}: {fit.right} of {fit.tried} outputs have the recorded ids; started with {flags}")
    print(f"{folder}: the tokenizer of {len(good)} of {len(found)} configurations")
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="renderd conformance",
        description="Replay recorded cases against a render and derender server and compare its answers.",
    )
    parser.add_argument("--url", help="base URL of the server, http://127.0.0.1:8000")
    parser.add_argument(
        "--server",
        metavar="NAME",
        help="configuration in servers.toml that the server was started as (default: all that fit it)",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--against", metavar="URL", help="compare with what another live server answers, not with recordings"
    )
    mode.add_argument(
        "--invariants",
        action="store_true",
        help="check what holds for any derender server, whatever its model: needs no recording",
    )
    parser.add_argument(
        "--replica", metavar="URL", help="with --invariants: streams go to this server and --url in turn"
    )
    parser.add_argument(
        "--model-dir",
        type=Path,
        metavar="DIR",
        help="only cases whose tokenizer is that of this model; without --url they are listed",
    )
    parser.add_argument(
        "--cases",
        type=Path,
        default=GOLDEN,
        metavar="DIR",
        help="folder of other cases and recordings than those that the package carries",
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="ID",
        help="only this case, or those that a pattern fits; repeatable",
    )
    parser.add_argument(
        "--report",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write a report: .html for people, .json with everything, .xml for CI (JUnit); repeatable",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show declared differences too, and all in full"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
