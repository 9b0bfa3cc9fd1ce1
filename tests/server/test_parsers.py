"""Which parsers a server gets, and `renderd parsers`."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from golden.models import model_path
from parsers import ReasoningGrammar, ToolGrammar, registry
from parsers.grammar import Signs
from renderd.model import Model, ModelConfig, load_model
from renderd.server.config import ServerConfig, StartupError
from renderd.server.list_parsers import main
from renderd.server.parsing import load_parsers

PLUGIN = """
from parsers import ToolGrammar, register
register(ToolGrammar(names=("plugged",), models="A model", format="<<call>>"))
"""


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REASONING", list(registry._REASONING))
    monkeypatch.setattr(registry, "_TOOLS", list(registry._TOOLS))


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(ModelConfig(str(model_path("qwen3"))))


def config(**flags: Any) -> ServerConfig:
    return replace(ServerConfig(enable_auto_tool_choice=True), **flags)


def test_a_plugin_brings_its_parsers(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN, encoding="utf-8")
    parsing = load_parsers(config(tool_parser_plugin=str(path), tool_call_parser="plugged"), model)
    assert parsing.tools == "plugged"
    assert parsing.family is not None
    assert parsing.family.has_tools


def test_a_plugin_of_vllms_stops_the_server(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text("from vllm.reasoning import ReasoningParser\n", encoding="utf-8")
    with pytest.raises(StartupError, match="written for vLLM's parser classes"):
        load_parsers(config(reasoning_parser_plugin=str(path)), model)


def test_auto_takes_what_the_model_shows(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    signs = (Signs(template=tuple(f"<|im_{word}|>" for word in ("start", "end")) * 9),)
    registry.register(ReasoningGrammar(names=("r9",), signs=signs), ToolGrammar(names=("t9",), signs=signs))
    with caplog.at_level(logging.INFO, "renderd.server"):
        parsing = load_parsers(config(reasoning_parser="auto", tool_call_parser="auto"), model)
    assert (parsing.reasoning, parsing.tools) == ("r9", "t9")
    assert "--tool-call-parser auto is t9: the chat template has '<|im_start|>'" in caplog.text


def test_auto_says_why_it_takes_none(
    model: Model, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_REASONING", [])
    parsing = load_parsers(config(reasoning_parser="auto"), model)
    assert parsing.family is None
    assert "--reasoning-parser auto is none: chat template, vocabulary and model type" in caplog.text


def test_the_parsers_of_a_gpt_oss_model_are_its_own(caplog: pytest.LogCaptureFixture) -> None:
    oss = load_model(ModelConfig(str(model_path("gptoss"))))

    def told(**flags: Any) -> tuple[str | None, str | None, list[str]]:
        caplog.clear()
        with caplog.at_level(logging.INFO, "renderd.server"):
            parsing = load_parsers(config(**flags), oss)
        lines = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
        return parsing.reasoning, parsing.tools, lines

    own = "openai_gptoss"
    assert told() == (own, None, [])
    assert told(reasoning_parser=own, tool_call_parser="openai") == (own, "openai", [])
    replaced = "WARNING --tool-call-parser is openai, not hermes: the model answers in Harmony"
    assert told(tool_call_parser="hermes") == (own, "openai", [replaced])
    replaced = "WARNING --reasoning-parser is openai_gptoss, not qwen3: the model answers in Harmony"
    assert told(reasoning_parser="qwen3") == (own, None, [replaced])
    chosen = [
        "INFO --reasoning-parser auto is openai_gptoss: the model answers in Harmony",
        "INFO --tool-call-parser auto is openai: the model answers in Harmony",
    ]
    assert told(reasoning_parser="auto", tool_call_parser="auto") == (own, "openai", chosen)
    for flag in ("reasoning_parser", "tool_call_parser"):
        with pytest.raises(StartupError, match="nope"):
            told(**{flag: "nope"})


def test_framings_are_not_mixed(model: Model) -> None:
    registry.register(ReasoningGrammar(names=("framed",), framing="frame"))
    with pytest.raises(
        StartupError, match="--reasoning-parser framed and --tool-call-parser hermes cannot be combined"
    ):
        load_parsers(config(reasoning_parser="framed", tool_call_parser="hermes"), model)


@pytest.mark.parametrize(("value", "enforced"), [("0", False), ("false", False), ("1", True), ("", True)])
def test_whether_tags_are_enforced(
    model: Model, monkeypatch: pytest.MonkeyPatch, value: str, enforced: bool
) -> None:
    monkeypatch.setenv("VLLM_ENFORCE_STRICT_TOOL_CALLING", value)
    family = load_parsers(config(tool_call_parser="hermes"), model).family
    assert family is not None
    assert family.enforces_tags is enforced


def test_a_wrong_switch_stops_the_server(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ENFORCE_STRICT_TOOL_CALLING", "perhaps")
    with pytest.raises(StartupError, match="must be 0 or 1, not 'perhaps'"):
        load_parsers(config(tool_call_parser="hermes"), model)


def test_the_command_lists_every_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN, encoding="utf-8")
    assert main(["--tool-parser-plugin", str(path)]) == 0
    table = capsys.readouterr().out
    assert table.startswith("--reasoning-parser\n")
    for grammar in (*registry.reasoning_grammars(), *registry.tool_grammars()):
        assert ", ".join(grammar.names)[:20] in table
    assert any(line.split() == ["plugged", "A", "model", "<<call>>"] for line in table.splitlines())
    assert main(["--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    names = [name for row in listed["tools"] for name in (row["name"], *row["aliases"])]
    assert sorted(names) == sorted(name for grammar in registry.tool_grammars() for name in grammar.names)


def test_the_command_shows_what_auto_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(model_path("qwen3"))]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("--reasoning-parser ")
    assert second.startswith("--tool-call-parser ")
    assert main([str(model_path("qwen3")), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["--reasoning-parser", "--tool-call-parser"]


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tool-parser-plugin", "/nowhere/plugin.py"]) == 1
    assert "renderd parsers: error: the parser plugin /nowhere/plugin.py" in capsys.readouterr().err
