"""golden/divergences.toml: its format, and every entry of it against the recordings."""

from __future__ import annotations

from pathlib import Path

import fake
import pytest

from renderd.conformance.cases import Case, Golden, Recording
from renderd.conformance.divergences import Divergence, Divergences, check_entry
from renderd.conformance.main import GOLDEN

ENTRY = """
[[divergence]]
id = "cut"
cases = ["toy/cut(fhalf-length"]
where = "batch"
field = "choices[0].message.tool_calls"
ours = [{ function = { name = "f", arguments = "half" } }]
defect = "text_lost"
reason = "The call is there as far as it came."
reproducer = "toy/cut(fhalf-length"
"""


def load(folder: Path, text: str) -> Divergences:
    path = folder / "divergences.toml"
    path.write_text(text)
    return Divergences.load(path)


def recorded(*pairs: tuple[fake.Json, fake.Json], folder: Path) -> tuple[list[Case], dict[str, Recording]]:
    golden = Golden(fake.write(folder, list(pairs)))
    return golden.cases(fake.SERVER), golden.recordings(fake.SERVER)


def test_no_file_no_entries(tmp_path: Path) -> None:
    assert Divergences.load(tmp_path / "divergences.toml").entries == []


def test_entries_may_stand_in_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "divergences").mkdir()
    (tmp_path / "divergences" / "more.toml").write_text(ENTRY.replace('"cut"', '"more"'))
    assert [entry.id for entry in load(tmp_path, ENTRY).entries] == ["cut", "more"]


def test_an_entry_is_read(tmp_path: Path) -> None:
    (entry,) = load(tmp_path, ENTRY).entries
    assert (entry.id, entry.fields, entry.rule) == ("cut", ["choices[0].message.tool_calls"], None)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('defect = "text_lost"', "", "one of `defect` and `kind`"),
        ('defect = "text_lost"', 'defect = "text_lost"\nkind = "superset"', "one of `defect` and `kind`"),
        ('defect = "text_lost"', 'defect = "ugly"', "unknown defect 'ugly'"),
        ('defect = "text_lost"', 'kind = "whim"', "kind"),
        ('where = "batch"', 'where = "lunch"', "where"),
        ('field = "choices[0].message.tool_calls"', 'field = "choices["', "is no path"),
        ('ours = [{ function = { name = "f", arguments = "half" } }]', "", "`ours` is needed"),
        ('cases = ["toy/cut(fhalf-length"]', 'cases = { "toy/x" = 1 }', "`ours` is needed, once"),
        ('where = "batch"', 'where = "error"', "must say the status"),
        ('[{ function = { name = "f", arguments = "half" } }]', '{ rule = "any" }', "unknown rule"),
        (
            'ours = [{ function = { name = "f", arguments = "half" } }]',
            'ours = { rule = "x" }',
            "unknown rule",
        ),
        ('reason = "The call is there as far as it came."', 'reason = " "', "reason"),
        ('reason = "The call is there as far as it came."', "", "reason"),
        ('id = "cut"', 'id = "cut"\nwhy = "x"', "unknown field"),
        (ENTRY, ENTRY + ENTRY, "same id"),
    ],
)
def test_a_malformed_entry_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        load(tmp_path, ENTRY.replace(old, new))


REFUSED = """
[[divergence]]
id = "refused"
where = "error"
field = "status"
kind = "superset"
reason = "It can be rendered."
reproducer = "toy/x"

[divergence.cases]
"toy/x" = { status = 200, answer = 'x' }
"""


def test_our_answer_to_what_is_refused_is_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="malformed"):
        load(tmp_path, REFUSED)
    with pytest.raises(ValueError, match="truncated"):
        load(tmp_path, REFUSED.replace(", answer = 'x'", ""))
    (entry,) = load(tmp_path, REFUSED.replace("'x'", "'{}'")).entries
    assert entry.answer(Case("toy/x", "toy", "chat", {})) == {}


def lossy() -> tuple[fake.Json, fake.Json]:
    case, recording = fake.record("cut(fhalf", "length")
    # Words are what text_lost counts.
    case["output"]["text"] = "cut ( f half"
    del recording["batch"]["choices"][0]["message"]["tool_calls"]
    return case, recording


def test_a_recording_that_shows_the_defect(tmp_path: Path) -> None:
    (entry,) = load(tmp_path, ENTRY).entries
    cases, recordings = recorded(lossy(), folder=tmp_path / "golden")
    assert check_entry(entry, cases, recordings) == []


def test_a_recording_that_does_not(tmp_path: Path) -> None:
    (entry,) = load(tmp_path, ENTRY).entries
    cases, recordings = recorded(fake.record("cut(fhalf", "length"), folder=tmp_path / "golden")
    (problem,) = check_entry(entry, cases, recordings)
    assert problem.startswith("cut: toy/cut(fhalf-length: the recorded message has all")


def test_an_entry_for_no_case(tmp_path: Path) -> None:
    (entry,) = load(tmp_path, ENTRY).entries
    cases, recordings = recorded(fake.record("other"), folder=tmp_path / "golden")
    assert check_entry(entry, cases, recordings) == [
        "cut: reproducer toy/cut(fhalf-length is no case",
        "cut: toy/cut(fhalf-length is no recorded case",
    ]


def test_of_a_pattern_one_case_is_enough(tmp_path: Path) -> None:
    (entry,) = load(tmp_path, ENTRY.replace('cases = ["toy/cut(fhalf-length"]', 'cases = ["toy/*"]')).entries
    cases, recordings = recorded(fake.record("cut(fwhole", "length"), lossy(), folder=tmp_path / "golden")
    assert check_entry(entry, cases, recordings) == []


def test_every_entry_is_borne_out_by_the_recordings() -> None:
    golden = Golden(GOLDEN)
    cases = [case for server in golden.servers for case in golden.cases(server)]
    recordings = {key: value for server in golden.servers for key, value in golden.recordings(server).items()}
    entries: list[Divergence] = Divergences.load(GOLDEN / "divergences.toml").entries
    assert [problem for entry in entries for problem in check_entry(entry, cases, recordings)] == []
