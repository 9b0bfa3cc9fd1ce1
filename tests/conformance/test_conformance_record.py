"""What `renderd conformance record` writes: whole lines, one a case, of answers that are ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
