"""The published format: every case and recording fits its schema, and a runner in Node agrees with ours."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from email.message import Message
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


def node(*arguments: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    if NODE is None:
        pytest.skip("no Node")
    command = [NODE, *options, RUNNER, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


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


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"null", b"[]", b'{"chunk": {"choices": [3]}}', DEEP),
        b'{"chunk": {"choices": []}, "stream_state": ' + DEEP + b"}",
    ],
)
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


@pytest.mark.parametrize(
    ("fault", "check", "path"),
    [
        ("another_status", "render", "status"),
        ("chunk_id", "stream", "chunk.id"),
        ("chunk_model", "stream", "chunk.model"),
        ("chunk_created", "stream", "chunk.created"),
        ("chunk_banana", "stream", "chunk.banana"),
    ],
)
def test_it_looks_at_statuses_and_around_the_news(tmp_path: Path, fault: str, check: str, path: str) -> None:
    folder = str(fake.write(tmp_path, [fake.record("hello there")]))
    with fake.serving(fake.Fake(fault)) as url:
        done = node(url, "toy", folder)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [(line["check"], line["difference"]["path"]) for line in said if not line["ok"]]
    assert wrong == [(check, path)]
    assert done.returncode == 1


@pytest.mark.parametrize("own", ["/srv/toy", "my/own", '"$&"'])
def test_the_model_may_have_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str) -> None:
    """In requests, answers, JSON within texts, and errors, which say no path."""
    render = "/v1/chat/completions/render"
    case, recording = fake.record("hello there")
    written = {"method": "POST", "path": render, "text": json.dumps(fake.request())}
    headers = {"content-type": "application/json"}
    as_text = {**case, "id": "toy/text", "api": "http", "request": written}
    as_text.pop("output")
    unknown = {**as_text, "id": "toy/unknown", "request": {**written, "text": '{"model": "nix"}'}}
    known = recording["render"]
    aliases = "The model `nix` does not exist. Valid aliases: {}."
    pairs = [(case, recording)]
    pairs.append((as_text, {"id": "toy/text", "status": 200, "headers": headers, "body": known}))
    error = {"error": fake._error("NotFoundError", "model", aliases.format(fake.MODEL))["error"]}
    pairs.append((unknown, {"id": "toy/unknown", "status": 400, "headers": headers, "body": error}))
    folder = str(fake.write(tmp_path, pairs))
    right = fake.Fake._answer

    def answer(self: fake.Fake, path: str, body: fake.Json) -> tuple[int, Any]:
        if body and body.get("model") == "nix":
            said = aliases.format("<path>") if own.startswith("/") else aliases.format(own)
            return 400, fake._error("NotFoundError", "model", said)
        return right(self, path, body)

    monkeypatch.setattr(fake.Fake, "_answer", answer)
    monkeypatch.setattr(fake, "MODEL", own)
    with fake.serving(fake.Fake()) as url:
        done = node(url, "toy", folder)
    assert [line for line in map(json.loads, done.stdout.splitlines()) if not line["ok"]] == []
    assert "5 checks equal, 0 different" in done.stderr


def test_a_call_without_an_answer_is_a_difference_of_its_case(tmp_path: Path) -> None:
    """As long as others are answered: one of a server that is gone ends the run."""
    pairs = [fake.record("hello there"), fake.record("(f1)")]
    folder = str(fake.write(tmp_path, pairs))
    answered = fake.replying(fake.Fake())
    gone: list[str] = []

    def reply(path: str, headers: Message, sent: bytes) -> tuple[int, bytes] | None:
        if path.endswith("/derender") and sent != b"{}":
            gone.append(path)
            return None
        return answered(path, headers, sent)

    def dying(path: str, headers: Message, sent: bytes) -> tuple[int, bytes] | None:
        return None if gone else reply(path, headers, sent)

    with fake.listening(reply) as url:
        done = node(url, "toy", folder)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["ok"] for line in said] == [True, False, False] * 2
    assert "/derender: " in said[1]["difference"]["got"]
    assert done.returncode == 1
    gone.clear()
    with fake.listening(dying) as url:
        done = node(url, "toy", folder)
    assert len(done.stdout.splitlines()) == 1
    assert f"{url}/v1/models: " in done.stderr
    assert done.returncode == 2


LATE = """
const real = fetch;
let last;
AbortSignal.timeout = (ms) => (last = ms === 60_000 ? new AbortController() : null).signal;
globalThis.fetch = (url, options) => {
  const asked = url.endsWith("/derender") && options.body !== "{}";
  if (asked) last.abort(new DOMException("late", "TimeoutError"));
  return real(url, options);
};
"""
"""Time runs out at once where something is derendered."""


@pytest.mark.parametrize(("cases", "status"), [(2, 1), (3, 2)])
def test_a_call_that_takes_too_long(tmp_path: Path, cases: int, status: int) -> None:
    """It is none, and with the fifth the server is."""
    folder = fake.write(tmp_path / "golden", [fake.record(text) for text in ("hello", "(f1)", "ab")[:cases]])
    (tmp_path / "late.mjs").write_text(LATE)
    with fake.serving(fake.Fake()) as url:
        done = node(url, "toy", str(folder), options=["--import", str(tmp_path / "late.mjs")])
    said = [json.loads(line)["ok"] for line in done.stdout.splitlines()]
    assert said == ([True, False, False] * 3)[: 6 if cases == 2 else 7]
    assert done.returncode == status


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
