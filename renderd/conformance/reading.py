"""What is kept of what is found. An answer that cannot be read is a finding of its case: the run goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from renderd.conformance.bounds import length
from renderd.conformance.checks import Finding
from renderd.conformance.client import Client, Gone, NoAnswer
from renderd.conformance.malformed import MALFORMED, Unreadable, excerpt, reason

FAILURES = 100
"""Of a check, that are told one by one."""

SIZE = 65536
"""Characters of what they say, and of their values, that are not too many."""

MORE = Finding("and more, which are not told")


def gathered(findings: Iterable[Finding], kept: list[Finding] | None = None) -> list[Finding]:
    """The findings of a check, behind those that were `kept` of it, where there are any.

    How many differences an answer has is its server's affair. Of those that make the case fail FAILURES are
    kept, or as many as are SIZE; behind them stands MORE, and no further one is made. Of the others there are
    as many at most.
    """
    kept = [] if kept is None else kept
    counts, sizes = [0, 0], [0, 0]
    for finding in kept:
        fails = not finding.declared and not finding.aside
        counts[fails], sizes[fails] = counts[fails] + 1, sizes[fails] + _size(finding)
    for finding in () if MORE in kept else findings:
        fails = not finding.declared and not finding.aside
        if counts[fails] < FAILURES and sizes[fails] <= SIZE:
            kept.append(finding)
            counts[fails], sizes[fails] = counts[fails] + 1, sizes[fails] + _size(finding)
        elif fails:
            kept.append(MORE)
            break
    return kept


def _size(finding: Finding) -> int:
    return len(finding.what) + sum(map(length, finding.values or ()))


@contextmanager
def reading(client: Client, found: dict[str, list[Finding]], check: str) -> Iterator[None]:
    """Judge what a server answered. What cannot be read becomes a finding of a check; the rest of the block
    is not done then. Gone is raised all the same. Our own files have to be read before."""
    try:
        yield
    except Gone:
        raise
    except NoAnswer as error:
        found.setdefault(check, []).append(Finding(f"no answer: {error}"))
    except MALFORMED as error:
        found.setdefault(check, []).append(unreadable(client, error))


def unreadable(client: Client, error: Exception) -> Finding:
    """What is said of the answer that came last."""
    said = f"what the answer has is not to be read: {client.asked}: {reason(error)}"
    if not isinstance(error, Unreadable) and client.answered is not None:
        said += f" in {excerpt(client.answered.body)}"
    return Finding(said)
