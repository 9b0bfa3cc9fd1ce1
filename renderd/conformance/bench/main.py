"""The command line of `renderd bench`: what is measured, and how it is printed."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

import renderd
from renderd.conformance import parsing
from renderd.conformance.bench import (
    batch,
    concurrency,
    gateway,
    interference,
    prompt_ids,
    rendering,
    scaling,
    starting,
    streaming,
)
from renderd.conformance.bench.cpu import Machine, ProcessError, machine
from renderd.conformance.bench.generator import Load
from renderd.conformance.bench.tables import Cells, markdown
from renderd.conformance.bench.target import Target
from renderd.conformance.bench.workload import Tokens
from renderd.conformance.runner import ServerError


class Report(msgspec.Struct):
    """Everything that a run measured, as --json writes it. `rows` are the structs of what was measured."""

    command: list[str]
    renderd: str
    machine: Machine
    versions: dict[str, str]
    rows: list[Any]


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status 2 when a server cannot be measured."""
    argv = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(argv)
    if arguments.what == "parsers":
        return parsing.report(
            arguments.worst, arguments.bytes, arguments.limit, arguments.names, arguments.json
        )
    try:
        if arguments.what == "start":
            versions: dict[str, str] = {}
            names, rows, lines = _start(arguments.server, arguments.runs)
        else:
            targets = _targets(arguments.url, arguments.pid or [])
            versions = {target.name: target.version for target in targets}
            names = list(versions)
            rows, lines = _measure(targets, arguments)
    except (OSError, RuntimeError, ServerError, ProcessError) as error:
        print(f"renderd bench: {error}", file=sys.stderr)
        return 2
    report = Report(argv, renderd.__version__, machine(), versions, rows)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(_text(report, markdown(lines, names)))
    for row in rows:
        for part in msgspec.structs.asdict(row).values():
            if isinstance(part, Load) and part.failed:
                print(f"{row.target}: {part.failed} calls failed, such as: {part.failure}", file=sys.stderr)
    unparsed = {row.target for row in rows if not getattr(row, "parsed", True)}
    if unparsed:
        print(f"not parsed (no qwen3 and hermes parsers?): {', '.join(sorted(unparsed))}", file=sys.stderr)
    return 0


def _measure(targets: Sequence[Target], given: argparse.Namespace) -> tuple[list[Any], list[Cells]]:
    """Rows and lines of a table, by what was asked for."""
    if given.what == "memory":
        held = [starting.memory(target) for target in targets]
        return held, starting.memory_lines(held)
    tokens = Tokens(targets[0].client, targets[0].model)
    if given.what == "render":
        renders = rendering.render(targets, tokens)
        return renders, rendering.lines(renders)
    if given.what == "stream":
        streams = streaming.run_streams(targets, tokens, given.tokens, given.chunk, given.minimal or [])
        return streams, streaming.lines(streams)
    if given.what == "prompt-ids":
        ids = [prompt_ids.prompt_ids(target, tokens, given.tokens, given.calls) for target in targets]
        return ids, prompt_ids.lines(ids)
    if given.what == "batch":
        batches = [batch.batch(target, tokens, given.tokens, given.calls) for target in targets]
        return batches, batch.lines(batches)
    if given.what == "concurrent":
        loads = [
            concurrency.concurrent(target, tokens, given.streams, given.rate, given.chunk, given.seconds)
            for target in targets
        ]
        return loads, concurrency.lines(loads)
    if given.what == "gateway":
        gateways = [
            gateway.gateway(target, given.engine_url, tokens, given.streams, given.rate, given.tokens)
            for target in targets
        ]
        return gateways, gateway.lines(gateways)
    if given.what == "interference":
        both = [interference.interference(target, tokens, given.tokens, given.seconds) for target in targets]
        return both, interference.lines(both)
    full = scaling.workers(targets, tokens, given.seconds, given.rounds)
    return full, scaling.lines(full)


def _start(servers: Sequence[str], runs: int) -> tuple[list[str], list[Any], list[Cells]]:
    rows = []
    commands = dict(_named(text) for text in servers)
    for _ in range(runs):
        for name, command in commands.items():
            rows.append(starting.start(name, shlex.split(command)))
    return list(commands), rows, starting.start_lines(rows)


def _named(text: str) -> tuple[str, str]:
    name, equals, command = text.partition("=")
    if not equals or not command.strip() or not name.replace("-", "").isalnum():
        raise RuntimeError(f"{text!r} is not NAME=COMMAND")
    return name, command


def _text(report: Report, table: str) -> str:
    on = report.machine
    lines = [
        f"renderd bench {shlex.join(report.command)}",
        f"{on.cpu}, {on.cores} cores, {on.memory_gb} GB, {on.system}",
        f"Python {on.python}, renderd {report.renderd}",
        *(f"{name}: /version says {version or 'nothing'}" for name, version in report.versions.items()),
        "",
        table,
        "",
        *(msgspec.json.encode(row).decode() for row in report.rows),
        "",
    ]
    return "\n".join(lines)


def _targets(urls: Sequence[str], pids: Sequence[int]) -> list[Target]:
    if pids and len(pids) != len(urls):
        raise RuntimeError(
            f"{len(urls)} --url but {len(pids)} --pid: give one for each, in the same order, or none"
        )
    targets = []
    for number, text in enumerate(urls):
        name, equals, url = text.partition("=")
        if not equals or "/" in name:
            name, url = text.partition("://")[2].rstrip("/"), text
        targets.append(Target(name, url, pids[number : number + 1]))
    return targets


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


_PARSED = "The answer is one that qwen3 and hermes parse: start the servers with these parsers."


def _parser() -> argparse.ArgumentParser:
    printed = argparse.ArgumentParser(add_help=False)
    printed.add_argument("--json", action="store_true", help="print machine, versions and rows as JSON")
    common = argparse.ArgumentParser(add_help=False, parents=[printed])
    common.add_argument(
        "--url",
        action="append",
        required=True,
        metavar="[NAME=]URL",
        help="a server; repeatable; the first one counts the tokens of what is sent",
    )
    common.add_argument(
        "--pid",
        action="append",
        type=int,
        help="process of the server, children counted too (default: whoever listens on the URL's port)",
    )
    parser = argparse.ArgumentParser(
        prog="renderd bench", description="Measure what render and derender servers cost, side by side."
    )
    kinds = parser.add_subparsers(dest="what", required=True)
    kinds.add_parser("render", parents=[common], help="CPU of chat render, for prompts of several lengths")
    _add_stream(kinds, common)
    ids = kinds.add_parser(
        "prompt-ids", parents=[common], help="what a long prompt_token_ids adds to the CPU of a chunk"
    )
    ids.add_argument("--tokens", type=_positive, default=100_000, help="of the prompt (default 100000)")
    ids.add_argument("--calls", type=_count, default=100, help="of either kind (default 100)")
    whole = kinds.add_parser(
        "batch", parents=[common], help="CPU of batch derender of a parsed answer", description=_PARSED
    )
    whole.add_argument("--tokens", type=_positive, default=4000, help="of the answer (default 4000)")
    whole.add_argument("--calls", type=_count, default=30, help="answers (default 30)")
    many = kinds.add_parser(
        "concurrent",
        parents=[common],
        help="time of a derender call while many parsed streams run",
        description=_PARSED,
    )
    many.add_argument("--streams", type=_count, default=200, help="at once (default 200)")
    many.add_argument("--rate", type=_duration, default=50, help="tokens a second of each (default 50)")
    many.add_argument("--chunk", type=_positive, default=10, help="tokens a call (default 10)")
    many.add_argument("--seconds", type=_duration, default=20, help="(default 20)")
    route = kinds.add_parser(
        "gateway",
        parents=[common],
        help="CPU of a gateway for an event of its engine, and how much later its first token comes",
        description=f"{_PARSED} The engine is a `renderd engine`.",
    )
    route.add_argument("--engine-url", required=True, metavar="URL", help="the engine behind the gateway")
    route.add_argument("--streams", type=_count, default=100, help="at once (default 100)")
    route.add_argument("--rate", type=_duration, default=10, help="tokens a second of each (default 10)")
    route.add_argument("--tokens", type=_positive, default=150, help="of an answer (default 150)")
    disturbed = kinds.add_parser(
        "interference",
        parents=[common],
        help="time of a derender call while long prompts arrive at half the capacity",
        description=_PARSED,
    )
    disturbed.add_argument("--tokens", type=_positive, default=50_000, help="of a prompt (default 50000)")
    disturbed.add_argument("--seconds", type=_duration, default=15, help="of the streams (default 15)")
    full = kinds.add_parser(
        "workers",
        parents=[common],
        help="throughput and CPU a call under full load: give a server with one worker, then one with two",
        description=_PARSED,
    )
    full.add_argument("--seconds", type=_duration, default=4, help="of each load (default 4)")
    full.add_argument("--rounds", type=_count, default=3, help="the table has their medians (default 3)")
    begun = kinds.add_parser("start", parents=[printed], help="seconds to ready, and memory then")
    begun.add_argument(
        "--server",
        action="append",
        required=True,
        metavar="NAME=COMMAND",
        help="starts a server, which gets --host and --port; repeatable",
    )
    begun.add_argument("--runs", type=_count, default=3, help="the table has their medians (default 3)")
    kinds.add_parser("memory", parents=[common], help="memory of a running server's processes")
    _add_parsers(kinds)
    return parser


def _add_stream(
    kinds: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    streams = kinds.add_parser(
        "stream",
        parents=[common],
        help="CPU of streaming derender of a parsed answer",
        description=_PARSED,
    )
    streams.add_argument(
        "--tokens",
        type=_positive,
        default=streaming.ANSWER,
        help=f"length of the answer; one longer than the default {streaming.ANSWER} comes after one of that "
        "length, from servers that are fast enough",
    )
    streams.add_argument("--chunk", type=_positive, default=1, help="tokens a call (default 1)")
    streams.add_argument(
        "--minimal",
        action="append",
        metavar="NAME",
        help="send this server chat_request and prompt_token_ids with the first chunk only; repeatable",
    )


def _add_parsers(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    alone = kinds.add_parser(
        "parsers",
        help="the parsers alone, family by family; needs no server",
        description="Exit status 1 where a family breaks a limit.",
    )
    alone.add_argument("names", nargs="*", metavar="NAME", help="parsers (default: all)")
    alone.add_argument(
        "--worst",
        action="store_true",
        help=f"the dearest input: the same limit, and its last tenth at most {parsing.RATIO} times its first",
    )
    alone.add_argument(
        "--bytes", type=_positive, default=1 << 20, help="length of the dearest input (default 1 MB)"
    )
    alone.add_argument(
        "--limit",
        type=float,
        default=parsing.LIMIT,
        metavar="US",
        help=f"microseconds a token that no family may exceed (default {parsing.LIMIT:g})",
    )
    alone.add_argument("--json", action="store_true", help="print the rows as JSON")


if __name__ == "__main__":
    sys.exit(main())
