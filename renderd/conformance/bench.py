"""`renderd bench`: CPU time that servers take per request, measured side by side in one run.

What counts is the CPU time of the server's processes: the caller's own work is not in the figures. Wall times
are those of one caller that waits for each answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import msgspec

import renderd
from renderd.conformance import parsing
from renderd.conformance.cpu import Machine, ProcessError, machine
from renderd.conformance.measure import ANSWER, RenderRow, StreamRow, Target, render, run_streams
from renderd.conformance.runner import ServerError
from renderd.conformance.workload import Tokens

Cells = tuple[str, dict[str, float | None], Callable[[float], str]]
"""A line of the table: what it is, its value by target, how a value is written."""


def stream_lines(rows: Sequence[StreamRow]) -> list[Cells]:
    lines: list[Cells] = []
    for tokens in dict.fromkeys(row.tokens for row in rows):
        own = [row for row in rows if row.tokens == tokens]
        of = f"answer of {tokens:,} tokens, {own[0].chunk} a chunk"
        lines += [
            (f"{of}: CPU, s", {row.target: row.cpu for row in own}, _three_digits),
            (
                f"{of}: CPU a chunk, chunks 100 to 600, ms",
                {row.target: _ms(row.early) for row in own},
                _three_digits,
            ),
            (
                f"{of}: CPU a chunk, last 500 chunks, ms",
                {row.target: _ms(row.late) for row in own},
                _three_digits,
            ),
            (
                f"{of}: last 500 to chunks 100 to 600",
                {row.target: row.late / row.early if row.late and row.early else None for row in own},
                _three_digits,
            ),
            (
                f"{of}: largest stream_state, bytes",
                {row.target: float(row.state_bytes) for row in own},
                "{:,.0f}".format,
            ),
        ]
    return lines


def render_lines(rows: Sequence[RenderRow]) -> list[Cells]:
    lines: list[Cells] = []
    for name in dict.fromkeys(row.workload for row in rows):
        own = [row for row in rows if row.workload == name]
        label = f"{name} ({own[0].tokens:,} tokens a prompt): CPU a request, ms"
        lines.append((label, {row.target: _ms(row.cpu) for row in own}, _three_digits))
    return lines


def markdown(lines: Sequence[Cells], targets: Sequence[str]) -> str:
    """A table with a column for each target and, beside all but the first, the ratio to the first."""
    head = ["", targets[0], *(name for other in targets[1:] for name in (other, f"{other} / {targets[0]}"))]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for label, values, written in lines:
        if all(value is None for value in values.values()):
            continue
        first = values.get(targets[0])
        cells = [label, _cell(first, written)]
        for other in targets[1:]:
            value = values.get(other)
            ratio = value / first if value is not None and first else None
            cells += [_cell(value, written), _cell(ratio, _three_digits)]
        rows.append(cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(value: float | None, written: Callable[[float], str]) -> str:
    return "-" if value is None else written(value)


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


class Report(msgspec.Struct):
    """Everything that a run measured, as --json writes it."""

    command: list[str]
    renderd: str
    machine: Machine
    versions: dict[str, str]
    rows: list[StreamRow] | list[RenderRow]


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status 2 when a server cannot be measured."""
    argv = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(argv)
    if arguments.what == "parsers":
        return parsing.report(
            arguments.worst, arguments.bytes, arguments.limit, arguments.names, arguments.json
        )
    try:
        targets = _targets(arguments.url, arguments.pid or [])
        lines: list[Cells]
        rows: list[StreamRow] | list[RenderRow]
        tokens = Tokens(targets[0].client, targets[0].model)
        if arguments.what == "stream":
            rows = run_streams(targets, tokens, arguments.tokens, arguments.chunk, arguments.minimal)
            lines = stream_lines(rows)
        else:
            rows = [row for target in targets for row in render(target, tokens)]
            lines = render_lines(rows)
    except (OSError, RuntimeError, ServerError, ProcessError) as error:
        print(f"renderd bench: {error}", file=sys.stderr)
        return 2
    versions = {target.name: target.version for target in targets}
    report = Report(argv, renderd.__version__, machine(), versions, rows)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print(_text(report, markdown(lines, [target.name for target in targets])))
    unparsed = {row.target for row in rows if isinstance(row, StreamRow) and not row.parsed}
    if unparsed:
        print(f"not parsed (no qwen3 and hermes parsers?): {', '.join(sorted(unparsed))}", file=sys.stderr)
    return 0


def _text(report: Report, table: str) -> str:
    on = report.machine
    lines = [
        f"{on.cpu}, {on.cores} cores, {on.memory_gb} GB, {on.system}",
        f"Python {on.python}, renderd {report.renderd}",
        *(f"{name}: /version says {version}" for name, version in report.versions.items()),
        "",
        table,
        "",
        *(msgspec.json.encode(row).decode() for row in report.rows),
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


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
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
    common.add_argument("--json", action="store_true", help="print machine, versions and rows as JSON")
    parser = argparse.ArgumentParser(
        prog="renderd bench", description="Measure the CPU time that render and derender servers take."
    )
    kinds = parser.add_subparsers(dest="what", required=True)
    streams = kinds.add_parser(
        "stream",
        parents=[common],
        help="streaming derender of a parsed answer",
        description="The answer is one that qwen3 and hermes parse: start the servers with these parsers.",
    )
    streams.add_argument(
        "--tokens",
        type=_positive,
        default=4000,
        help=f"length of the long answer, after one of {ANSWER} (default 4000)",
    )
    streams.add_argument("--chunk", type=_positive, default=1, help="tokens a call (default 1)")
    streams.add_argument(
        "--minimal",
        action="store_true",
        help="send chat_request and prompt_token_ids with the first chunk only",
    )
    kinds.add_parser("render", parents=[common], help="chat render of prompts of several lengths")
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
    return parser


if __name__ == "__main__":
    sys.exit(main())
