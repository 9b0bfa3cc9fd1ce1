"""Which cases fit a server, what it does not offer, and the cases that a wheel carries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import fake
import pytest

from golden.models import model_path
from hatch_build import pack
from renderd.conformance import fitting, main
from renderd.conformance.cases import Golden, failure
from renderd.conformance.checks import Server
from renderd.conformance.client import Client
from renderd.conformance.divergences import Divergences
from renderd.conformance.main import GOLDEN
from renderd.conformance.runner import Result, replay

ROOT = Path(__file__).parents[2]
PAIRS = [fake.record("hello there"), fake.record("a(f12345)b(g)"), fake.record("cut(fhalf", "length")]
DERENDER, RENDER = "/v1/chat/completions/derender", "/v1/chat/completions/render"


def run(folder: Path, server: fake.Fake) -> list[Result]:
    with fake.serving(server) as url:
        return replay(Client(url), Golden(folder), Divergences([]), fake.SERVER)


def outcomes(results: list[Result]) -> list[str]:
    return [result.outcome() for result in results]


def test_what_is_not_offered_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fake.write(tmp_path, PAIRS)
    results = run(folder, fake.Fake(lacks=[DERENDER]))
    assert outcomes(results) == ["absent"] * 3
    assert [result.outcome("render") for result in results] == ["pass"] * 3
    assert outcomes(run(folder, fake.Fake("always_max_tokens", lacks=[DERENDER]))) == ["fail"] * 3
    with fake.serving(fake.Fake(lacks=[DERENDER, RENDER])) as url:
        assert main.main(["--url", url, "--cases", str(folder), "--server", "toy"]) == 1
    assert "toy: 3 cases: 3 not offered" in capsys.readouterr().out


def test_a_route_that_is_not_offered(tmp_path: Path) -> None:
    case = {"id": "toy/tokens", "server": fake.SERVER, "api": "http", "areas": ["http"]}
    case["request"] = {"method": "POST", "path": "/tokenize", "json": {"prompt": "ab"}}
    recording = {"id": "toy/tokens", "body": {"tokens": [97, 98]}}
    folder = fake.write(tmp_path, [(case, recording)])
    assert outcomes(run(folder, fake.Fake(lacks=["/tokenize"]))) == ["absent"]
    assert outcomes(run(folder, fake.Fake())) == ["pass"]


@pytest.mark.parametrize("lacks", [[], ["/tokenize"]])
def test_the_ids_show_another_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lacks: list[str]
) -> None:
    folder = fake.write(tmp_path, PAIRS)
    with fake.serving(fake.Fake("other_tokenizer", lacks=lacks)) as url:
        arguments = ["--url", url, "--cases", str(folder)]
        if lacks:  # the completions' render route says the same ids as ever
            assert main.main(arguments) == 0
            return
        assert main.main([*arguments, "--server", "toy"]) == 1
        out = capsys.readouterr().out
        assert "3 cases: 3 not fitting" in out
        assert (
            "toy: 3 of 3 cases do not fit this server, more than 5%. The first: toy/hello there-stop" in out
        )
        assert main.main(arguments) == 2
        assert "no configuration in servers.toml fits" in capsys.readouterr().err


@pytest.mark.parametrize("mode", [["--server", "toy"], [], ["--invariants"]])
def test_no_case_of_that_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: list[str]) -> None:
    folder = fake.write(tmp_path, PAIRS)
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, "--cases", str(folder), *mode, "--case", "nix"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "is called nix" in said.err


def test_a_case_among_others_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fake.write(tmp_path, PAIRS)
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, "--cases", str(folder), "--case", "*hello*", "--case", "nix"]) == 2
    assert "no case of toy in vllm-0.33.0 is called nix" in capsys.readouterr().err


def configuration(folder: Path, name: str, pairs: list[tuple[fake.Json, fake.Json]], more: str = "") -> None:
    """Add one, whose flags are the toy's and more."""
    for where, column in (("cases", 0), ("recorded/vllm-0.33.0", 1)):
        text = "".join(json.dumps(pair[column]) + "\n" for pair in pairs)
        (folder / where / f"{name}.jsonl").write_text(text.replace("toy/", f"{name}/"))
    with (folder / "servers.toml").open("a") as file:
        file.write(f'[{name}]\nmodel = "toy"\nflags = ["--served-model-name", "{fake.MODEL}"{more}]\n')


def test_several_configurations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fake.write(tmp_path, PAIRS)
    configuration(folder, "other", [fake.record("ab")])
    named = ["--server", "other", "--server", "toy", "--server", "other"]
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, "--cases", str(folder), *named]) == 0
        assert "other, toy: 4 cases: 4 pass" in capsys.readouterr().out
        assert main.main(["--url", url, "--cases", str(folder), *named, "--server", "nix"]) == 2


def test_the_nearest_of_those_that_are_not_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every max_tokens is another, and derender shows which of the two it is."""
    folder = fake.write(tmp_path, PAIRS)
    other = [fake.record("(a)"), fake.record("b(f2)")]
    for _, recording in other:
        recording["batch"]["choices"][0]["message"] |= {"content": "another", "tool_calls": None}
    configuration(folder, "other", other, ', "--tool-call-parser", "b"')
    with fake.serving(fake.Fake("always_max_tokens")) as url:
        assert main.main(["--url", url, "--cases", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert "toy: 3 cases: 3 fail" in out
    assert "as recorded:\n  toy, started with" in err
    assert "nearer to this server's:\n  other, started with" in err


def test_a_server_under_another_name(tmp_path: Path) -> None:
    folder = fake.write(tmp_path, PAIRS)
    text = (folder / "servers.toml").read_text().replace(fake.MODEL, "recorded-as")
    (folder / "servers.toml").write_text(text)
    for path in folder.glob("*/**/*.jsonl"):
        path.write_text(path.read_text().replace(fake.MODEL, "recorded-as"))
    assert outcomes(run(folder, fake.Fake())) == ["pass"] * 3


def test_errors_name_the_model_as_it_is_served() -> None:
    server = Server(Client("http://127.0.0.1:1"), "own/name", "qwen3")
    for said in ("The model `x` does not exist. Valid aliases: {}.", "{} is not a multimodal model"):
        told, own = ({"message": said.format(name)} for name in ("qwen3", "own/name"))
        assert server.renamed(told) == own
        for path in ("<path>", "<path>/v", "/data<path>"):
            masked = failure(404, {"error": {"message": said.format(path)}})
            assert server.named(masked)["message"] == own["message"]
    masked = failure(404, {"error": {"message": "The model `x` does not exist. Valid aliases: <path>"}})
    assert server.named(masked)["message"] == "The model `x` does not exist. Valid aliases: own/name."


@pytest.mark.parametrize(
    ("fault", "failed", "said"),
    [
        ("always_max_tokens", "3", True),
        ("drops_last_character", "3", True),
        ("no_derender", "3", True),
        ("random_ids", "1 pass, 2", False),
    ],
)
def test_a_server_with_faults_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, failed: str, said: bool
) -> None:
    folder = fake.write(tmp_path, PAIRS)
    with fake.serving(Broken() if fault == "no_derender" else fake.Fake(fault)) as url:
        assert main.main(["--url", url, "--cases", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert f"toy: 3 cases: {failed} fail" in out
    assert "\ntoy, of which cases failed, was recorded with --served-model-name toy-model\n" in out
    sentence = (
        "No configuration is answered alike. Of these the prompts are as recorded:\n  toy, started with"
    )
    assert (sentence in err) == said


class Broken(fake.Fake):
    """Its derender answers 500 to everything."""

    def batch(self, body: fake.Json) -> tuple[int, fake.Json]:
        return 500, {}

    stream = batch


def test_the_nearest_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [fake.record(text) for text in ("(f1)", "(f2)", "(f3)")]
    for _, recording in pairs[1:]:
        recording["prompt_token_ids"] = recording["render"]["token_ids"] = [1, 2]
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, "--cases", str(fake.write(tmp_path, pairs))]) == 2
    said = capsys.readouterr().err
    assert "Nearest is toy: 1 of 3 prompts, of which 80% are wanted" in said
    assert "--served-model-name toy-model. --server toy replays it all the same" in said


def test_the_flags_of_one_configuration_are_those_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # "shown" has render cases alone, so it is right whatever derender says. "other" has other parsers.
    folder = fake.write(tmp_path, PAIRS)
    shown, other = [fake.record("ab"), fake.record("ba")], [fake.record("(a)"), fake.record("b(f2)")]
    for case, recording in shown:
        del case["output"]
        for key in ("generate", "generate_sse", "batch", "stream"):
            del recording[key]
    for _, recording in other:
        recording["batch"]["choices"][0]["message"] |= {"content": "another", "tool_calls": None}
    configuration(folder, "shown", shown)
    configuration(folder, "other", other, ', "--tool-call-parser", "b"')

    def asked(server: fake.Fake) -> tuple[int, str, str]:
        with fake.serving(server) as url:
            status = main.main(["--url", url, "--cases", str(folder)])
        return status, *capsys.readouterr()

    status, out, err = asked(fake.Fake())
    assert status == 0, out
    assert "toy, shown: 5 cases: 5 pass" in out
    assert (
        "Not replayed, as another configuration's answers are nearer to this server's:\n  other, started"
        in err
    )
    status, out, _ = asked(Broken())
    assert status == 1
    assert "toy, shown, other: 7 cases: 2 pass, 5 fail" in out


def test_what_is_not_offered_tells_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fake.write(tmp_path, PAIRS)
    lacking = [fake.record(f"a{number}") for number in range(9)]
    for case, recording in lacking:
        del case["output"]
        case |= {"api": "http", "request": {"method": "POST", "path": "/v1/none", "json": {}}}
        recording |= {"status": 400, "body": {}, "generate": None, "generate_sse": None}
    configuration(folder, "lacking", lacking)
    configuration(folder, "other", PAIRS[:1], ', "--tool-call-parser", "b"')
    with fake.serving(fake.Fake(lacks=[DERENDER, "/v1/none"])) as url:
        assert main.main(["--url", url, "--cases", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert "toy, lacking, other: 13 cases: 13 not offered" in out
    assert f"{url} offers nothing of what was asked that fits it" in out
    assert "is answered alike" not in err


def test_one_output_with_other_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [fake.record(f"({number})") for number in range(9)]
    folder = fake.write(tmp_path, pairs)
    strange = [pairs[0][0]["id"]]
    right = fitting.other_tokens
    monkeypatch.setattr(fitting, "other_tokens", lambda s, c, r: c.id in strange or right(s, c, r))
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, "--cases", str(folder)]) == 0
        strange.append(pairs[1][0]["id"])
        assert main.main(["--url", url, "--cases", str(folder)]) == 2
    assert "no configuration in servers.toml fits" in capsys.readouterr().err


def test_a_reference_of_one_that_cannot_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fake.write(tmp_path, PAIRS)
    with fake.serving(fake.Fake("always_max_tokens")) as url:
        arguments = ["record", "--url", url, "--cases", str(folder), "--name", "x", "--into", str(tmp_path)]
        assert main.main(arguments) == 2
        assert "--server says which of these it is: toy" in capsys.readouterr().err
        assert main.main([*arguments, "--server", "toy"]) == 0


def test_the_folder_of_a_model() -> None:
    good = {fit.server for fit in fitting.fits_folder(Golden(GOLDEN), model_path("qwen3")) if fit.good}
    assert {"qwen3-hermes", "qwen3-coder", "messages-qwen3"} <= good
    assert not {"llama3-json", "deepseek-v3", "gpt-oss", "gemma4"} & good


def test_what_a_folder_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--model-dir", str(model_path("gptoss"))]) == 0
    out = capsys.readouterr().out
    assert "matrix-gpt-oss: 39 of 39 outputs of its model have the recorded ids; started with VLLM_" in out
    assert "No outputs show the tokenizer of deepseek-v3, matrix-deepseek, " in out


def test_a_folder_without_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--model-dir", str(tmp_path)]) == 2
    assert "tokenizer.json" in capsys.readouterr().err


def test_the_archive_holds_the_same(tmp_path: Path) -> None:
    assert isinstance(GOLDEN, Path)
    pack(GOLDEN, tmp_path / "a.zip")
    packed = zipfile.Path(tmp_path / "a.zip")
    ours, theirs = Golden(GOLDEN), Golden(packed)
    assert ours.servers == theirs.servers
    for name in ("qwen3-hermes", "engine"):
        assert ours.cases(name) == theirs.cases(name)
        assert ours.recordings(name) == theirs.recordings(name)
    entries = [Divergences.load(folder / "divergences.toml").entries for folder in (GOLDEN, packed)]
    assert entries[0] == entries[1]


def test_from_a_wheel_alone(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 4_000_000
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    # `-P`, a folder elsewhere and the extracted files first: nothing of this checkout is found.
    code = "import sys, renderd; from renderd.cli import main; print(renderd.__file__); sys.exit(main())"
    command = [sys.executable, "-P", "-c", code, "conformance"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    done = run("--model-dir", str(model_path("qwen3")))
    assert str(tmp_path) in done.stdout.splitlines()[0]
    assert "qwen3-hermes: " in done.stdout, json.dumps([done.stdout, done.stderr])
    assert done.returncode == 0
    done = run("diff", "vllm-0.32.0", "vllm-0.33.0", "--server", "llama3-json")
    assert "vllm-0.32.0 -> vllm-0.33.0: 86 cases in both, " in done.stdout, done.stderr
    assert done.returncode == 1
