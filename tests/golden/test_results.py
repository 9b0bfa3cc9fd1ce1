"""The published results: they are well-formed and explained, and the command makes such."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from golden import results, results_page
from golden.asked import Asked, Kind, count
from golden.processes import REPOSITORY
from golden.results_page import BEGIN, END, MINOR, NAMES
from renderd.conformance.cases import Case, Recording
from renderd.conformance.checks import Finding, absent
from renderd.conformance.reading import gathered
from renderd.conformance.runner import Result

EXPLANATIONS = results_page.explanations(results.GOLDEN / "explanations.toml")


def section(docs: Path) -> str:
    return (docs / "conformance.md").read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table, its head first."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if not line.startswith("| ---")]
        for table in found
    ]


def check(docs: Path) -> None:
    """Rows are as wide as their head, counts add up, each kind has the explanation that stands beside it."""
    published = section(docs)
    assert "| server |" in published
    for head, *rows in tables(published):
        assert rows
        assert {len(row) for row in rows} == {len(head)}
        names = [cell.strip() for cell in head]
        if "pass" in names:
            at = names.index("cases")
            for row in rows:
                total, *counts = (int(cell) for cell in row[at:])
                assert total == sum(counts)
    for title in re.split(r"^### ", published, flags=re.MULTILINE):
        server = next((key for key, name in NAMES.items() if title.startswith(f"What {name} answers")), "")
        for row in (row for head, *rows in tables(title) if head[0].startswith(" kinds,") for row in rows):
            kinds = re.findall(r"`([^`]+)`", row[0])
            assert kinds
            case = re.findall(r"`([^`]+)`", row[3])[0]
            explanation = EXPLANATIONS.of(server, kinds[0], case)
            assert explanation is not None
            assert explanation.what.replace("|", "\\|") == row[-1].strip().removeprefix(MINOR)
            assert all(
                any(one.fits(server, kind, case) for one in EXPLANATIONS.explanation) for kind in kinds
            )


def test_the_published_page() -> None:
    docs = REPOSITORY / "docs"
    check(docs)
    for name in NAMES.values():
        assert f"### What {name} answers otherwise" in section(docs)
    assert (docs / "divergences.md").is_file()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "conformance.md").write_text(
        f"before\n{BEGIN}\nthe last results\n{END}\nafter\n", encoding="utf-8"
    )
    return folder


GOOD = Asked("2026-01-01", "1", "hermes", 1, counts={"all cases": {"pass": 1}, "chat render": {"pass": 1}})


def keep(folder: Path, server: str, asked: Asked = GOOD) -> None:
    (folder / server).mkdir()
    (folder / server / "qwen3-hermes.json").write_bytes(msgspec.json.encode(asked))


def test_the_command(tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path, "vllm")
    assert results.main(["--of", "renderd", "--server", "kimi-k2-ids"], tmp_path, docs) == 1
    assert "nothing is kept of vllm-rs: ask it as well" in capsys.readouterr().err
    keep(tmp_path, "vllm-rs")
    assert results.main(["--no-asking"], tmp_path, docs) == 0
    check(docs)
    text = (docs / "conformance.md").read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "the last results" not in text
    assert "| renderd | " in text
    assert "were not asked. Asked were: kimi-k2-ids." in text
    assert "No case fails." in text


def test_what_has_no_explanation_is_not_published(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = Kind("chat", "render", "unheard.of", {"qwen3-hermes/a": "hermes"}, ["qwen3-hermes/a: it differs"])
    failed = {"all cases": {"fail": 1}, "chat render": {"fail": 1}}
    keep(tmp_path, "vllm", Asked("2026-01-01", "1", "hermes", 1, counts=failed, kinds=[kind]))
    assert results.main(["--no-asking"], tmp_path, docs) == 1
    assert (
        "vllm: no explanation of chat render: unheard.of in 1 cases, the first is qwen3-hermes/a"
        in capsys.readouterr().err
    )
    assert "the last results" in section(docs)


def test_a_server_that_does_not_start_is_no_pass(tmp_path: Path, docs: Path) -> None:
    keep(tmp_path, "vllm")
    keep(tmp_path, "renderd")
    why = "tool parser `x` is not registered"
    keep(tmp_path, "vllm-rs", Asked("2026-01-01", "1", "hermes", 9, not_started=why, left_out=["--a b"]))
    assert results.main(["--no-asking"], tmp_path, docs) == 0
    text = section(docs)
    assert "does not start with 1 configurations of 9 cases" in text
    assert "| `tool parser ... is not registered` | qwen3-hermes |" in text
    assert "`--a b` (1)" in text
    assert re.search(r"\| vllm-rs \| 1 \| 2026-01-01 \| 0 of \d+ \| 0 \| 0 \|", text)


def test_a_render_that_is_not_offered_is_not_the_same() -> None:
    found = {
        "same": [],
        "other": [Finding("another", path=("token_ids", 0))],
        "refused": [Finding("refused", path=("error", "status"), values=(200, 400))],
        "absent": [absent("POST", "/v1/messages/render")],
    }
    results_of = [Result(Case(id, "a", "messages", {}), {"render": one}) for id, one in found.items()]
    asked = Asked("2026-01-01", "1", "hermes", 4)
    count(asked, results_of, {id: Recording(id) for id in found})
    counts = {"all": 4, "absent": 1, "refused": 1, "token_ids": 1, "sampling_params": 2}
    assert asked.rendered == counts
    table = list(results_page._prompts({"vllm-rs": {"a": asked}}))
    assert "| not offered | refused |" in table[0]
    assert table[-1] == "| vllm-rs | 4 | 1 | 1 | 1 | 2 |"


def test_what_is_not_told_is_no_kind_and_not_the_same() -> None:
    asked = Asked("", "", "toy", 1)
    other = [Finding("another", values=(1, 2), path=("token_ids", at)) for at in range(200)]
    found = {"render": gathered(other)}
    count(asked, [Result(Case("toy/a", "toy", "chat", {}), found, "toy")], {"toy/a": Recording("toy/a")})
    assert asked.rendered == {"all": 1, "absent": 0, "refused": 0, "token_ids": 0, "sampling_params": 0}
    assert [one.place for one in asked.kinds] == ["token_ids[]"]
