"""The published format: every case and recording fits its schema, and a runner in Node agrees with ours."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fake
import jsonschema
import pytest
from test_conformance_golden import serving

from renderd.conformance import fitting, invariants, main
from renderd.conformance.cases import Golden
from renderd.conformance.client import Client
from renderd.conformance.compare import differences
from renderd.conformance.divergences import Divergences
from renderd.conformance.main import GOLDEN
from renderd.conformance.rules import stream_rules
from renderd.conformance.runner import replay

assert isinstance(GOLDEN, Path)
FILES = {
    "case": sorted((GOLDEN / "cases").glob("*.jsonl")),
    "recording": sorted((GOLDEN / "recorded").glob("*/*.jsonl")),
}
RUNNER = GOLDEN / "runners" / "node" / "run.mjs"
NODE = shutil.which("node")


def validator(kind: str) -> Any:
    schema = json.loads((GOLDEN / "schema" / f"{kind}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.mark.parametrize("kind", FILES)
def test_every_line_fits_its_schema(kind: str) -> None:
    check = validator(kind)
    assert FILES[kind]
    faults = [
        f"{path.name}: {line['id']}: {error.json_path}: {error.message[:200]}"
        for path in FILES[kind]
        for line in lines(path)
        for error in check.iter_errors(line)
    ]
    assert faults == []


def test_the_defaults_fit_their_schema() -> None:
    table = json.loads((GOLDEN / "defaults.json").read_text(encoding="utf-8"))
    assert list(validator("defaults").iter_errors(table)) == []
    assert not validator("defaults").is_valid({"sampling_params.n": 1})


CASE = {"id": "a/b", "server": "a", "api": "chat", "request": {}}
RECORDING = {"id": "a/b", "digest": "0" * 16, "status": 200}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("case", {**CASE, "id": "b"}),
        ("case", {**CASE, "api": "chats"}),
        ("case", {**CASE, "area": []}),
        ("case", {**CASE, "output": {}}),
        ("case", {**CASE, "output": {"text": "a", "token_ids": [1]}}),
        ("case", {**CASE, "api": "http"}),
        ("case", {**CASE, "api": "http", "request": {"method": "GET", "path": "/"}, "output": {"text": ""}}),
        ("case", {**CASE, "api": "http", "request": {"method": "POST", "path": "/", "json": 1, "text": ""}}),
        ("recording", {**RECORDING, "digest": "x"}),
        ("recording", {**RECORDING, "batch": {}}),
        ("recording", {**RECORDING, "derender_batch": {"status": 200}}),
        ("recording", {**RECORDING, "renders": {}}),
    ],
)
def test_what_is_of_no_such_form_does_not(kind: str, line: Any) -> None:
    assert validator(kind).is_valid(CASE if kind == "case" else RECORDING)
    assert not validator(kind).is_valid(line)


CHECKS = {"render": "render", "batch": "batch", "coupled": "stream", "http": "http"}
"""Names of checks that both runners do: ours, and Node's."""


@pytest.mark.skipif(NODE is None, reason="no Node")
@pytest.mark.parametrize("server", ["engine", "llama3-json", "messages-qwen3", "qwen3-plain"])
def test_the_runner_in_another_language_agrees(server: str, tmp_path: Path) -> None:
    """Where ours passes it passes; what is declared is different to it, as it knows of no divergences."""
    assert NODE is not None
    golden = Golden(GOLDEN)
    with serving(server, tmp_path / "log") as url:
        done = subprocess.run([NODE, RUNNER, url, server], capture_output=True, text=True, timeout=300)
        results = replay(
            Client(url),
            golden,
            Divergences.load(GOLDEN / "divergences.toml"),
            server,
            lambda case: case.api in ("chat", "completion", "http"),
        )
    theirs = {(line["id"], line["check"]): line["ok"] for line in map(json.loads, done.stdout.splitlines())}
    ours = {
        (result.case.id, CHECKS[check]): result.outcome(check) in ("pass", "equivalent")
        for result in results
        for check in result.found
        if check in CHECKS
    }
    assert theirs == ours
    assert len(ours) > 10
    assert done.returncode == (0 if all(ours.values()) else 1)


def test_it_finds_what_is_wrong(tmp_path: Path) -> None:
    """A server that is of another kind differs in every case."""
    if NODE is None:
        pytest.skip("no Node")
    with fake.serving(fake.Fake("drops_last_character")) as url:
        folder = fake.write(tmp_path, [fake.record("hello there"), fake.record("(f1)")])
        command = [NODE, RUNNER, url, "toy", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [line for line in said if not line["ok"]]
    assert [line["check"] for line in said] == ["render", "batch", "stream"] * 2
    assert [(line["id"], line["check"]) for line in wrong] == [("toy/hello there-stop", "batch")]
    assert wrong[0]["difference"]["want"] == "hello there"
    assert done.returncode == 1


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    if NODE is None:
        pytest.skip("no Node")
    return subprocess.run([NODE, RUNNER, *arguments], capture_output=True, text=True, timeout=60)


def test_it_says_what_it_cannot_ask(tmp_path: Path) -> None:
    folder = str(fake.write(tmp_path, [fake.record("hello there")]))
    derender = "/v1/chat/completions/derender"
    with fake.serving(fake.Fake(lacks=[derender])) as url:
        lacking, unknown = node(url, "toy", folder), node(url, "nix", folder)
        nameless = node(f"{url}/nowhere/", "toy", folder)
    said = [json.loads(line) for line in lacking.stdout.splitlines()]
    assert said[1] == {"id": "toy/hello there-stop", "check": "batch", "ok": False, "offered": False}
    assert "1 checks equal, 0 different, 1 not offered by the server" in lacking.stderr
    assert "no configuration nix: there is no " in unknown.stderr
    assert nameless.stderr == f"{url}/nowhere/v1/models, 404, does not say which model is served\n"
    gone = node(url, "toy", folder)
    assert f"{url}/v1/models: " in gone.stderr
    for done in (lacking, unknown, gone, nameless):
        assert done.returncode == 2
        assert "    at " not in done.stderr


@pytest.mark.parametrize("body", [b"", b"<html>", b"null", b"[]", b'{"chunk": {"choices": [3]}}'])
@pytest.mark.parametrize("status", [200, 500])
def test_a_malformed_answer_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    folder = str(fake.write(tmp_path, [fake.record("hello there")]))
    right = fake.Fake._answer

    def answer(self: fake.Fake, path: str, sent: fake.Json) -> tuple[int, Any]:
        return (status, body) if path.endswith("/derender") else right(self, path, sent)

    monkeypatch.setattr(fake.Fake, "_answer", answer)
    with fake.serving(fake.Fake()) as url:
        done = node(url, "toy", folder)
    said = {line["check"]: line["ok"] for line in map(json.loads, done.stdout.splitlines())}
    assert said == {"render": True, "batch": False, "stream": False}
    assert done.returncode == 1


@pytest.mark.parametrize("page", ["conformance.md", "conformance-format.md"])
def test_the_pages_name_what_is_there(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = GOLDEN.parent
    text = (root / "docs" / page).read_text(encoding="utf-8")
    for command in ([], ["record"], ["diff"]):
        with pytest.raises(SystemExit):
            main.main([*command, "--help"])
    own = text.partition("<!-- results")[0]  # behind it are flags of other servers
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", own))
    flags -= {"--max-model-len", "--served-model-name", "--chat-template"}  # of the servers
    flags -= set(fitting.FLAGGED)
    helped = capsys.readouterr().out
    assert {flag for flag in flags if flag not in helped} == set()
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [path for path in linked if not (root / "docs" / path).exists()] == []
    named = re.findall(r"golden/[\w./-]+", text)
    missing = {path for path in named if "SERVER" not in path and not (root / path).exists()}
    assert missing - {"golden/cases/"} == set()
    limits = (invariants.LONG, invariants.RATIO, fitting.UNFIT_LIMIT, fitting.SAMPLE)
    assert limits == (1500, 2.0, 0.05, 10)  # the pages say so in words


def test_the_worked_example() -> None:
    page = (GOLDEN.parent / "docs/conformance-format.md").read_text(encoding="utf-8")
    section = page[page.index("## A worked example") :]
    golden, name = Golden(GOLDEN), "qwen3-plain/emoji-cut"
    (case,) = (case for case in golden.cases("qwen3-plain") if case.id == name)
    recording = golden.recordings("qwen3-plain")[name]
    assert f"`{name}`" in section
    assert f"    {json.dumps(case.request)}\n    {json.dumps(recording.prompt_token_ids)} " in section
    assert recording.generate["request_id"] in section
    assert len(recording.stream or []) == 4
    said = json.loads(re.findall(r"```json\n(.*?)```", section, re.DOTALL)[0])
    assert not any(differences(recording.view("stream"), said, stream_rules(1, False)))
