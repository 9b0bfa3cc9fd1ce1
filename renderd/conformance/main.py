"""`renderd conformance`: replay the golden cases against a server."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from renderd.conformance import against, diff, documents, ending, invariants, record, report
from renderd.conformance.cases import REFERENCE, Case, Golden, Recording, carried
from renderd.conformance.checks import Finding, Server
from renderd.conformance.client import Client, NoAnswer, add_key, connect
from renderd.conformance.divergences import Divergences
from renderd.conformance.fitting import UNFIT_LIMIT, Fit, fits_folder, fitting
from renderd.conformance.lines import say
from renderd.conformance.progress import Told
from renderd.conformance.runner import (
    Result,
    ServerError,
    replay,
    served_model,
    server_under_test,
    unneeded,
)

GOLDEN = carried()

COMMANDS = {"record": record.main, "diff": diff.main}
"""What else can be done with references, by the first argument."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 when all pass or differ as declared, 1 when not, 2 when it cannot ask, 130
    and 143 when SIGINT or SIGTERM ended it."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        with ending.terminable():
            if argv and argv[0] in COMMANDS:
                return COMMANDS[argv[0]](argv[1:])
            return _replay(argv)
    except KeyboardInterrupt as cause:
        say(f"renderd conformance: {ending.why(cause)}", file=sys.stderr)
        return ending.status(cause)


def _replay(argv: Sequence[str]) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.invariants and arguments.server:
        parser.error("--server names recorded cases, and --invariants asks none")
    if not arguments.url and not arguments.model_dir:
        parser.error("--url is needed, or --model-dir")
    if arguments.replica and not arguments.invariants:
        parser.error("--replica goes with --invariants")
    try:
        for path in arguments.report:
            documents.check_path(path)
        golden = Golden(arguments.cases, arguments.reference)
        if arguments.model_dir:
            by_tokenizer = fits_folder(golden, arguments.model_dir)
            if not arguments.url:
                return _say_fits(golden, by_tokenizer, arguments.model_dir)
            tokenized = {fit.server for fit in by_tokenizer if fit.good or not fit.tried}
            golden.servers = {name: table for name, table in golden.servers.items() if name in tokenized}
        return _run(golden, arguments)
    except (OSError, ValueError, ServerError) as error:
        say(f"renderd conformance: {error}", file=sys.stderr)
        return 2


def _run(golden: Golden, arguments: argparse.Namespace) -> int:
    client = connect(arguments)
    other = connect(arguments, "against") if arguments.against else None
    elsewhere = connect(arguments, "replica") if arguments.replica else None
    version = _version(client) if arguments.report else None
    told = Told()
    divergences = Divergences.load(arguments.cases / "divergences.toml")
    patterns = arguments.case

    def wanted(case: Case) -> bool:
        return not patterns or any(_matches(case.id, pattern) for pattern in patterns)

    servers: list[str] = []
    results: list[Result] = []
    compared = "itself" if arguments.invariants else other.url if other else golden.reference
    ended: BaseException | None = None
    try:
        if arguments.invariants:
            name = served_model(client)
            replica = None
            if elsewhere:
                replica = Server(elsewhere, served_model(elsewhere), name)
            invariants.check(Server(client, name, name), golden, replica, wanted, told, results)
        else:
            unknown = [name for name in arguments.server or () if name not in golden.servers]
            if unknown:
                raise ServerError(
                    f"no configuration {unknown[0]!r} in servers.toml: {', '.join(golden.servers)}"
                )
            servers = list(dict.fromkeys(arguments.server or fitting(golden, client, divergences, told)))
            for server in servers:
                check = partial(_against, server_under_test(other, golden, server)) if other else None
                replay(client, golden, divergences, server, wanted, told, check, results)
    except (NoAnswer, KeyboardInterrupt) as cause:
        if not results:
            raise
        ended = cause
    finally:
        told.end()
    for pattern in [] if ended else patterns or ():
        if not any(_matches(result.case.id, pattern) for result in results):
            whose = f"{', '.join(servers)} in {compared}" if servers else "--invariants"
            raise ServerError(f"no case of {whose} is called {pattern}")
    stale = unneeded(divergences, golden, results) if arguments.verbose and compared == REFERENCE else []
    faults = _unfit(results)
    differing = report.differences(results, arguments.verbose)
    for text in (differing, "\n".join(stale), report.table(results)):
        if text:
            say(*text.split("\n"), "")
    if compared == golden.reference:
        failed = {result.case.server: None for result in results if result.outcome() == "fail"}
        for server in failed:
            say(f"{server}, of which cases failed, was recorded with {golden.command(server)}")
    asked_of = f"{', '.join(servers) or 'invariants'}: {report.summary(results)}"
    say(f"{client.url} against {compared}, {asked_of}")
    lacking = sum(wanted(case) for server in servers for case in golden.cases(server)) - len(results)
    if servers and lacking and not ended:
        told.note(f"{lacking} further cases are not in {golden.reference}")
    unwatched = sum("coupled" in result.found and "eager" not in result.found for result in results)
    if servers and unwatched:
        told.note(f"{unwatched} streams may be late: it is not recorded how many tokens a chunk stands for")
    if arguments.invariants and invariants.lacks_derender(results):
        faults.append(f"{client.url} has no {invariants.DERENDER}: nothing of it was checked")
    outcomes = {result.outcome() for result in results}
    if not outcomes & {"pass", "equivalent", "declared", "fail"}:
        faults.append(f"{client.url} offers nothing of what was asked that fits it: nothing was checked")
    if faults:
        told.note(*faults)
    if ended is not None:
        faults.append(f"renderd conformance: ended before all was asked: {ending.why(ended)}")
        told.note(faults[-1], file=sys.stderr)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    started = {server: golden.servers[server]["flags"] for server in servers}
    run = documents.Run(client.url, version, compared, servers, at, started, told.notes, faults)
    unwritten = documents.write(arguments.report, run, results)
    for sentence in unwritten:
        say(f"renderd conformance: {sentence}", file=sys.stderr)
    if ended is not None or unwritten:
        return 2 if ended is None else ending.status(ended)
    return 1 if "fail" in outcomes or faults else 0


def _against(other: Server, server: Server, case: Case, recording: Recording) -> dict[str, list[Finding]]:
    return against.check(server, other, case, recording)


def _version(client: Client) -> Any:
    """What /version says, None where it says nothing that is JSON."""
    try:
        answer = client.get("/version")
        return answer.json() if answer.status == 200 else None
    except (OSError, msgspec.DecodeError):
        return None


def _matches(case_id: str, pattern: str) -> bool:
    """A case's full id, its name within the configuration, or a pattern of either."""
    return fnmatch.fnmatchcase(case_id, pattern) or fnmatch.fnmatchcase(case_id.split("/", 1)[-1], pattern)


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
        say(
            f"{fit.server}: {fit.right} of {fit.tried} outputs of its model have the recorded ids; started "
            f"with {golden.command(fit.server)}"
        )
    untold = [fit.server for fit in found if not fit.tried]
    say(f"No outputs show the tokenizer of {', '.join(untold)}: with --url their prompts do")
    say(f"{folder}: the tokenizer of {len(good)} of {len(found)} configurations")
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="renderd conformance",
        description="Replay recorded cases against a render and derender server and compare its answers.",
        epilog="`renderd conformance record` records the answers of a server as a reference, "
        "`renderd conformance diff` says what changed between two references. Both have a --help.",
    )
    parser.add_argument("--url", help="base URL of the server, http://127.0.0.1:8000")
    parser.add_argument(
        "--server",
        action="append",
        metavar="NAME",
        help="configuration in servers.toml that the server is started as; repeatable (default: what fits)",
    )
    add_key(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--against", metavar="URL", help="compare with what another live server answers, not with recordings"
    )
    mode.add_argument(
        "--invariants",
        action="store_true",
        help="check what holds for any derender server, whatever its model: needs no recording",
    )
    mode.add_argument(
        "--reference",
        default=REFERENCE,
        metavar="NAME",
        help="whose recorded answers are wanted: a version that the package carries, or a folder that "
        "`renderd conformance record` made (default: %(default)s)",
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
    documents.add_report(
        parser, "write a report: .html for people, .json with everything, .xml for CI (JUnit); repeatable"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show declared differences too, and all in full"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
