"""Templates of requests in processes of their own. The hostile ones are in tests/server."""

from __future__ import annotations

import os
import resource

from renderd.model import foreign
from renderd.model.foreign import foreign_template
from renderd.wire.errors import ApiError

MESSAGES = [{"role": "user", "content": "Hi"}]


def rendered(source: str, **variables: object) -> str:
    return foreign_template(source).render({"messages": MESSAGES, **variables})


def test_it_renders_what_the_template_says() -> None:
    template = foreign_template("{{ messages[0].content }} {{ x }}")
    assert template.render({"messages": MESSAGES, "x": "\ud800 ü"}) == "Hi \ud800 ü"
    assert (template.variables, template.content_format) == ({"messages", "x"}, "string")


def test_variables_of_any_depth() -> None:
    """How deep Python can write depends on its own stack: what is deeper is a 400, and nothing else."""
    refusals = set()
    for depth in range(100, 1200, 3):
        nested: list[object] = []
        for _ in range(depth):
            nested = [nested]
        try:
            assert rendered("{{ x|length }}", x=nested) == "1"
        except ApiError as error:
            refusals.add((error.status, error.message))
    assert refusals
    assert {status for status, _ in refusals} == {400}


def test_a_process_that_was_ended_is_not_asked() -> None:
    assert rendered("{{ 1 }}") == "1"
    for process in foreign._idle:
        process._end()
    assert rendered("{{ 2 }}") == "2"


def test_files_of_any_number() -> None:
    """A server with many connections has no small file numbers left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1030)]
    idle, foreign._idle[:] = foreign._idle[:], []
    try:
        assert rendered("{{ 3 }}") == "3"
    finally:
        for file in taken:
            os.close(file)
        foreign._idle += idle
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
