"""References: recorded from a live server, only ever added to, replayed by name or folder, compared."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import fake
import jsonschema
import msgspec
import pytest

from hatch_build import pack
from renderd.conformance import diff, main, record
from renderd.conformance.cases import Case, Golden, Recording
from renderd.conformance.equivalents import Equivalents
from renderd.conformance.main import GOLDEN

DIGEST = "0123456789abcdef"
TEXTS = ("hello there", "a(f12345)b(g)")
PAIRS = [
    *(fake.record(text, digest=DIGEST) for text in TEXTS),
    fake.record("cut(fhalf", "length", digest=DIGEST),
]
TOKENS: dict[str, Any] = {"id": "toy/tokens", "server": fake.SERVER, "api": "http", "areas": ["http"]}
TOKENS["request"] = {"method": "POST", "path": "/tokenize", "json": {"prompt": "ab"}}
PAIRS.append((TOKENS, {"id": "toy/tokens", "digest": DIGEST, "body": {"tokens": [97, 98]}}))
PAIRS[-1][1]["headers"] = {"content-type": "application/json"}


class Busy(fake.Fake):
    """Turns renders away."""

    def render(self, request: fake.Json) -> tuple[int, fake.Json]:
        return 503, {"error": {"message": "later", "type": "ServiceUnavailable", "param": None, "code": 503}}


def recorded(golden: Path, into: Path, server: fake.Fake, *more: str) -> tuple[int, Path]:
    """The exit status of `record`, and the file it wrote."""
    with fake.serving(server) as url:
        arguments = ["--url", url, "--name", "mine", "--into", str(into), "--cases", str(golden), *more]
        return main.main(["record", *arguments]), into / "mine" / "toy.jsonl"


def lines(file: Path) -> dict[str, Any]:
    return {line["id"]: line for line in map(json.loads, file.read_text().splitlines())}


def replayed(golden: Path, reference: Path, server: fake.Fake) -> int:
    with fake.serving(server) as url:
        return main.main(["--url", url, "--reference", str(reference), "--cases", str(golden)])


def test_a_server_is_recorded_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    status, file = recorded(golden, tmp_path, fake.Fake())
    assert status == 0
    assert "toy: 4 cases recorded" in capsys.readouterr().out
    schema = json.loads((Path(str(GOLDEN)) / "schema" / "recording.json").read_text())
    for line in lines(file).values():
        jsonschema.Draft202012Validator(schema).validate(line)
    assert lines(file)["toy/tokens"]["body"] == {"tokens": [97, 98]}
    first = lines(file)["toy/hello there-stop"]
    assert first["generate"] == PAIRS[0][1]["generate"]
    assert first["derender_batch"]["body"]["choices"][0]["message"]["content"] == "hello there"
    assert replayed(golden, file.parent, fake.Fake()) == 0
    assert replayed(golden, file.parent, fake.Fake("always_max_tokens")) == 1
    (golden / "recorded" / "mine").symlink_to(file.parent)
    assert replayed(golden, Path("mine"), fake.Fake()) == 0


def test_what_was_recorded_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS[:2])
    _, file = recorded(golden, tmp_path, fake.Fake())
    before = file.read_bytes()
    assert recorded(golden, tmp_path, fake.Fake())[0] == 0
    assert "0 cases recorded, 2 as they were" in capsys.readouterr().out
    assert recorded(golden, tmp_path, fake.Fake("drops_last_character"), "--server", "toy")[0] == 1
    said = capsys.readouterr().out
    assert "answered otherwise now: toy/hello there-stop: derender: choices[0].message.content" in said
    assert file.read_bytes() == before
    # What is missing is added behind it.
    more = fake.write(tmp_path / "more", PAIRS)
    assert recorded(more, tmp_path, fake.Fake())[0] == 0
    assert file.read_bytes().startswith(before)
    assert list(lines(file)) == [case["id"] for case, _ in PAIRS]


def test_a_reference_that_was_recorded_beside_an_engine(tmp_path: Path) -> None:
    """Its coupled answers are no answers of this server, nor is what its engine generated."""
    case, line = fake.record("hello there", digest=DIGEST)
    golden = fake.write(tmp_path / "golden", [(case, line)])
    _, file = recorded(golden, tmp_path, fake.Fake())
    other = json.loads(json.dumps(line).replace("hello", "other"))
    beside = lines(file)[case["id"]] | {"batch": other["batch"], "stream": other["stream"]}
    beside["generate"] = beside["generate"] | {"request_id": "another"}
    file.write_text(json.dumps(beside) + "\n")
    assert recorded(golden, tmp_path, fake.Fake())[0] == 0
    assert recorded(golden, tmp_path, fake.Fake("drops_last_character"), "--server", "toy")[0] == 1


def test_a_case_that_became_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, file = recorded(fake.write(tmp_path / "golden", PAIRS), tmp_path, fake.Fake())
    changed = [(PAIRS[0][0], PAIRS[0][1] | {"digest": "f" * 16}), *PAIRS[1:]]
    golden = fake.write(tmp_path / "changed", changed)
    capsys.readouterr()
    assert recorded(golden, tmp_path, fake.Fake())[0] == 1
    assert "toy/hello there-stop: the case is another one than was recorded" in capsys.readouterr().out
    assert replayed(golden, file.parent, fake.Fake()) == 0
    assert "1 further cases are not in" in capsys.readouterr().out


def test_the_model_has_the_recorded_name(tmp_path: Path) -> None:
    other = json.loads(json.dumps(PAIRS).replace(fake.MODEL, "other"))
    golden = fake.write(tmp_path / "golden", [tuple(pair) for pair in other])
    table = golden / "servers.toml"
    table.write_text(table.read_text().replace(fake.MODEL, "other"))
    status, file = recorded(golden, tmp_path, fake.Fake())
    assert status == 0
    assert fake.MODEL not in file.read_text()
    assert lines(file)["toy/hello there-stop"]["render"]["model"] == "other"


@pytest.mark.parametrize(
    ("lacks", "there", "not_there"),
    [("derender", "render", "derender_batch"), ("render", "derender_batch", "render")],
)
def test_what_a_server_does_not_have(tmp_path: Path, lacks: str, there: str, not_there: str) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS[:3])
    server = fake.Fake(lacks=[f"/v1/chat/completions/{lacks}"])
    status, file = recorded(golden, tmp_path, server, "--server", "toy")
    assert status == 0
    schema = json.loads((Path(str(GOLDEN)) / "schema" / "recording.json").read_text())
    for line in lines(file).values():
        jsonschema.Draft202012Validator(schema).validate(line)
        assert there in line
        assert not_there not in line
    assert replayed(golden, file.parent, fake.Fake()) == 0


def test_a_busy_server_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    status, file = recorded(golden, tmp_path, Busy(), "--server", "toy")
    assert status == 1
    assert "not kept: toy/hello there-stop: its status is 503" in capsys.readouterr().out
    assert list(lines(file)) == ["toy/tokens"]


def test_another_tokenizer_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS[:3])
    assert recorded(golden, tmp_path, fake.Fake("other_tokenizer"), "--server", "toy")[0] == 1
    assert "3 not for this server" in capsys.readouterr().out
    assert not (tmp_path / "mine").exists()


def test_what_is_no_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = str(fake.write(tmp_path / "golden", PAIRS))
    for arguments in (["--url", "http://h", "--reference", "nobody"], ["diff", "vllm-0.33.0", "nobody"]):
        assert main.main([*arguments, "--cases", golden]) == 2
        assert "no reference 'nobody': vllm-0.33.0, or a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main.main(["record", "--url", "http://h", "--name", "../elsewhere"])


CHOICE = {"index": 0, "delta": {}}
MALFORMED: dict[str, tuple[Any, str]] = {
    "no object": ([], "Expected `object`"),
    "nested too deeply": (msgspec.Raw(b'{"id":"a","body":' + b"[" * 100_000), ""),
    "an unfinished line": (msgspec.Raw(b'{"id":"a'), "truncated"),
    "status": ({"status": "x"}, "`$.status`"),
    "a rendered number": ({"render": 3}, "`$.render`"),
    "a render without tokens": ({"render": {"status": 400}}, "render: no token_ids"),
    "an error that is text": ({"status": 400, "render": "x"}, "`$.render`"),
    "generate": ({"generate": "x"}, "`$.generate`"),
    "generated nothing": ({"generate": {"request_id": "a", "choices": []}}, "`$.generate.choices`"),
    "no body": ({"derender_batch": {}}, "missing required field `status` - at `$.derender_batch`"),
    "no answer": ({"derender_batch": {"status": 200, "body": {}}}, "no answer: {}"),
    "a choice of text": ({"derender_batch": {"status": 200, "body": {"choices": ["x"]}}}, "body.choices[0]`"),
    "no choices": ({"batch": {"choices": None}}, "`$.batch.choices`"),
    "no message": ({"batch": {"choices": [{"index": 0, "message": None}]}}, "`$.batch.choices[0].message`"),
    "no chunks": ({"derender_stream": {"status": 200}}, "missing required field `chunks`"),
    "an empty stream": ({"derender_stream": {"status": 200, "chunks": []}}, "`$.derender_stream.chunks`"),
    "an empty error": ({"derender_stream": {"status": 400, "chunks": []}}, "`$.derender_stream.chunks`"),
    "an empty chunk": (
        {"derender_stream": {"status": 200, "chunks": [{"chunk": {}}]}},
        "chunk 0: no 'choices'",
    ),
    "a delta": ({"stream": [{"choices": [CHOICE | {"delta": {"content": 5}}]}]}, "delta.content`"),
    "an event": ({"stream": [{"type": "message_start"}]}, "chunk 0: no 'message'"),
    "usage": ({"stream": [{"choices": [], "usage": 3}]}, "usage`"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Every command says which it is."""
    golden = fake.write(tmp_path / "golden", PAIRS)
    folder = tmp_path / "mine"
    folder.mkdir()
    line, said = MALFORMED[name]
    good = msgspec.json.encode(PAIRS[0][1])
    bad = {"id": PAIRS[1][0]["id"], **line} if isinstance(line, dict) else line
    (folder / "toy.jsonl").write_bytes(good + b"\n" + msgspec.json.encode(bad) + b"\n")
    into = ["--name", "mine", "--into", str(tmp_path)]
    with fake.serving(fake.Fake()) as url:
        for command in (
            ["diff", "vllm-0.33.0", str(folder)],
            ["record", "--url", url, *into],
            ["--url", url, "--reference", str(folder)],
        ):
            assert main.main([*command, "--cases", str(golden)]) == 2
            error = capsys.readouterr().err
            assert f"{folder / 'toy.jsonl'}:2: " in error
            assert said in error


def test_what_changed_between_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = fake.write(tmp_path / "golden", PAIRS)
    _, own = recorded(golden, tmp_path / "a", fake.Fake())
    _, same = recorded(golden, tmp_path / "b", fake.Fake())
    _, shorter = recorded(golden, tmp_path / "c", fake.Fake("drops_last_character"), "--server", "toy")
    capsys.readouterr()

    def compare(before: Path, after: Path, *more: str) -> tuple[int, str]:
        names = [str(before.parent), str(after.parent)]
        status = main.main(["diff", *names, "--cases", str(golden), *more])
        return status, capsys.readouterr().out

    assert compare(own, same) == (0, f"{own.parent} -> {same.parent}: 4 cases in both, 0 differ\n")
    report = tmp_path / "report.json"
    status, said = compare(own, shorter, "--report", str(report))
    assert status == 1
    assert "chat derender: choices[].message.content: 3 cases\n  toy 3\n" in said
    assert 'toy/hello there-stop: choices[0].message.content: "hello there" -> "hello ther"' in said
    assert "4 cases in both, 3 differ" in said
    assert json.loads(report.read_text())["counts"]["fail"] == 3
    status, said = compare(own, shorter, "--markdown")
    assert "| chat derender | `choices[].message.content` | 3 | toy 3 | `toy/hello there-stop` |" in said
    # A coupled server's answers and a derender server's are compared as when they are replayed.
    assert main.main(["diff", "vllm-0.33.0", str(shorter.parent), "--cases", str(golden)]) == 1
    assert "chat answer: choices[].message.content: 3 cases" in capsys.readouterr().out
    shorter.write_text("\n".join(shorter.read_text().splitlines()[:1]) + "\n")
    assert "1 cases in both, 1 differ; 3 in " in compare(own, shorter)[1]
    shorter.write_text("")
    assert compare(own, shorter)[0] == 2


def test_lines_with_nothing_in_common(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are not alike."""
    golden = fake.write(tmp_path / "golden", PAIRS[:2])
    _, file = recorded(golden, tmp_path, fake.Fake())
    first, second = file.read_text().splitlines()
    bare = json.dumps({"id": json.loads(second)["id"], "digest": DIGEST})
    compare = ["diff", "vllm-0.33.0", str(file.parent), "--cases", str(golden)]
    file.write_text(f"{first}\n{bare}\n")
    assert main.main(compare) == 0
    assert "1 cases in both, 0 differ; 1 of which nothing can be compared\n" in capsys.readouterr().out
    file.write_text(f"{bare}\n")
    assert main.main(compare) == 2
    assert "have no answer to the same case" in capsys.readouterr().err


def changed(before: fake.Json, after: fake.Json) -> list[str]:
    case = Case(id="a/b", server="a", api="chat", request={"n": "x"})
    return differing(case, Recording(id="a/b", **before), Recording(id="a/b", **after))


def differing(case: Case, before: Recording, after: Recording) -> list[str]:
    found = diff.changes(case, before, after, False, Equivalents({"priority": [0]}))
    return [finding.what for findings in found.values() for finding in findings if not finding.aside]


def test_likely_tokens_are_the_engines() -> None:
    def answer(token: str, *likely: tuple[str, float]) -> fake.Json:
        top = [{"token": word, "logprob": number} for word, number in likely]
        content = [{"token": token, "logprob": likely[0][1], "top_logprobs": top}]
        return {"batch": {"choices": [{"index": 0, "logprobs": {"content": content}}]}}

    one, other = answer("a", ("a", -1.0), ("b", -2.0)), answer("a", ("a", -3.0), ("c", -4.0))
    runs: list[fake.Json] = [{"generate": {"request_id": "8" + digit * 15}} for digit in "ab"]
    assert changed(one | runs[0], other | runs[1]) == []
    assert len(changed(one | runs[0], other | runs[0])) == 4
    assert len(changed(one | runs[0], answer("a", ("a", -3.0)) | runs[1])) == 1
    assert len(changed(one | runs[0], answer("d", ("a", -3.0), ("c", -4.0)) | runs[1])) == 1


def test_random_digits_may_be_few() -> None:
    ids = ["chatcmpl-026b930b", "chatcmpl-0bee38ad", f"chatcmpl-8{'f' * 15}", "chatcmpl-mine", None]
    renders: list[fake.Json] = [{"render": {"request_id": name}} for name in ids]
    for other, differs in zip(renders[1:], (0, 0, 1, 1), strict=True):
        assert len(changed(renders[0], other)) == differs


def test_what_engines_generated_is_compared() -> None:
    def generated(*keys: str) -> fake.Json:
        generate = {"request_id": "a", "choices": [{"index": 0} | dict.fromkeys(keys)]}
        return {"batch": {"choices": []}, "generate": generate}

    assert changed(generated(), generated()) == []
    assert changed(generated(), generated("new")) == ["choices[0].new: (absent) -> null"]
    several = [one | {"generate": [one["generate"]]} for one in (generated(), generated("new"))]
    assert changed(*several) == ["choices[0].new: (absent) -> null"]
    borrowed = [one | {"batch": None} for one in several]
    assert changed(*borrowed) == []


def test_errors_and_headers_are_compared() -> None:
    error = {"message": "no", "type": "BadRequestError", "param": "messages", "code": 400}
    refused = {"status": 400, "render": {"error": error}}
    assert changed(refused, refused) == []
    assert changed(refused, {"render": {}}) == ["status: 400 -> 200"]
    assert changed(refused, refused | {"render": {"error": error | {"param": None}}}) == [
        'param: "messages" -> null'
    ]
    case = Case(id="a/b", server="a", api="http", request={"method": "GET", "path": "/"})
    pair = [Recording(id="a/b", headers={"content-type": kind}, body="") for kind in ("a/b; c", "a/d")]
    assert differing(case, *pair) == ["header content-type: 'a/b' -> 'a/d'"]


def test_what_no_engine_notices_is_no_change() -> None:
    assert changed({"render": {"priority": 0}}, {"render": {}}) == []
    assert changed({"render": {"priority": 1}}, {"render": {}}) == ["priority: 1 -> (absent)"]
    pair = [Recording(id="a/b", body=body) for body in ({"priority": 0}, {})]
    for path, differs in (("/v1/completions/render", 0), ("/else", 1)):
        case = Case(id="a/b", server="a", api="http", request={"method": "POST", "path": path})
        assert len(differing(case, *pair)) == differs


def test_derender_is_compared_beside_the_coupled_answer() -> None:
    def pair(content: str) -> fake.Json:
        body = {"choices": [{"index": 0, "message": {"content": content}}]}
        answers = {"batch": {"choices": []}, "derender_batch": {"status": 200, "body": body}}
        return answers | {"generate": {}}

    assert changed(pair("a"), pair("a")) == []
    assert changed(pair("a"), pair("b")) == ['choices[0].message.content: "a" -> "b"']


def test_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(fake.write(tmp_path / "golden", PAIRS), tmp_path / "golden.zip")
    archive = zipfile.Path(tmp_path / "golden.zip")
    for module in (record, diff):
        monkeypatch.setattr(module, "carried", lambda: archive)
    monkeypatch.chdir(tmp_path)
    with fake.serving(fake.Fake()) as url:
        assert main.main(["record", "--url", url, "--name", "mine"]) == 0
    # The fake's own answers are what the archive says a coupled server answered.
    assert main.main(["diff", "vllm-0.33.0", "mine"]) == 0
    assert Golden(archive, "mine").recordings("toy").keys() == {case["id"] for case, _ in PAIRS}
