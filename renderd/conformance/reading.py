"""An answer that cannot be read, or did not come, is a finding of its case: the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from renderd.conformance.checks import Finding
from renderd.conformance.client import Client, Gone, NoAnswer
from renderd.conformance.malformed import MALFORMED, Unreadable, excerpt, reason


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
