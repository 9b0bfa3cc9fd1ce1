"""What replicas must have in common: the hash that tells, in /version, in states, and over replicas."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from renderd.demo import model_dir
from renderd.server.config import ServerConfig, StartupError
from renderd.server.startup import load

from .running import running

PLUGIN = """
from dataclasses import replace

from parsers import register
from parsers.families.hermes import TOOLS

register(replace(TOOLS, names=("{name}",)))
"""


def parts_of(**flags: Any) -> dict[str, str]:
    """The parts of the fingerprint of a server, and the whole of it."""
    services, _ = load(ServerConfig(**flags))
    return {**services.fingerprint_parts, "": services.fingerprint}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the carried model."""
    copy = tmp_path / "somewhere" / "else"
    shutil.copytree(model_dir(), copy)
    return copy


def changed(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text("utf-8")) if path.exists() else {}
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    assert len(one[""]) == 16 and len(one["state"]) == 8
    assert (one[""] == other[""]) == (one == other)
    return [name for name in one if name and one[name] != other[name]]


def test_paths_names_ports_and_limits_do_not_count(model: Path) -> None:
    here = parts_of()
    there = parts_of(
        model=str(model),
        served_model_name=["a", "b"],
        host="127.0.0.1",
        port=1,
        api_key=["secret"],
        renderer_num_workers=7,
        max_logprobs=3,
        trust_request_chat_template=True,
        uvicorn_log_level="error",
    )
    assert here == there


@pytest.mark.parametrize(
    ("part", "flags"),
    [
        ("template", {"chat_template": "{{ messages }}"}),
        ("template", {"chat_template_content_format": "openai"}),
        ("template", {"default_chat_template_kwargs": {"enable_thinking": False}}),
        ("template", {"reasoning_effort_map": {"low": "high"}}),
        ("template", {"exclude_tools_when_tool_choice_none": True}),
        ("parsers", {"reasoning_parser": "qwen3"}),
        ("parsers", {"tool_call_parser": "hermes", "enable_auto_tool_choice": True}),
        ("parsers", {"tool_strict_level": "function"}),
        ("parsers", {"response_role": "model"}),
        ("defaults", {"max_model_len": 100}),
        ("defaults", {"override_generation_config": {"temperature": 0.25}}),
        ("state", {"stream_state": "replayable"}),
        ("state", {"max_undecided_bytes": 1000}),
    ],
)
def test_what_changes_answers_counts(part: str, flags: dict[str, Any]) -> None:
    assert differing(parts_of(), parts_of(**flags)) == [part]


@pytest.mark.parametrize(
    ("part", "file", "change"),
    [
        ("tokenizer", "tokenizer.json", lambda content: content["model"]["merges"].pop()),
        ("tokenizer", "tokenizer_config.json", lambda content: content.update(x=1)),
        ("template", "chat_template.jinja", None),
        ("defaults", "generation_config.json", lambda content: content.update(temperature=0.5)),
        ("defaults", "config.json", lambda content: content.update(model_type="other")),
    ],
)
def test_files_count(model: Path, part: str, file: str, change: Callable[[Any], None] | None) -> None:
    if change is not None:
        changed(model / file, change)
    else:
        (model / file).write_text("{{ messages[0].content }}", "utf-8")
    assert differing(parts_of(), parts_of(model=str(model))) == [part]


def test_plugins_count_by_their_text(tmp_path: Path) -> None:
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file in files:
        file.write_text(PLUGIN.format(name="own"), "utf-8")
    flags = {"tool_call_parser": "own", "enable_auto_tool_choice": True}
    code = (
        "import sys; from tests.server.test_fingerprint import parts_of; print(parts_of(**eval(sys.argv[1])))"
    )

    def found(file: Path) -> Any:
        """In a process of its own: a plug-in registers its parsers once."""
        asked = repr({**flags, "tool_parser_plugin": str(file)})
        ran = subprocess.run([sys.executable, "-c", code, asked], capture_output=True, text=True, check=True)
        return eval(ran.stdout)

    one = found(files[0])
    assert one == found(files[1])
    files[1].write_text(PLUGIN.format(name="own") + "# changed\n", "utf-8")
    assert differing(one, found(files[1])) == ["parsers"]


def test_a_plugin_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("renderd.server.parsing.load_file", lambda path: None)
    with pytest.raises(StartupError, match="cannot be read"):
        parts_of(tool_parser_plugin=str(tmp_path / "none.py"))


def test_replicas_compared() -> None:
    """Two real servers of a kind and one of another."""
    with running() as one, running("--served-model-name", "x") as two:
        urls = [one.url, two.url]
        said = one.get("/version")
        assert said.headers["x-renderd-fingerprint"] == said.json()["fingerprint"]
        assert said.json()["fingerprint"] == two.get("/version").json()["fingerprint"]
        assert _compare(urls) == 0
        with running("--reasoning-parser", "qwen3") as three:
            assert _compare([*urls, three.url]) == 1
    assert _compare(urls) == 1


def _compare(urls: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "renderd", "fingerprint", *urls]).returncode
