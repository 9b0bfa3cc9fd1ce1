"""What `renderd conformance record` writes: whole lines, one a case, of answers that are ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fake
import pytest
from test_conformance_references import PAIRS, lines, recorded

from renderd.conformance.adding import ReferenceFile


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[:-1], id="no line feed"),
        pytest.param(lambda content: content[:-50], id="half a line"),
        pytest.param(lambda content: content[: content.index(b"\n") + 2], id="one character"),
        pytest.param(lambda content: content[:20], id="half the first line"),
        pytest.param(lambda content: b"", id="empty"),
    ],
)
def test_a_last_line_without_end(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    _, file = recorded(golden, tmp_path, fake.Fake())
    content = file.read_bytes()
    whole = content[: damage(content).rfind(b"\n") + 1]
    file.write_bytes(damage(content))
    assert recorded(golden, tmp_path, fake.Fake())[0] == 0
    assert file.read_bytes().startswith(whole)
    assert list(lines(file)) == [case["id"] for case, _ in PAIRS]
    assert len(file.read_bytes().splitlines()) == len(PAIRS)


def test_several_recorders_at_once(tmp_path: Path) -> None:
    """Each case is recorded once, whoever comes first."""
    files = [ReferenceFile(tmp_path, "toy") for _ in range(4)]
    names = [f"toy/{number}" for number in range(50)]

    def add(file: ReferenceFile) -> int:
        return sum(file.add({"id": name, "digest": "0" * 16}) for name in names)

    with ThreadPoolExecutor(len(files)) as pool:
        added = list(pool.map(add, files))
    assert sum(added) == len(names)
    assert list(lines(tmp_path / "toy.jsonl")) == names
    assert len((tmp_path / "toy.jsonl").read_bytes().splitlines()) == len(names)
    assert all(set(file.known) >= {names[-1]} for file in files)


def test_a_line_of_another_recorder_is_compared_with(tmp_path: Path) -> None:
    first, second = (ReferenceFile(tmp_path, "toy") for _ in range(2))
    assert first.add({"id": "toy/a", "digest": "1"})
    assert not second.add({"id": "toy/a", "digest": "2"})
    assert second.known["toy/a"].digest == "1"
    assert second.add({"id": "toy/b"})
    assert not first.add({"id": "toy/b"})


class Garbled(fake.Fake):
    """Answers with a 200, and what it was given to the calls of one route. A stream's calls are a route."""

    def __init__(self, route: str, garbage: Any) -> None:
        super().__init__()
        self._route = route
        self._garbage = garbage

    def _answer(self, path: str, body: fake.Json) -> tuple[int, Any]:
        route = "stream" if body and "generate_chunk" in body else path.rpartition("/")[2]
        if route == self._route and body:
            return 200, self._garbage
        return super()._answer(path, body)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


GARBAGE = [
    *(("render", value) for value in ({}, None, [], [{"token_ids": [1]}], "x", 3, {"token_ids": "x"})),
    *(("render", value) for value in ({"status": 400}, nested(900))),
    *(("derender", value) for value in ({}, None, [], "x", {"choices": []}, {"choices": None})),
    ("derender", {"choices": [{"index": 0, "message": None}]}),
    ("derender", nested(900)),
    *(("stream", value) for value in ({}, None, [], "x", nested(900))),
    *(("stream", {"stream_state": state}) for state in (None, 1)),
    *(("stream", {"stream_state": 1, "chunk": chunk}) for chunk in ({}, "x", {"choices": [{"index": []}]})),
    ("stream", {"stream_state": 1, "chunk": {"choices": [{"index": 0, "delta": {"tool_calls": [{}]}}]}}),
    *(("stream", {"stream_state": 1, "events": events}) for events in ([], [{"type": "message_start"}])),
]


@pytest.mark.parametrize(("route", "garbage"), GARBAGE)
def test_what_is_no_answer_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], route: str, garbage: Any
) -> None:
    """It is said, the other cases are recorded, and this one when it is answered."""
    golden = fake.write(tmp_path / "golden", [PAIRS[0], PAIRS[-1]])
    status, file = recorded(golden, tmp_path, Garbled(route, garbage), "--server", "toy")
    assert status == 1
    said = capsys.readouterr()
    assert said.out.startswith(f"not kept: {PAIRS[0][0]['id']}: ")
    assert said.err == ""
    assert list(lines(file)) == ["toy/tokens"]
    assert recorded(golden, tmp_path, fake.Fake())[0] == 0
    before = file.read_bytes()
    assert recorded(golden, tmp_path, Garbled(route, garbage), "--server", "toy")[0] == 1
    assert "1 as they were, 0 answered otherwise now and left so, 0 not for this server, 1 not kept" in (
        capsys.readouterr().out
    )
    assert file.read_bytes() == before


RENDER: fake.Json = {"id": "toy/render", "server": fake.SERVER, "api": "http"}
RENDER["request"] = {"method": "POST", "path": "/v1/chat/completions/render?a", "json": fake.request()}
DERENDER: fake.Json = {"id": "toy/derender", "server": fake.SERVER, "api": "http"}
DERENDER["request"] = {"method": "POST", "path": "/v1/chat/completions/derender", "json": {"a": 1}}


@pytest.mark.parametrize("case", [RENDER, DERENDER])
@pytest.mark.parametrize("garbage", [{}, None, "x", [{}], {"status": 400}])
def test_nor_is_one_to_a_request_as_it_goes_over_the_wire(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: fake.Json, garbage: Any
) -> None:
    name, path = case["id"], case["request"]["path"]
    line = {"id": name, "digest": "0" * 16, "headers": {"content-type": "application/json"}, "body": {}}
    golden = fake.write(tmp_path / "golden", [(case, line)])

    class Wired(Garbled):
        def _answer(self, asked: str, body: fake.Json) -> tuple[int, Any]:
            return (200, garbage) if asked == path and body else super()._answer(asked, body)

    status, file = recorded(golden, tmp_path, Wired("", None), "--server", "toy")
    assert status == 1
    assert f"not kept: {name}: no answer of its route's form" in capsys.readouterr().out
    assert not file.exists()
